(** The set of free stream numbers: one word, and a loop round a compare-and-exchange.
    Code: crates/runtime/src/slots.rs (`SlotSet::claim`, `release`). The bit that shuts the set is left out: Leases.tla has it. *)
From iris.base_logic.lib Require Import invariants.
From iris.program_logic Require Import adequacy.
From iris.heap_lang Require Import adequacy proofmode notation.
From iris.heap_lang Require Import lang.
From iris.algebra Require Import excl.
From Verify Require Import Spin.

(** Tries the numbers from `i` on; begins again when somebody else changed the word. *)
Definition claim : val :=
  rec: "claim" "w" "i" :=
    if: "i" = #64 then NONE else
    let: "old" := !"w" in
    if: BinOp AndOp ("old" ≫ "i") #1 = #0 then "claim" "w" ("i" + #1)
    else if: CAS "w" "old" (BinOp XorOp "old" (#1 ≪ "i")) then SOME "i"
    else "claim" "w" #0.
Definition give_back : val :=
  rec: "give_back" "w" "i" :=
    let: "old" := !"w" in
    if: CAS "w" "old" (BinOp OrOp "old" (#1 ≪ "i")) then #() else "give_back" "w" "i".

Lemma bit_of (n i : Z) : Z.land (n ≫ i)%Z 1 = Z.b2z (Z.testbit n i).
Proof.
  rewrite Z.testbit_odd.
  assert (∀ x, Z.land x 1 = x `mod` 2)%Z as -> by (intros x; exact (Z.land_ones x 1 ltac:(lia))).
  rewrite Zmod_odd. by destruct (Z.odd _).
Qed.

Section slots.
  Context `{!heapGS Σ} (R : nat → iProp Σ).
  Let N := nroot .@ "slots".

  Definition slot (n : Z) (k : nat) : iProp Σ := if Z.testbit n k then R k else True%I.
  Definition all (n : Z) : iProp Σ := [∗ list] k ∈ seq 0 64, slot n k.
  Definition is_slots (w : loc) : iProp Σ := inv N (∃ n : Z, w ↦ #n ∗ all n).

  Lemma all_change n n' k :
    k < 64 → (∀ j : nat, j ≠ k → Z.testbit n' j = Z.testbit n j) →
    all n -∗ slot n k ∗ (slot n' k -∗ all n').
  Proof.
    intros Hk Hj. rewrite /all.
    assert (seq 0 64 = seq 0 k ++ [k] ++ seq (k + 1) (63 - k)) as ->.
    { replace 64 with (k + (1 + (63 - k))) by lia. rewrite seq_app. f_equal. rewrite seq_app. simpl. done. }
    rewrite !big_sepL_app !big_sepL_singleton.
    iIntros "(A & B & C)". iFrame "B". iIntros "B". iFrame "B". iSplitL "A".
    - iApply (big_sepL_mono with "A"). intros i j [-> Hi]%lookup_seq. rewrite /slot Hj; [done|lia].
    - iApply (big_sepL_mono with "C"). intros i j [-> Hi]%lookup_seq. rewrite /slot Hj; [done|lia].
  Qed.

  Lemma xor_bit n k (j : nat) : j ≠ k → Z.testbit (Z.lxor n (1 ≪ k)) j = Z.testbit n j.
  Proof.
    intros D. rewrite Z.lxor_spec Z.shiftl_1_l Z.pow2_bits_eqb; [|lia].
    destruct (Z.eqb_spec k j); [lia|]. by rewrite xorb_false_r.
  Qed.
  Lemma or_bit n k (j : nat) : j ≠ k → Z.testbit (Z.lor n (1 ≪ k)) j = Z.testbit n j.
  Proof.
    intros D. rewrite Z.lor_spec Z.shiftl_1_l Z.pow2_bits_eqb; [|lia].
    destruct (Z.eqb_spec k j); [lia|]. by rewrite orb_false_r.
  Qed.

  (** What is claimed is the caller's alone: it has all that the last holder gave back with the number. *)
  Lemma claim_spec w (i : nat) :
    i ≤ 64 →
    {{{ is_slots w }}} claim #w #i {{{ v, RET v; ⌜v = NONEV⌝ ∨ ∃ k : nat, ⌜v = SOMEV #k ∧ k < 64⌝ ∗ R k }}}.
  Proof.
    iIntros (Hi Φ) "#Hinv HΦ". iLöb as "IH" forall (i Hi). wp_rec. wp_pures.
    case_bool_decide as E; wp_pures.
    { iApply "HΦ". by iLeft. }
    assert (i < 64) as Hlt.
    { assert (i ≠ 64) by (intros ->; by apply E). lia. }
    wp_bind (! _)%E. iInv N as (n) "[Hw Hall]". wp_load. iModIntro. iSplitL "Hw Hall".
    { iNext. iExists n. iFrame. }
    wp_pures. rewrite bit_of. case_bool_decide as B; wp_pures.
    { replace (i + 1)%Z with (Z.of_nat (i + 1)) by lia. iApply ("IH" with "[] HΦ"). iPureIntro. lia. }
    assert (Z.testbit n i = true) as T by (destruct (Z.testbit n i); [done|by destruct B]).
    wp_bind (CmpXchg _ _ _). iInv N as (m) "[Hw Hall]".
    destruct (decide (m = n)) as [->|D].
    - wp_cmpxchg_suc.
      iDestruct (all_change n (Z.lxor n (1 ≪ i)) i Hlt (xor_bit n i) with "Hall") as "[Hi Hall]".
      iModIntro. iSplitL "Hw Hall".
      { iNext. iExists _. iFrame "Hw". iApply "Hall". rewrite /slot.
        rewrite Z.lxor_spec Z.shiftl_1_l Z.pow2_bits_eqb; [|lia]. rewrite T Z.eqb_refl. done. }
      wp_pures. iApply "HΦ". iRight. iExists i. rewrite /slot T. by iFrame.
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hw Hall".
      { iNext. iExists m. iFrame. }
      wp_pures. iApply ("IH" $! 0 with "[] HΦ"). iPureIntro. lia.
  Qed.

  Lemma give_back_spec w (k : nat) :
    k < 64 → {{{ is_slots w ∗ R k }}} give_back #w #k {{{ RET #(); True }}}.
  Proof.
    iIntros (Hk Φ) "[#Hinv HR] HΦ". iLöb as "IH". wp_rec. wp_pures.
    wp_bind (! _)%E. iInv N as (n) "[Hw Hall]". wp_load. iModIntro. iSplitL "Hw Hall".
    { iNext. iExists n. iFrame. }
    wp_pures. wp_bind (CmpXchg _ _ _). iInv N as (m) "[Hw Hall]".
    destruct (decide (m = n)) as [->|D].
    - wp_cmpxchg_suc.
      iDestruct (all_change n (Z.lor n (1 ≪ k)) k Hk (or_bit n k) with "Hall") as "[_ Hall]".
      iModIntro. iSplitL "Hw Hall HR".
      { iNext. iExists _. iFrame "Hw". iApply "Hall". rewrite /slot. case_match; by iFrame. }
      wp_pures. by iApply "HΦ".
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hw Hall".
      { iNext. iExists m. iFrame. }
      wp_pures. iApply ("IH" with "HR HΦ").
  Qed.

  Lemma none_free : ⊢ all 0.
  Proof. iApply big_sepL_intro. iIntros "!>" (k j _). rewrite /slot Z.bits_0. done. Qed.
  Lemma new_slots (w : loc) (n : Z) E : w ↦ #n -∗ all n ={E}=∗ is_slots w.
  Proof. iIntros "Hw Ha". iApply inv_alloc. iNext. iExists n. iFrame. Qed.
End slots.

(** With what can be had once only, no number has two holders. *)
Lemma two_holders_are_one `{!heapGS Σ, !spinG Σ} (γ : nat → gname) k :
  locked (γ k) -∗ locked (γ k) -∗ False.
Proof. iIntros "A B". iApply (locked_exclusive with "A B"). Qed.

(** A whole program: threads claim the only number, and each writes a value of its own to what it guards and looks whether it is still
    there (`use`, in Spin.v). With two holders at a time it could be stuck. *)
Definition slots_client : val := λ: <>,
  let: "c" := ref #0 in
  let: "w" := ref #2 in
  Fork (match: claim "w" #0 with NONE => #() | SOME "i" => use "c" #1;; give_back "w" "i" end);;
  match: claim "w" #0 with NONE => #() | SOME "i" => use "c" #2;; give_back "w" "i" end.

Theorem slots_client_is_safe σ : adequate NotStuck (slots_client #()) σ (λ v _, v = #()).
Proof.
  apply (heap_adequacy #[heapΣ]). iIntros (?) "_".
  wp_lam. wp_alloc c as "Hc". wp_pures. wp_alloc w as "Hw". wp_pures.
  set (R := λ k : nat, (if decide (k = 1) then ∃ n : Z, c ↦ #n else False)%I : iProp #[heapΣ]).
  iMod (new_slots R w 2 with "Hw [Hc]") as "#Hs".
  { iDestruct (none_free R) as "H0".
    iDestruct (all_change R 0 2 1 ltac:(lia) (or_bit 0 1) with "H0") as "[_ H]". iApply "H".
    rewrite /slot /R /=. iExists 0. iFrame. }
  wp_apply (wp_fork with "[]").
  - iNext. wp_apply (claim_spec R w 0 with "Hs"); first lia.
    iIntros (v) "[->|(%k & [-> %Hk] & HR)]"; wp_pures; first done.
    rewrite /R. case_decide; last by iDestruct "HR" as "[]". iDestruct "HR" as (n) "Hc".
    wp_apply (use_spec with "Hc"). iIntros "Hc". wp_pures.
    wp_apply (give_back_spec R w k with "[$Hs Hc]"); [done| |by iIntros "_"].
    rewrite /R decide_True //. iExists _. iFrame.
  - wp_pures. wp_apply (claim_spec R w 0 with "Hs"); first lia.
    iIntros (v) "[->|(%k & [-> %Hk] & HR)]"; wp_pures; first done.
    rewrite /R. case_decide; last by iDestruct "HR" as "[]". iDestruct "HR" as (n) "Hc".
    wp_apply (use_spec with "Hc"). iIntros "Hc". wp_pures.
    wp_apply (give_back_spec R w k with "[$Hs Hc]"); [done| |by iIntros "_"].
    rewrite /R decide_True //. iExists _. iFrame.
Qed.

Print Assumptions claim_spec.
Print Assumptions give_back_spec.
Print Assumptions slots_client_is_safe.
