(** The queue through which other threads return blocks to an arena: many push, one takes all.
    Code: crates/runtime/src/free_queue.rs (`FreeQueue::push`, `take_all`, `Taken::next`). *)
From iris.base_logic.lib Require Import invariants.
From iris.program_logic Require Import adequacy.
From iris.heap_lang Require Import adequacy proofmode notation.
From iris.heap_lang Require Import lang.
From Verify Require Import Spin.

Definition new_queue : val := λ: <>, ref NONE.
(** The node is its pusher's until the exchange; its link is written anew each time. *)
Definition push_loop : val :=
  rec: "loop" "q" "n" "x" :=
    let: "h" := !"q" in
    "n" <- ("x", "h");;
    if: CAS "q" "h" (SOME "n") then #() else "loop" "q" "n" "x".
Definition push : val := λ: "q" "x", let: "n" := ref ("x", NONE) in push_loop "q" "n" "x".
Definition take_all : val := λ: "q", match: !"q" with NONE => NONE | SOME <> => Xchg "q" NONE end.
Definition next : val := λ: "t", match: "t" with NONE => NONE | SOME "n" => SOME (!"n") end.

Section queue.
  Context `{!heapGS Σ} (P : val → iProp Σ).
  Let N := nroot .@ "free".

  Fixpoint links (v : val) (xs : list val) : iProp Σ :=
    match xs with
    | [] => ⌜v = NONEV⌝
    | x :: xs => ∃ (l : loc) (v' : val), ⌜v = SOMEV #l⌝ ∗ l ↦ (x, v') ∗ P x ∗ links v' xs
    end.
  Definition is_queue (q : loc) : iProp Σ := inv N (∃ v xs, q ↦ v ∗ links v xs).

  Lemma links_head v xs : links v xs -∗ ⌜v = NONEV ∨ ∃ l : loc, v = SOMEV #l⌝.
  Proof. destruct xs; simpl; [iIntros "->"; eauto|iIntros "(%l & %v' & -> & _)"; eauto]. Qed.

  Lemma new_queue_spec : {{{ True }}} new_queue #() {{{ (q : loc), RET #q; is_queue q }}}.
  Proof.
    iIntros (Φ) "_ HΦ". wp_lam. wp_alloc q as "Hq".
    iMod (inv_alloc N _ (∃ v xs, q ↦ v ∗ links v xs) with "[Hq]") as "#Hinv".
    { iNext. iExists NONEV, []. by iFrame. }
    by iApply "HΦ".
  Qed.

  Lemma push_loop_spec (q n : loc) (x y : val) :
    {{{ is_queue q ∗ n ↦ y ∗ P x }}} push_loop #q #n x {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "(#Hinv & Hn & HP) HΦ". iLöb as "IH" forall (y). wp_rec. wp_pures.
    wp_bind (! _)%E. iInv N as (h xs) "[Hq Hc]". wp_load.
    iDestruct (links_head with "Hc") as %Hh.
    iModIntro. iSplitL "Hq Hc".
    { iNext. iExists h, xs. iFrame. }
    wp_pures. wp_store. wp_pures.
    wp_bind (CmpXchg _ _ _). iInv N as (h' xs') "[Hq Hc]".
    destruct (decide (h' = h)) as [->|D].
    - assert (vals_compare_safe h h) by (destruct Hh as [->|[l ->]]; by left).
      wp_cmpxchg_suc. iModIntro. iSplitL "Hq Hc Hn HP".
      { iNext. iExists (SOMEV #n), (x :: xs'). iFrame "Hq". simpl. iExists n, h. by iFrame. }
      wp_pures. by iApply "HΦ".
    - assert (vals_compare_safe h' h) by (destruct Hh as [->|[l ->]]; by right).
      wp_cmpxchg_fail. iModIntro. iSplitL "Hq Hc".
      { iNext. iExists h', xs'. iFrame. }
      wp_pures. iApply ("IH" with "Hn HP HΦ").
  Qed.

  (** What is pushed is given away. *)
  Lemma push_spec (q : loc) x : {{{ is_queue q ∗ P x }}} push #q x {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "[#Hinv HP] HΦ". wp_lam. wp_alloc n as "Hn". wp_pures.
    wp_apply (push_loop_spec with "[$Hinv $Hn $HP]"). iIntros "_". by iApply "HΦ".
  Qed.

  (** What is taken is the taker's alone, all of the chain. *)
  Lemma take_all_spec (q : loc) :
    {{{ is_queue q }}} take_all #q {{{ v xs, RET v; links v xs }}}.
  Proof.
    iIntros (Φ) "#Hinv HΦ". wp_lam.
    wp_bind (! _)%E. iInv N as (h xs) "[Hq Hc]". wp_load.
    iDestruct (links_head with "Hc") as %Hh.
    iModIntro. iSplitL "Hq Hc".
    { iNext. iExists h, xs. iFrame. }
    destruct Hh as [->|[l ->]]; wp_pures.
    { iApply ("HΦ" $! NONEV []). done. }
    iInv N as (h' xs') "[Hq Hc]". wp_xchg. iModIntro. iSplitL "Hq".
    { iNext. iExists NONEV, []. by iFrame. }
    iApply ("HΦ" with "Hc").
  Qed.

  (** One after the other, each node once. *)
  Lemma next_spec v xs :
    {{{ links v xs }}} next v
    {{{ r, RET r; ⌜r = NONEV ∧ xs = []⌝ ∨ ∃ x v' xs', ⌜r = SOMEV (x, v') ∧ xs = x :: xs'⌝ ∗ P x ∗ links v' xs' }}}.
  Proof.
    iIntros (Φ) "Hc HΦ". wp_lam. destruct xs as [|x xs]; simpl.
    - iDestruct "Hc" as "->". wp_pures. iApply "HΦ". by iLeft.
    - iDestruct "Hc" as (l v') "(-> & Hl & HP & Hc)". wp_pures. wp_load. wp_pures.
      iApply "HΦ". iRight. iExists x, v', xs. by iFrame.
  Qed.
End queue.

(** A whole program: two threads push cells that they used, and two take all and use each cell that they took. With two owners of a
    cell at a time it could be stuck. *)
Definition use_all : val :=
  rec: "use_all" "t" "n" :=
    match: next "t" with NONE => #() | SOME "p" => use (Fst "p") "n";; "use_all" (Snd "p") "n" end.
Definition queue_client : val := λ: <>,
  let: "q" := new_queue #() in
  Fork (let: "c" := ref #0 in use "c" #1;; push "q" "c");;
  Fork (let: "c" := ref #0 in use "c" #2;; push "q" "c");;
  Fork (use_all (take_all "q") #3);;
  use_all (take_all "q") #4.

Section queue_client.
  Context `{!heapGS Σ}.
  Definition cell (v : val) : iProp Σ := ∃ (l : loc) (n : Z), ⌜v = #l⌝ ∗ l ↦ #n.

  Lemma use_all_spec (v : val) xs (n : Z) : {{{ links cell v xs }}} use_all v #n {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "Hc HΦ". iLöb as "IH" forall (v xs). wp_rec. wp_pures.
    wp_apply (next_spec cell with "Hc").
    iIntros (r) "[[-> _]|(%x & %v' & %xs' & [-> _] & (%l & %m & -> & Hl) & Hc)]"; wp_pures; first by iApply "HΦ".
    wp_apply (use_spec with "Hl"). iIntros "_". wp_pures. iApply ("IH" with "Hc HΦ").
  Qed.
  Lemma take_and_use_spec (q : loc) (n : Z) :
    {{{ is_queue cell q }}} use_all (take_all #q) #n {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "Hq HΦ". wp_apply (take_all_spec with "Hq"). iIntros (v xs) "Hc".
    by wp_apply (use_all_spec with "Hc").
  Qed.
  Lemma use_and_push_spec (q : loc) (n : Z) :
    {{{ is_queue cell q }}} let: "c" := ref #0 in use "c" #n;; push #q "c" {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "Hq HΦ". wp_alloc l as "Hl". wp_pures. wp_apply (use_spec with "Hl"). iIntros "Hl". wp_pures.
    wp_apply (push_spec cell with "[$Hq Hl]"); first by iExists l, _; iFrame. by iApply "HΦ".
  Qed.
  Lemma queue_client_spec : {{{ True }}} queue_client #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "_ HΦ". wp_lam. wp_apply (new_queue_spec cell with "[//]"). iIntros (q) "#Hq". wp_pures.
    wp_apply (wp_fork with "[]"); first by iNext; wp_apply (use_and_push_spec with "Hq"); iIntros "_".
    wp_pures. wp_apply (wp_fork with "[]"); first by iNext; wp_apply (use_and_push_spec with "Hq"); iIntros "_".
    wp_pures. wp_apply (wp_fork with "[]"); first by iNext; wp_apply (take_and_use_spec with "Hq"); iIntros "_".
    wp_pures. by wp_apply (take_and_use_spec with "Hq").
  Qed.
End queue_client.

Theorem queue_client_is_safe σ : adequate NotStuck (queue_client #()) σ (λ v _, v = #()).
Proof.
  apply (heap_adequacy #[heapΣ]). iIntros (?) "_".
  wp_apply (queue_client_spec with "[//]"). by iIntros "_".
Qed.

Print Assumptions push_spec.
Print Assumptions take_all_spec.
Print Assumptions next_spec.
Print Assumptions queue_client_is_safe.
