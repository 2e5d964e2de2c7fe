(** The spin lock of an arena and a bin of blocks under it.
    Code: crates/runtime/src/spin.rs (`SpinLock`), memory/arena.rs (`Bin::push`, `Bin::pop`).
    HeapLang is sequentially consistent: that the orderings of the accesses suffice is loom's and the sanitizers' part. *)
From iris.algebra Require Import excl.
From iris.base_logic.lib Require Import invariants.
From iris.program_logic Require Import adequacy.
From iris.heap_lang Require Import adequacy proofmode notation tactics.
From iris.heap_lang Require Import lang.

Definition newlock : val := λ: <>, ref #false.
Definition try_acquire : val := λ: "l", CAS "l" #false #true.
Definition acquire : val :=
  rec: "acquire" "l" := if: try_acquire "l" then #() else "acquire" "l".
Definition release : val := λ: "l", "l" <- #false.

Class spinG Σ := SpinG { spin_tokG : inG Σ (exclR unitO) }.
Global Existing Instance spin_tokG.
Definition spinΣ : gFunctors := #[GFunctor (exclR unitO)].
Global Instance subG_spinΣ {Σ} : subG spinΣ Σ → spinG Σ.
Proof. solve_inG. Qed.

Section lock.
  Context `{!heapGS Σ, !spinG Σ}.
  Let N := nroot .@ "spin".

  Definition lock_inv (γ : gname) (l : loc) (R : iProp Σ) : iProp Σ :=
    ∃ b : bool, l ↦ #b ∗ if b then True else own γ (Excl ()) ∗ R.
  Definition is_lock (γ : gname) (lk : val) (R : iProp Σ) : iProp Σ :=
    ∃ l : loc, ⌜lk = #l⌝ ∧ inv N (lock_inv γ l R).
  Definition locked (γ : gname) : iProp Σ := own γ (Excl ()).

  Global Instance is_lock_persistent γ lk R : Persistent (is_lock γ lk R).
  Proof. apply _. Qed.

  (** One holder at a time. *)
  Lemma locked_exclusive γ : locked γ -∗ locked γ -∗ False.
  Proof. iIntros "H1 H2". by iDestruct (own_valid_2 with "H1 H2") as %?. Qed.

  Lemma newlock_spec (R : iProp Σ) :
    {{{ R }}} newlock #() {{{ lk γ, RET lk; is_lock γ lk R }}}.
  Proof.
    iIntros (Φ) "HR HΦ". wp_lam. wp_alloc l as "Hl".
    iMod (own_alloc (Excl ())) as (γ) "Hγ"; first done.
    iMod (inv_alloc N _ (lock_inv γ l R) with "[-HΦ]") as "#?".
    { iIntros "!>". iExists false. by iFrame. }
    iModIntro. iApply "HΦ". iExists l. eauto.
  Qed.

  Lemma try_acquire_spec γ lk R :
    {{{ is_lock γ lk R }}} try_acquire lk
    {{{ b, RET #b; if b is true then locked γ ∗ R else True }}}.
  Proof.
    iIntros (Φ) "#Hl HΦ". iDestruct "Hl" as (l ->) "#Hinv".
    wp_rec. wp_bind (CmpXchg _ _ _). iInv N as ([]) "[Hl HR]".
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hl".
      + iNext. iExists true; eauto.
      + wp_pures. iApply ("HΦ" $! false). done.
    - wp_cmpxchg_suc. iDestruct "HR" as "[Hγ HR]".
      iModIntro. iSplitL "Hl".
      + iNext; iExists true; eauto.
      + rewrite /locked. wp_pures. by iApply ("HΦ" $! true with "[$Hγ $HR]").
  Qed.

  Lemma acquire_spec γ lk R :
    {{{ is_lock γ lk R }}} acquire lk {{{ RET #(); locked γ ∗ R }}}.
  Proof.
    iIntros (Φ) "#Hl HΦ". iLöb as "IH". wp_rec.
    wp_apply (try_acquire_spec with "Hl"). iIntros ([]).
    - iIntros "[Hlked HR]". wp_if. iApply "HΦ"; auto with iFrame.
    - iIntros "_". wp_if. iApply ("IH" with "[HΦ]"). auto.
  Qed.

  Lemma release_spec γ lk R :
    {{{ is_lock γ lk R ∗ locked γ ∗ R }}} release lk {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "(Hlock & Hlocked & HR) HΦ".
    iDestruct "Hlock" as (l ->) "#Hinv".
    wp_lam. iInv N as (b) "[Hl _]".
    wp_store. iSplitR "HΦ"; last by iApply "HΦ".
    iModIntro. iNext. iExists false. by iFrame.
  Qed.
End lock.

(** What the programs below do with a cell that is theirs. It is stuck if another value is there than was just written: so it is safe
    for several threads, each with a value of its own, only if nobody else has the cell meanwhile. *)
Definition use : val := λ: "l" "n", "l" <- "n";; if: !"l" = "n" then #() else #0 #0.
Lemma use_spec `{!heapGS Σ} (l : loc) (n m : Z) :
  {{{ l ↦ #n }}} use #l #m {{{ RET #(); l ↦ #m }}}.
Proof.
  iIntros (Φ) "Hl HΦ". wp_lam. wp_pures. wp_store. wp_load. wp_pures.
  rewrite bool_decide_eq_true_2 //. wp_pures. by iApply "HΦ".
Qed.

(** That it can be stuck: two threads use one cell at a time. The steps are those of this program, with the cell at `Loc 0`. *)
Definition shared_client : expr := let: "c" := ref #0 in Fork (use "c" #1);; use "c" #2.

Lemma thread_steps (t1 t2 : list expr) K (e e' : expr) σ σ' κ efs ρ :
  head_step e σ κ e' σ' efs → rtc erased_step (t1 ++ fill K e' :: t2 ++ efs, σ') ρ → rtc erased_step (t1 ++ fill K e :: t2, σ) ρ.
Proof.
  intros H R. eapply rtc_l; [|exact R]. exists κ. eapply step_atomic; [done..|]. by apply (Ectx_step K e e').
Qed.
(** The next step of thread `n`. *)
Ltac goes n :=
  match goal with |- rtc _ (?t, _) _ =>
    let t1 := eval cbv [firstn] in (firstn n t) in
    let t2 := eval cbv [skipn] in (skipn (S n) t) in
    let e := eval cbv [nth] in (nth n t #()) in
    reshape_expr e ltac:(fun K e' =>
      eapply (thread_steps t1 t2 K e'); [first [eapply (AllocNS 1 _ _ (Loc 0)); [lia|done]|econstructor; simpl; done]|]); simpl
  end.
Theorem two_users_can_be_stuck : ∃ σ, ¬ adequate NotStuck shared_client σ (λ _ _, True).
Proof.
  exists {| heap := ∅; used_proph_id := ∅ |}. intros [_ H].
  assert (∃ t σ, rtc erased_step ([shared_client], {| heap := ∅; used_proph_id := ∅ |}) (t, σ) ∧ (#0 #0)%E ∈ t) as (t & σ & R & I).
  { eexists _, _. split.
    - unfold shared_client, use. do 10 goes 0. do 4 goes 1. do 5 goes 0. apply rtc_refl.
    - set_solver. }
  destruct (H _ _ _ eq_refl R I) as [[v V]|(κ & e' & σ' & efs & S)]; [done|].
  assert (stuck (#0 #0)%E σ) as [_ N]; [|by eapply N].
  apply head_stuck_stuck.
  - split; [done|]. intros ???? G. inversion G.
  - apply ectxi_language_sub_redexes_are_values. intros [] ?; naive_solver.
Qed.

(** A bin: blocks, the latest on top. *)
Definition new_bin : val := λ: <>, let: "r" := ref NONE in (newlock #(), "r").
Definition bin_push : val := λ: "b" "x",
  acquire (Fst "b");;
  Snd "b" <- SOME ("x", !(Snd "b"));;
  release (Fst "b").
Definition bin_pop : val := λ: "b",
  acquire (Fst "b");;
  match: !(Snd "b") with
    NONE => release (Fst "b");; NONE
  | SOME "p" => Snd "b" <- Snd "p";; release (Fst "b");; SOME (Fst "p")
  end.

Section bin.
  Context `{!heapGS Σ, !spinG Σ} (P : val → iProp Σ).

  Fixpoint links (xs : list val) : val :=
    match xs with [] => NONEV | x :: xs => SOMEV (x, links xs) end.
  Definition bin_inv (r : loc) : iProp Σ := ∃ xs, r ↦ links xs ∗ [∗ list] x ∈ xs, P x.
  Definition is_bin (b : val) : iProp Σ :=
    ∃ γ lk (r : loc), ⌜b = (lk, #r)%V⌝ ∗ is_lock γ lk (bin_inv r).

  Global Instance is_bin_persistent b : Persistent (is_bin b).
  Proof. apply _. Qed.

  Lemma new_bin_spec : {{{ True }}} new_bin #() {{{ b, RET b; is_bin b }}}.
  Proof.
    iIntros (Φ) "_ HΦ". wp_lam. wp_alloc r as "Hr". wp_pures.
    wp_apply (newlock_spec (bin_inv r) with "[Hr]").
    { iExists []. by iFrame. }
    iIntros (lk γ) "#Hlk". wp_pures. iApply "HΦ". iExists γ, lk, r. by iFrame "#".
  Qed.

  (** What is pushed is given away. *)
  Lemma bin_push_spec b x : {{{ is_bin b ∗ P x }}} bin_push b x {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "[(%γ & %lk & %r & -> & #Hlk) HP] HΦ". wp_lam. wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl (%xs & Hr & Hxs)]".
    wp_pures. wp_load. wp_store. wp_pures.
    wp_apply (release_spec with "[$Hlk $Hl Hr Hxs HP]").
    { iExists (x :: xs). simpl. iFrame. }
    iIntros "_". by iApply "HΦ".
  Qed.

  (** What is popped is the caller's alone. *)
  Lemma bin_pop_spec b :
    {{{ is_bin b }}} bin_pop b {{{ v, RET v; ⌜v = NONEV⌝ ∨ ∃ x, ⌜v = SOMEV x⌝ ∗ P x }}}.
  Proof.
    iIntros (Φ) "(%γ & %lk & %r & -> & #Hlk) HΦ". wp_lam. wp_pures.
    wp_apply (acquire_spec with "Hlk"). iIntros "[Hl (%xs & Hr & Hxs)]".
    wp_pures. wp_load. destruct xs as [|x xs]; simpl; wp_pures.
    - wp_apply (release_spec with "[$Hlk $Hl Hr]").
      { iExists []. by iFrame. }
      iIntros "_". wp_pures. iApply "HΦ". by iLeft.
    - wp_store. wp_pures. iDestruct "Hxs" as "[HP Hxs]".
      wp_apply (release_spec with "[$Hlk $Hl Hr Hxs]").
      { iExists xs. iFrame. }
      iIntros "_". wp_pures. iApply "HΦ". iRight. iExists x. by iFrame.
  Qed.
End bin.

(** A whole program: two threads pop, use what they popped, and push it again. With two owners of a block at a time it could be
    stuck. *)
Definition bin_client : val := λ: <>,
  let: "b" := new_bin #() in
  bin_push "b" (ref #0);;
  Fork (match: bin_pop "b" with NONE => #() | SOME "l" => use "l" #1;; bin_push "b" "l" end);;
  match: bin_pop "b" with NONE => #() | SOME "l" => use "l" #2;; bin_push "b" "l" end.

Section bin_client.
  Context `{!heapGS Σ, !spinG Σ}.
  Definition cell (v : val) : iProp Σ := ∃ (l : loc) (n : Z), ⌜v = #l⌝ ∗ l ↦ #n.
  Lemma bin_client_spec : {{{ True }}} bin_client #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "_ HΦ". wp_lam. wp_apply (new_bin_spec cell with "[//]"). iIntros (b) "#Hb". wp_pures.
    wp_alloc l as "Hl". wp_apply (bin_push_spec cell with "[$Hb Hl]"); first by iExists l, _; iFrame.
    iIntros "_". wp_pures. wp_apply (wp_fork with "[]").
    - iNext. wp_apply (bin_pop_spec with "Hb"). iIntros (v) "[->|(%x & -> & %k & %n & -> & Hk)]"; wp_pures; first done.
      wp_apply (use_spec with "Hk"). iIntros "Hk". wp_pures.
      wp_apply (bin_push_spec cell with "[$Hb Hk]"); first by iExists k, _; iFrame. by iIntros "_".
    - wp_pures. wp_apply (bin_pop_spec with "Hb"). iIntros (v) "[->|(%x & -> & %k & %n & -> & Hk)]"; wp_pures; first by iApply "HΦ".
      wp_apply (use_spec with "Hk"). iIntros "Hk". wp_pures.
      wp_apply (bin_push_spec cell with "[$Hb Hk]"); first by iExists k, _; iFrame. iIntros "_". by iApply "HΦ".
  Qed.
End bin_client.

Theorem bin_client_is_safe σ : adequate NotStuck (bin_client #()) σ (λ v _, v = #()).
Proof.
  apply (heap_adequacy #[heapΣ; spinΣ]). iIntros (?) "_".
  wp_apply (bin_client_spec with "[//]"). by iIntros "_".
Qed.

Print Assumptions locked_exclusive.
Print Assumptions two_users_can_be_stuck.
Print Assumptions bin_push_spec.
Print Assumptions bin_pop_spec.
Print Assumptions bin_client_is_safe.
