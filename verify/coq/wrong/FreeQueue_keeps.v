(** Must be refused: who pushed a block still uses it. *)
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import Spin FreeQueue.
Definition push_and_use : val := λ: "q" "c", push "q" "c";; use "c" #1.
Lemma push_and_use_spec `{!heapGS Σ} (q c : loc) (n : Z) :
  {{{ is_queue cell q ∗ c ↦ #n }}} push_and_use #q #c {{{ RET #(); True }}}.
Proof.
  iIntros (Φ) "[#Hq Hc] HΦ". wp_lam. wp_pures.
  wp_apply (push_spec cell with "[$Hq Hc]"); first by iExists c, _; iFrame. iIntros "_". wp_pures.
  wp_apply (use_spec with "[-HΦ]").
  { iApply "Hc". (* refused: "Hc" not found *)
  }
  iIntros "_". by iApply "HΦ".
Qed.
