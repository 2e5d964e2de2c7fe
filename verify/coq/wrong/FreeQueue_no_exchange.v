(** Must be refused: all is taken by a look and a store, not by one exchange. Another taker may take the same, and what is pushed in between
    is lost. *)
From iris.base_logic.lib Require Import invariants.
From iris.heap_lang Require Import proofmode notation.
From Verify Require Import FreeQueue.
Definition take_all : val := λ: "q", let: "h" := !"q" in "q" <- NONE;; "h".
Lemma take_all_spec `{!heapGS Σ} (P : val → iProp Σ) (q : loc) :
  {{{ is_queue P q }}} take_all #q {{{ v xs, RET v; links P v xs }}}.
Proof.
  iIntros (Φ) "#Hinv HΦ". wp_lam.
  wp_bind (! _)%E. iInv "Hinv" as (h xs) "[Hq Hc]". wp_load. iModIntro. iSplitL "Hq Hc".
  { iNext. iExists h, xs. iFrame. }
  wp_pures. wp_bind (_ <- _)%E. iInv "Hinv" as (h' xs') "[Hq Hc]". wp_store. iModIntro. iSplitL "Hq".
  { iNext. iExists NONEV, []. by iFrame. }
  (* What is had is the chain of now, `h'`; what is returned is that of before, `h`. *)
  wp_pures. iApply "HΦ".
  iApply "Hc". (* refused: cannot apply *)
Qed.
