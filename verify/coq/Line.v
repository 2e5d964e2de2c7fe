(** Bounded overtaking in the line of those that wait for a turn, for any number of threads.
    Code: crates/model/src/session/turns.rs (`State::line_up`, `next`). *)
From Coq Require Import Arith List Lia Bool.
Import ListNotations.

Section Line.
Variable overtakes : nat.   (* `OVERTAKES` *)

(** One that waits; how often it may still be overtaken; and, not in the code, by how many that came later it was. *)
Record one := One { name : nat; urgent : bool; left : nat; passed : nat }.

Definition can_overtake (o : one) : bool := negb (urgent o) && Nat.ltb 0 (left o).
Definition overtaken (o : one) : one := One (name o) (urgent o) (left o - 1) (passed o + 1).
Definition comes (n : nat) (u : bool) : one := One n u overtakes 0.

(** `line_up`. The line is kept with its end first here, as the code goes through it: `iter().rev().take_while(..)`. *)
Fixpoint line_up (new : one) (line : list one) : list one :=
  match line with
  | o :: rest => if can_overtake o then overtaken o :: line_up new rest else new :: line
  | [] => [new]
  end.
Definition enters (n : nat) (u : bool) (line : list one) : list one :=
  if u then line_up (comes n u) line else comes n u :: line.

(** What happens to a line: somebody comes; the first goes (the last of this list); somebody's time is up. *)
Inductive step : list one -> list one -> Prop :=
| Comes n u line : step line (enters n u line)
| Goes o line : step (line ++ [o]) line
| GivesUp o front back : step (back ++ o :: front) (back ++ front).
Inductive reached : list one -> Prop :=
| Empty : reached []
| Step line line' : reached line -> step line line' -> reached line'.

Definition fair (o : one) := passed o + left o = overtakes.

Lemma line_up_fair new line : fair new -> Forall fair line -> Forall fair (line_up new line).
Proof.
  intros N F; induction F as [|o rest Fo Fr IH]; simpl; [auto|].
  destruct (can_overtake o) eqn:E; [|auto].
  constructor; [|exact IH].
  unfold can_overtake in E; apply andb_prop in E; destruct E as [_ E]; apply Nat.ltb_lt in E.
  unfold fair, overtaken in *; simpl; lia.
Qed.

(** Nobody is overtaken more often than so, whoever comes and goes. *)
Theorem bounded_overtaking line : reached line -> Forall (fun o => passed o <= overtakes) line.
Proof.
  intros R. assert (F : Forall fair line).
  { induction R as [|line line' R IH S]; [constructor|].
    destruct S as [n u line|o line|o front back].
    - assert (fair (comes n u)) by (unfold fair, comes; simpl; lia).
      unfold enters; destruct u; [apply line_up_fair; auto|constructor; auto].
    - apply Forall_app in IH; tauto.
    - apply Forall_app in IH; destruct IH as [A B]; inversion B; subst. apply Forall_app; auto. }
  eapply Forall_impl; [|exact F]. unfold fair; intros; lia.
Qed.

(** Who is urgent is overtaken by nobody, and who is not only by the urgent. *)
Lemma line_up_keeps_urgent new line o :
  In o (line_up new line) -> urgent o = true -> o = new \/ In o line.
Proof.
  induction line as [|x rest IH]; simpl; [intuition|].
  destruct (can_overtake x) eqn:E; simpl; intros [<-|I] U; auto.
  - unfold can_overtake in E; simpl in U; rewrite U in E; discriminate.
  - destruct (IH I U); auto.
Qed.

(** Where somebody stands: how many are before it, and so how many go before it if nobody else overtakes. Coming in puts at most one
    before it, and counts that. *)
Fixpoint before (n : nat) (line : list one) : option nat :=
  match line with
  | [] => None
  | o :: rest => if Nat.eqb (name o) n then Some (length rest) else before n rest
  end.
Fixpoint passes (n : nat) (line : list one) : nat :=
  match line with
  | [] => 0
  | o :: rest => if Nat.eqb (name o) n then passed o else passes n rest
  end.

Lemma length_line_up new line : length (line_up new line) = S (length line).
Proof. induction line as [|o rest IH]; simpl; [reflexivity|]. destruct (can_overtake o); simpl; auto. Qed.

Theorem a_place_is_lost_only_to_who_is_counted n m u line k :
  m <> n -> before n line = Some k ->
  exists k', before n (enters m u line) = Some k' /\ k' + passes n line = k + passes n (enters m u line).
Proof.
  intros D B; unfold enters; destruct u; simpl.
  - revert k B; induction line as [|o rest IH]; simpl; intros k B; [discriminate|].
    destruct (can_overtake o) eqn:E; simpl.
    + destruct (Nat.eqb (name o) n) eqn:N.
      * injection B as <-. rewrite length_line_up. exists (S (length rest)); split; [reflexivity|lia].
      * destruct (IH k B) as [k' [B' P]]; exists k'; auto.
    + destruct (Nat.eqb m n) eqn:M; [apply Nat.eqb_eq in M; congruence|].
      destruct (Nat.eqb (name o) n) eqn:N.
      * injection B as <-. exists (length rest); auto.
      * exists k; auto.
  - destruct (Nat.eqb m n) eqn:M; [apply Nat.eqb_eq in M; congruence|]. exists k; auto.
Qed.
End Line.

Print Assumptions bounded_overtaking.
Print Assumptions a_place_is_lost_only_to_who_is_counted.
