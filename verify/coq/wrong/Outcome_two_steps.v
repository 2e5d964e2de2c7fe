(** Must be refused: an outcome that is looked at under the lock, and put under the lock when it was free in between. This is the bug
    that `cfg(planted)` puts into outcome.rs. *)
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import Spin Outcome.
Definition put : val := λ: "o" "v",
  acquire (Fst "o");;
  match: !(Snd "o") with
    InjL <> => release (Fst "o");; acquire (Fst "o");; Snd "o" <- InjR (InjL "v");; release (Fst "o");; #true
  | InjR <> => release (Fst "o");; #false
  end.
Lemma put_spec `{!heapGS Σ, !spinG Σ} (P : val → iProp Σ) γt γp o v :
  {{{ is_outcome P γt γp o ∗ P v }}} put o v {{{ b, RET #b; if b is true then first γp else P v }}}.
Proof.
  iIntros (Φ) "[(%γ & %lk & %r & -> & #Hlk) HP] HΦ". wp_lam. wp_pures.
  wp_apply (acquire_spec with "Hlk"). iIntros "[Hl [[Hr Hf]|[(%w & Hr & Hw)|[Hr Ht]]]]"; wp_pures; wp_load; wp_pures.
  - wp_apply (release_spec with "[$Hlk $Hl Hr Hf]").
    { iLeft. iFrame. }
    iIntros "_". wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl [[Hr Hf]|[(%w & Hr & Hw)|[Hr Ht]]]]"; wp_pures; wp_store; wp_pures.
    + wp_apply (release_spec with "[$Hlk $Hl Hr HP]").
      { iRight. iLeft. iExists v. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! true with "Hf").
    + wp_apply (release_spec with "[$Hlk $Hl Hr HP]").
      { iRight. iLeft. iExists v. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! true).
      (* It was put before: somebody else is the first. *)
      iApply "Hf". (* refused: "Hf" not found *)
    + wp_apply (release_spec with "[$Hlk $Hl Hr HP]").
      { iRight. iLeft. iExists v. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! true). iFrame.
  - wp_apply (release_spec with "[$Hlk $Hl Hr Hw]").
    { iRight. iLeft. iExists w. iFrame. }
    iIntros "_". wp_pures. iApply ("HΦ" $! false with "HP").
  - wp_apply (release_spec with "[$Hlk $Hl Hr Ht]").
    { iRight. iRight. iFrame. }
    iIntros "_". wp_pures. iApply ("HΦ" $! false with "HP").
Qed.
