(** The clocks of streams, for any number of streams.
    Code: crates/runtime/src/clock.rs (`After`, `Hazards`), order.rs (`lock_after`, `wait_for`). *)
From Coq Require Import Arith List Lia.
Import ListNotations.

Definition clock := nat -> nat.
Record stamp := Stamp { stream : nat; tick : nat }.
Record marker := Marker { at_ : stamp; known : clock }.

Definition covers (c : clock) (s : stamp) : Prop := tick s <= c (stream s).
(** `After::cover` *)
Definition cover (c : clock) (s : stamp) : clock :=
  fun r => if Nat.eqb r (stream s) then Nat.max (c r) (tick s) else c r.
(** `After::cover_all` *)
Definition cover_all (c d : clock) : clock := fun r => Nat.max (c r) (d r).
(** The loop of `wait_for`. *)
Definition waited (c : clock) (ms : list marker) : clock :=
  fold_left (fun c m => cover (cover_all c (known m)) (at_ m)) ms c.

Definition le_clock (c d : clock) := forall r, c r <= d r.

Lemma cover_all_comm c d r : cover_all c d r = cover_all d c r.
Proof. unfold cover_all; lia. Qed.
Lemma cover_all_assoc c d e r : cover_all c (cover_all d e) r = cover_all (cover_all c d) e r.
Proof. unfold cover_all; lia. Qed.
Lemma cover_all_idem c r : cover_all c c r = c r.
Proof. unfold cover_all; lia. Qed.

Lemma cover_grows c s : le_clock c (cover c s).
Proof. intros r; unfold cover; destruct (Nat.eqb r (stream s)); lia. Qed.
Lemma cover_all_grows c d : le_clock c (cover_all c d).
Proof. intros r; unfold cover_all; lia. Qed.
Lemma cover_covers c s : covers (cover c s) s.
Proof. unfold covers, cover; rewrite Nat.eqb_refl; lia. Qed.
Lemma covers_mono c d s : le_clock c d -> covers c s -> covers d s.
Proof. unfold covers; intros H K; specialize (H (stream s)); lia. Qed.

(** A clock never goes back. *)
Theorem waited_grows ms : forall c, le_clock c (waited c ms).
Proof.
  induction ms as [|m ms IH]; intros c r; simpl; [lia|].
  specialize (IH (cover (cover_all c (known m)) (at_ m)) r); simpl in IH.
  pose proof (cover_all_grows c (known m) r).
  pose proof (cover_grows (cover_all c (known m)) (at_ m) r). unfold waited in *; lia.
Qed.

