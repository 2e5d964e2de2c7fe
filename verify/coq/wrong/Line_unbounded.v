(** Must be refused: who may be overtaken without end is not overtaken a bounded number of times. *)
From Coq Require Import Arith List Lia Bool.
From Verify Require Import Line.
Import ListNotations.
Definition overtaken_free (o : one) : one := One (name o) (urgent o) (left o) (passed o + 1).
Lemma still_fair o k : fair k o -> 0 < left o -> fair k (overtaken_free o).
Proof.
  unfold fair, overtaken_free; simpl; intros.
  lia. (* refused: Cannot find witness *)
Qed.
