(** What becomes of a request: put once, taken once.
    Code: crates/batch/src/outcome.rs (`Outcome::put`, `poll`, `abandon`). Who waits to be woken is left out: Batch.tla and loom have it. *)
From iris.algebra Require Import excl.
From iris.base_logic.lib Require Import invariants.
From iris.program_logic Require Import adequacy.
From iris.heap_lang Require Import adequacy proofmode notation.
From iris.heap_lang Require Import lang.
From Verify Require Import Spin.

(** Nothing yet, there, or over. *)
Notation OPEN := (InjLV #()).
Notation PUT v := (InjRV (InjLV v)).
Notation OVER := (InjRV (InjRV #())).

Definition new_outcome : val := λ: <>, let: "r" := ref OPEN in (newlock #(), "r").
Definition put : val := λ: "o" "v",
  acquire (Fst "o");;
  match: !(Snd "o") with
    InjL <> => Snd "o" <- InjR (InjL "v");; release (Fst "o");; #true
  | InjR <> => release (Fst "o");; #false
  end.
(** `poll`: what is taken twice is a bug of the caller, as the panic in the code: here the program would be stuck. *)
Definition poll : val := λ: "o",
  acquire (Fst "o");;
  match: !(Snd "o") with
    InjL <> => release (Fst "o");; NONE
  | InjR "s" =>
      match: "s" with
        InjL "v" => Snd "o" <- OVER;; release (Fst "o");; SOME "v"
      | InjR <> => #0 #0
      end
  end.
Definition abandon : val := λ: "o",
  acquire (Fst "o");;
  Snd "o" <- OVER;;
  release (Fst "o").

Section outcome.
  Context `{!heapGS Σ, !spinG Σ} (P : val → iProp Σ).

  Definition taker (γ : gname) : iProp Σ := own γ (Excl ()).
  Definition first (γ : gname) : iProp Σ := own γ (Excl ()).
  Definition stage (γt γp : gname) (r : loc) : iProp Σ :=
    (r ↦ OPEN ∗ first γp) ∨ (∃ v, r ↦ PUT v ∗ P v) ∨ (r ↦ OVER ∗ taker γt).
  Definition is_outcome (γt γp : gname) (o : val) : iProp Σ :=
    ∃ γ lk (r : loc), ⌜o = (lk, #r)%V⌝ ∗ is_lock γ lk (stage γt γp r).

  Global Instance is_outcome_persistent γt γp o : Persistent (is_outcome γt γp o).
  Proof. do 3 (apply bi.exist_persistent => ?). apply bi.sep_persistent; apply _. Qed.

  Lemma new_outcome_spec :
    {{{ True }}} new_outcome #() {{{ o γt γp, RET o; is_outcome γt γp o ∗ taker γt }}}.
  Proof.
    iIntros (Φ) "_ HΦ". wp_lam. wp_alloc r as "Hr". wp_pures.
    iMod (own_alloc (Excl ())) as (γt) "Ht"; first done.
    iMod (own_alloc (Excl ())) as (γp) "Hp"; first done.
    wp_apply (newlock_spec (stage γt γp r) with "[Hr Hp]").
    { iLeft. iFrame. }
    iIntros (lk γ) "#Hlk". wp_pures. iApply "HΦ". iFrame. iExists γ, lk, r. by iFrame "#".
  Qed.

  (** Who is told that it was accepted is the first, and there is one first; all others keep what they came with. *)
  Lemma put_spec γt γp o v :
    {{{ is_outcome γt γp o ∗ P v }}} put o v {{{ b, RET #b; if b is true then first γp else P v }}}.
  Proof.
    iIntros (Φ) "[(%γ & %lk & %r & -> & #Hlk) HP] HΦ". wp_lam. wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl [[Hr Hf]|[(%w & Hr & Hw)|[Hr Ht]]]]"; wp_pures; wp_load; wp_pures.
    - wp_store. wp_pures. wp_apply (release_spec with "[$Hlk $Hl Hr HP]").
      { iRight. iLeft. iExists v. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! true with "Hf").
    - wp_apply (release_spec with "[$Hlk $Hl Hr Hw]").
      { iRight. iLeft. iExists w. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! false with "HP").
    - wp_apply (release_spec with "[$Hlk $Hl Hr Ht]").
      { iRight. iRight. iFrame. }
      iIntros "_". wp_pures. iApply ("HΦ" $! false with "HP").
  Qed.
  Lemma one_is_first γp : first γp -∗ first γp -∗ False.
  Proof. iIntros "H1 H2". by iDestruct (own_valid_2 with "H1 H2") as %?. Qed.

  (** Who may take it gets nothing, and may ask again; or gets what was put, once. *)
  Lemma poll_spec γt γp o :
    {{{ is_outcome γt γp o ∗ taker γt }}} poll o
    {{{ v, RET v; (⌜v = NONEV⌝ ∗ taker γt) ∨ ∃ x, ⌜v = SOMEV x⌝ ∗ P x }}}.
  Proof.
    iIntros (Φ) "[(%γ & %lk & %r & -> & #Hlk) Ht] HΦ". wp_lam. wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl [[Hr Hf]|[(%w & Hr & Hw)|[Hr Ht']]]]".
    - wp_pures. wp_load. wp_pures. wp_apply (release_spec with "[$Hlk $Hl Hr Hf]").
      { iLeft. iFrame. }
      iIntros "_". wp_pures. iApply "HΦ". iLeft. by iFrame.
    - wp_pures. wp_load. wp_pures. wp_store. wp_pures. wp_apply (release_spec with "[$Hlk $Hl Hr Ht]").
      { iRight. iRight. iFrame. }
      iIntros "_". wp_pures. iApply "HΦ". iRight. iExists w. by iFrame.
    - by iDestruct (own_valid_2 with "Ht Ht'") as %?.
  Qed.

  Lemma abandon_spec γt γp o :
    {{{ is_outcome γt γp o ∗ taker γt }}} abandon o {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "[(%γ & %lk & %r & -> & #Hlk) Ht] HΦ". wp_lam. wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl [[Hr Hf]|[(%w & Hr & Hw)|[Hr Ht']]]]"; wp_pures; wp_store; wp_pures;
      (wp_apply (release_spec with "[$Hlk $Hl Hr Ht]"); [iRight; iRight; iFrame|iIntros "_"; by iApply "HΦ"]).
  Qed.
End outcome.

(** A whole program: two threads put, one asks twice and stops when it has something. It is never stuck, as it would be by taking
    twice. *)
Definition outcome_client : val := λ: <>,
  let: "o" := new_outcome #() in
  Fork (put "o" #1;; #());;
  Fork (put "o" #2;; #());;
  match: poll "o" with
    NONE => match: poll "o" with NONE => abandon "o" | SOME <> => #() end
  | SOME <> => #()
  end.

Theorem outcome_client_is_safe σ : adequate NotStuck (outcome_client #()) σ (λ v _, v = #()).
Proof.
  apply (heap_adequacy #[heapΣ; spinΣ]). iIntros (?) "_".
  set (P := λ _ : val, True%I : iProp #[heapΣ; spinΣ]).
  wp_lam. wp_apply (new_outcome_spec P with "[//]"). iIntros (o γt γp) "[#Ho Ht]". wp_pures.
  wp_apply (wp_fork with "[]").
  { iNext. wp_apply (put_spec P with "[$Ho //]"). iIntros (b) "_". by wp_pures. }
  wp_pures. wp_apply (wp_fork with "[]").
  { iNext. wp_apply (put_spec P with "[$Ho //]"). iIntros (b) "_". by wp_pures. }
  wp_pures. wp_apply (poll_spec P with "[$Ho $Ht]"). iIntros (v) "[[-> Ht]|(%x & -> & _)]"; wp_pures; last done.
  wp_apply (poll_spec P with "[$Ho $Ht]"). iIntros (v) "[[-> Ht]|(%x & -> & _)]"; wp_pures; last done.
  wp_apply (abandon_spec P with "[$Ho $Ht]"). by iIntros "_".
Qed.

Print Assumptions put_spec.
Print Assumptions one_is_first.
Print Assumptions poll_spec.
Print Assumptions abandon_spec.
Print Assumptions outcome_client_is_safe.
