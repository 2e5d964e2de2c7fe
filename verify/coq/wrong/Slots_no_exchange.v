(** Must be refused: a claim that looks and then stores. Somebody else may have claimed the number in between. *)
From iris.base_logic.lib Require Import invariants.
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import Slots.
Definition claim_one : val := λ: "w" "i",
  let: "old" := !"w" in
  if: BinOp AndOp ("old" ≫ "i") #1 = #0 then NONE
  else "w" <- BinOp XorOp "old" (#1 ≪ "i");; SOME "i".
Lemma claim_one_spec `{!heapGS Σ} (R : nat → iProp Σ) w (i : nat) :
  i < 64 →
  {{{ is_slots R w }}} claim_one #w #i {{{ v, RET v; ⌜v = NONEV⌝ ∨ ⌜v = SOMEV #i⌝ ∗ R i }}}.
Proof.
  iIntros (Hi Φ) "#Hinv HΦ". wp_lam. wp_pures.
  wp_bind (! _)%E. iInv "Hinv" as (n) "[Hw Hall]". wp_load. iModIntro. iSplitL "Hw Hall".
  { iNext. iExists n. iFrame. }
  wp_pures. rewrite bit_of. case_bool_decide as B; wp_pures; first by iApply "HΦ"; iLeft.
  assert (Z.testbit n i = true) as T by (destruct (Z.testbit n i); [done|by destruct B]).
  wp_bind (_ <- _)%E. iInv "Hinv" as (m) "[Hw Hall]". wp_store.
  (* What is free in the word of now, `m`, is not what was free in that of before, `n`. *)
  iDestruct (all_change R m (Z.lxor n (1 ≪ i)) i Hi with "Hall") as "[Hi Hall]".
  { intros j D. rewrite (xor_bit n i j D).
    reflexivity. (* refused: Unable to unify "Z.testbit m j" with "Z.testbit n j" *)
  }
Abort.
