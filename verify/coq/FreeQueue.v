(** The queue through which other threads return blocks to an arena: many push, one takes all.
    Code: crates/runtime/src/free_queue.rs (`FreeQueue::push`, `take_all`, `Taken::next`). *)
From iris.base_logic.lib Require Import invariants.
From iris.program_logic Require Import adequacy.
From iris.heap_lang Require Import adequacy proofmode notation.
From iris.heap_lang Require Import lang.

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

(** A whole program: two threads push cells, the third writes to what it took. *)
Definition queue_client : val := λ: <>,
  let: "q" := new_queue #() in
  Fork (push "q" (ref #1));;
  Fork (push "q" (ref #2));;
  match: next (take_all "q") with NONE => #() | SOME "p" => Fst "p" <- #3 end.

Theorem queue_client_is_safe σ : adequate NotStuck (queue_client #()) σ (λ v _, v = #()).
Proof.
  apply (heap_adequacy #[heapΣ]). iIntros (?) "_".
  set (P := λ v : val, (∃ (l : loc) (n : Z), ⌜v = #l⌝ ∗ l ↦ #n)%I : iProp #[heapΣ]).
  wp_lam. wp_apply (new_queue_spec P with "[//]"). iIntros (q) "#Hq". wp_pures.
  wp_apply (wp_fork with "[]").
  { iNext. wp_alloc l as "Hl". wp_apply (push_spec P with "[$Hq Hl]"); [by iExists l, _; iFrame|by iIntros "_"]. }
  wp_pures. wp_apply (wp_fork with "[]").
  { iNext. wp_alloc l as "Hl". wp_apply (push_spec P with "[$Hq Hl]"); [by iExists l, _; iFrame|by iIntros "_"]. }
  wp_pures. wp_apply (take_all_spec P with "Hq"). iIntros (v xs) "Hc".
  wp_apply (next_spec P with "Hc"). iIntros (r) "[[-> _]|(%x & %v' & %xs' & [-> _] & (%l & %n & -> & Hl) & _)]"; wp_pures; first done.
  wp_store. done.
Qed.

Print Assumptions push_spec.
Print Assumptions take_all_spec.
Print Assumptions next_spec.
Print Assumptions queue_client_is_safe.
