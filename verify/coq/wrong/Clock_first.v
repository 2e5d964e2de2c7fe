(** Must be refused: `Hazards` that keep the first tick of a stream, not the highest, lose the others. *)
From Coq Require Import Arith List Lia.
From Verify Require Import Clock.
Import ListNotations.
Fixpoint add_first (hs : list stamp) (s : stamp) : list stamp :=
  match hs with
  | [] => [s]
  | h :: hs' => if Nat.eqb (stream h) (stream s) then h :: hs' else h :: add_first hs' s
  end.
Lemma add_first_stands_for hs s : stands_for (add_first hs s) s.
Proof.
  induction hs as [|h hs IH]; simpl.
  - exists s; simpl; auto.
  - destruct (Nat.eqb (stream h) (stream s)) eqn:E.
    + apply Nat.eqb_eq in E. exists h; split; [left; reflexivity|]. split; [exact E|].
      lia. (* refused: Cannot find witness *)
    + destruct IH as [h' [I K]]; exists h'; simpl; auto.
Qed.
