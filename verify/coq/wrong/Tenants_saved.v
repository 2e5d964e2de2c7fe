(** Must be refused: a turn that begins where the tenant's last one ended, however long ago that was. Who sent nothing has saved up turns
    then, and comes before all others until they are used up. *)
From Coq Require Import Arith List Lia.
From Verify Require Import Tenants.
Import ListNotations.
Definition comes_with_savings (s : state) (i c : nat) : state :=
  State (set (ends s) i (ends s i + c)) (reached s) (waiting s ++ [Request i (ends s i) c]) (given s) (early s).
Lemma nobody_who_waits_was_passed most s i c : fair most s ->
  Forall (fun r => reached s <= turn r) (waiting (comes_with_savings s i c)).
Proof.
  intros F; simpl. pose proof (f_ahead most s F i (reached s) (le_n _)).
  apply Forall_app; split; [apply (f_order most s F)|]. constructor; [simpl|constructor].
  lia. (* refused: Cannot find witness *)
Qed.