Lemma waited_covers_marker ms : forall c m, In m ms -> covers (waited c ms) (at_ m).
Proof.
  induction ms as [|m' ms IH]; intros c m; simpl; [tauto|]; intros [->|H].
  - eapply covers_mono; [apply waited_grows | apply cover_covers].
  - apply IH; exact H.
Qed.

(** `Hazards::add`: the highest tick of each stream. *)
Fixpoint add (hs : list stamp) (s : stamp) : list stamp :=
  match hs with
  | [] => [s]
  | h :: hs' => if Nat.eqb (stream h) (stream s)
                then Stamp (stream h) (Nat.max (tick h) (tick s)) :: hs'
                else h :: add hs' s
  end.
Definition stands_for (hs : list stamp) (s : stamp) :=
  exists h, In h hs /\ stream h = stream s /\ tick s <= tick h.

Lemma add_stands_for hs s : stands_for (add hs s) s.
Proof.
  induction hs as [|h hs IH]; simpl.
  - exists s; simpl; auto.
  - destruct (Nat.eqb (stream h) (stream s)) eqn:E.
    + apply Nat.eqb_eq in E. eexists; split; [left; reflexivity|]; simpl; split; [exact E|lia].
    + destruct IH as [h' [I K]]; exists h'; simpl; auto.
Qed.
Lemma add_keeps hs s o : stands_for hs o -> stands_for (add hs s) o.
Proof.
  induction hs as [|h hs IH]; simpl; intros [h' [I [K L]]]; [destruct I|].
  destruct (Nat.eqb (stream h) (stream s)) eqn:E.
  - destruct I as [->|I].
    + eexists; split; [left; reflexivity|]; simpl; split; [exact K|lia].
    + exists h'; simpl; auto.
  - destruct I as [->|I].
    + exists h'; simpl; auto.
    + destruct IH as [h'' [I' K']]; [exists h'; auto|]; exists h''; simpl; auto.
Qed.
Lemma adds_stand_for ss : forall hs s, In s ss \/ stands_for hs s -> stands_for (fold_left add ss hs) s.
Proof.
  induction ss as [|x ss IH]; intros hs s; simpl; [tauto|].
  intros [[->|H]|H]; apply IH; auto using add_stands_for, add_keeps.
Qed.

(** Every hazard is covered after `lock_after`: whatever the op conflicts with (`conflicts`) is covered already, or complete and
    then covered at once (`over`), or waited for by a marker of its stream that covers it. *)
Theorem every_hazard_is_covered :
  forall (c : clock) (conflicts over : list stamp) (ms : list marker),
    let open := filter (fun s => negb (Nat.leb (tick s) (c (stream s)))) conflicts in
    let c' := fold_left cover over c in
    (forall s, In s open ->
       In s over \/
       exists h m, In h (fold_left add (filter (fun s => negb (Nat.leb (tick s) (c (stream s)))) conflicts) []) /\
                   stream h = stream s /\ tick s <= tick h /\
                   In m ms /\ stream (at_ m) = stream h /\ tick h <= tick (at_ m)) ->
    forall s, In s conflicts -> covers (waited c' ms) s.
Proof.
  intros c conflicts over ms open c' H s I.
  assert (G : forall l d, le_clock d (fold_left cover l d)).
  { induction l as [|x l IH]; intros d r; simpl; [lia|].
    specialize (IH (cover d x) r). pose proof (cover_grows d x r). lia. }
  assert (K : forall l d x, In x l -> covers (fold_left cover l d) x).
  { induction l as [|y l IH]; intros d x; simpl; [tauto|]; intros [->|J].
    - eapply covers_mono; [apply G|apply cover_covers].
    - apply IH; exact J. }
  destruct (Nat.leb (tick s) (c (stream s))) eqn:E.
  - apply Nat.leb_le in E.
    eapply covers_mono; [apply waited_grows|]. eapply covers_mono; [apply G|]. exact E.
  - destruct (H s) as [J|[h [m [_ [S1 [L1 [J [S2 L2]]]]]]]].
    + apply filter_In; split; [exact I|]; rewrite E; reflexivity.
    + eapply covers_mono; [apply waited_grows|]. apply K; exact J.
    + pose proof (waited_covers_marker ms c' m J) as C.
      unfold covers in *. rewrite S2, S1 in C. lia.
Qed.

(** For each hazard there is one that is waited for: `Hazards` loses none. *)
Theorem hazards_lose_none ss s : In s ss -> stands_for (fold_left add ss []) s.
Proof. intros H; apply adds_stand_for; auto. Qed.

(** What clocks say is true. `before x y`: the command x is over when y begins. It is transitive, and holds along a stream
    and from a marker to who waits for it. *)
Section Truth.
  Variable before : stamp -> stamp -> Prop.
  Hypothesis before_trans : forall x y z, before x y -> before y z -> before x z.

  (** A clock at a point of a stream: all that it covers (and that exists: ticks begin at 1) is before that point. *)
  Definition true_at (c : clock) (p : stamp) := forall s, 1 <= tick s -> covers c s -> before s p.
  (** What is covered by a marker's own stamp is before it or is it. *)
  Hypothesis along : forall r t u, t < u -> before (Stamp r t) (Stamp r u).

  Theorem merged_clocks_are_true : forall c ms p q,
    true_at c p -> before p q ->
    (forall m, In m ms -> true_at (known m) (at_ m) /\ before (at_ m) q) ->
    true_at (waited c ms) q.
  Proof.
    intros c ms p q T B; revert c T.
    assert (E : forall c, true_at c q -> (forall m, In m ms -> true_at (known m) (at_ m) /\ before (at_ m) q) ->
                true_at (waited c ms) q).
    { induction ms as [|m ms IH]; intros c T M; simpl; [exact T|].
      apply IH; [|intros m' I; apply M; right; exact I].
      destruct (M m (or_introl eq_refl)) as [Tm Bm].
      intros s P C. unfold covers, cover, cover_all in C.
      destruct (Nat.eqb (stream s) (stream (at_ m))) eqn:Eq.
      - apply Nat.eqb_eq in Eq.
        destruct (Nat.le_gt_cases (tick s) (tick (at_ m))) as [L|L].
        + destruct (Nat.eq_dec (tick s) (tick (at_ m))) as [D|D].
          * assert (s = at_ m) by (destruct s, (at_ m); simpl in *; congruence). subst s. exact Bm.
          * apply before_trans with (y := at_ m); [|exact Bm].
            destruct s as [r t], (at_ m) as [r' t'] eqn:Ea; simpl in *; subst r'. apply along; lia.
        + destruct (Nat.le_gt_cases (tick s) (c (stream s))).
          * apply T; assumption.
          * apply before_trans with (y := at_ m); [apply Tm; [assumption|unfold covers; lia]|exact Bm].
      - destruct (Nat.le_gt_cases (tick s) (c (stream s))).
        + apply T; assumption.
        + apply before_trans with (y := at_ m); [apply Tm; [assumption|unfold covers; lia]|exact Bm]. }
    intros c T M. apply E; [|exact M].
    intros s P C; apply before_trans with (y := p); [apply T; assumption|exact B].
  Qed.
End Truth.

Print Assumptions waited_grows.
Print Assumptions every_hazard_is_covered.
Print Assumptions hazards_lose_none.
Print Assumptions merged_clocks_are_true.
