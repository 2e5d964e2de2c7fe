(** Must be refused: a lock that is taken by a look and a store, not by one exchange. Somebody else may have it by then. *)
From iris.base_logic.lib Require Import invariants.
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import Spin.
Definition try_acquire : val := λ: "l", if: !"l" then #false else "l" <- #true;; #true.
Lemma try_acquire_spec `{!heapGS Σ, !spinG Σ} γ lk R :
  {{{ is_lock γ lk R }}} try_acquire lk {{{ b, RET #b; if b is true then locked γ ∗ R else True }}}.
Proof.
  iIntros (Φ) "#Hl HΦ". iDestruct "Hl" as (l ->) "#Hinv".
  wp_rec. wp_bind (! _)%E. iInv "Hinv" as (b) "[Hl HR]". wp_load. iModIntro. iSplitL "Hl HR".
  { iNext. iExists b. iFrame. }
  destruct b; wp_pures; first by iApply ("HΦ" $! false).
  wp_bind (_ <- _)%E. iInv "Hinv" as (b) "[Hl HR]". wp_store. destruct b.
  - (* Somebody else has it: there is nothing in the lock to be had. *)
    iDestruct "HR" as "[Hγ HR]". (* refused: cannot destruct True *)
    iModIntro. iSplitL "Hl".
    { iNext. iExists true. by iFrame. }
    wp_pures. iApply ("HΦ" $! true). iFrame.
  - iDestruct "HR" as "[Hγ HR]". iModIntro. iSplitL "Hl".
    { iNext. iExists true. by iFrame. }
    wp_pures. iApply ("HΦ" $! true). iFrame.
Qed.
