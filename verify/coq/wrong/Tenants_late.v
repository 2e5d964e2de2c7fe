(** Must be refused: a queue that goes to the turn of each request that goes, though an earlier one waits. Tenant 1 sends seven, of which the
    first and the last are of one kind; then tenant 2 sends one. The two of one kind go in one batch. The next turn of tenant 2 is then that
    of the last, behind all that tenant 1 has sent: five of tenant 1 go, and what is bounded would be two. *)
From Coq Require Import Arith List Lia.
From Verify Require Import Tenants.
Import ListNotations.
Definition next (goes_to : nat -> list request -> nat) (s : state) (e : event) : state :=
  match e with
  | Comes i c => let begin := Nat.max (reached s) (ends s i) in
    State (set (ends s) i (begin + c)) (reached s) (waiting s ++ [Request i begin c]) (given s) (early s)
  | Goes r =>
    let rest := filter (fun o => negb (Nat.eqb (who o) (who r) && Nat.eqb (turn o) (turn r))) (waiting s) in
    let now := Nat.max (reached s) (goes_to (turn r) rest) in
    State (ends s) now rest (given s) (if Nat.ltb now (turn r) then r :: early s else early s)
  | GivesUp _ => s
  end.
Definition before := repeat (Comes 1 1) 7 ++ [Comes 2 1; Goes (Request 1 0 1); Goes (Request 1 6 1); Comes 2 1; Goes (Request 2 0 1)].
Definition then_go := map (fun n => Goes (Request 1 n 1)) [1; 2; 3; 4; 5].
Definition has_its_share goes_to :=
  let s := fold_left (next goes_to) before start in
  let s' := fold_left (next goes_to) then_go s in
  Forall (fun n => waits 2 (fold_left (next goes_to) (firstn n then_go) s) = true) (seq 0 6) /\
  served 1 then_go <= served 2 then_go + 1 + 1 + given s 1 + ahead 2 s + ahead 1 s'.
Lemma with_what_waits : has_its_share least.
Proof. split; [repeat constructor|vm_compute; lia]. Qed.
Lemma without : has_its_share (fun turn _ => turn).
Proof.
  split; [repeat constructor|]. vm_compute.
  lia. (* refused: Cannot find witness *)
Qed.
