(** Must be refused: who gave a number back gives it back again. It is somebody else's by then, or free. *)
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import Slots.
Definition gives_back_twice : val := λ: "w",
  match: claim "w" #0 with NONE => #() | SOME "i" => give_back "w" "i";; give_back "w" "i" end.
Lemma gives_back_twice_spec `{!heapGS Σ} (R : nat → iProp Σ) (w : loc) :
  {{{ is_slots R w }}} gives_back_twice #w {{{ RET #(); True }}}.
Proof.
  iIntros (Φ) "#Hs HΦ". wp_lam. wp_apply (claim_spec R w 0 with "Hs"); first lia.
  iIntros (v) "[->|(%k & [-> %Hk] & HR)]"; wp_pures; first by iApply "HΦ".
  wp_apply (give_back_spec R w k with "[$Hs $HR]"); first done. iIntros "_". wp_pures.
  wp_apply (give_back_spec R w k with "[-HΦ]"); first done.
  { iFrame "Hs".
    iApply "HR". (* refused: "HR" not found *)
  }
  iIntros "_". by iApply "HΦ".
Qed.
