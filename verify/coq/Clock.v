(** The clocks of streams, for any number of streams.
    Code: crates/runtime/src/clock.rs (`After`, `Hazards`), order.rs (`lock_after`, `wait_for`). *)
From Coq Require Import Arith List Lia Bool.
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

(** For each hazard there is one that is waited for: `Hazards` loses none. *)
Theorem hazards_lose_none ss s : In s ss -> stands_for (fold_left add ss []) s.
Proof. intros H; apply adds_stand_for; auto. Qed.

(** What `order_read` and `order_write` find of a use of another stream that an op conflicts with. `is_good` is the answer of
    `clean.covers`, which only a read asks for; `is_complete` is that of the clocks at that moment. *)
Record look := Look { use : stamp; reads : bool; is_good : bool; is_complete : bool }.
Definition is_covered (c : clock) (s : stamp) : bool := Nat.leb (tick s) (c (stream s)).

(** `order_read` and `order_write`: what they do to the stream's clock and to `waits`. *)
Definition order (at_once : clock * list stamp) (l : look) : clock * list stamp :=
  let (c, hs) := at_once in
  if reads l && is_good l then (c, hs)
  else if is_covered c (use l) && negb (reads l && is_complete l) then (c, hs)
  else if is_complete l then (cover c (use l), hs)
  else (c, add hs (use l)).

(** `wait_for`: there is a marker for a stamp, or none because its stream takes no event and the stamp is complete. *)
Definition markers (found : stamp -> option marker) (hs : list stamp) : list marker :=
  flat_map (fun h => match found h with Some m => [m] | None => [] end) hs.

(** `Lane::marker`: the latest one if it covers the tick, else one that is recorded now, after all that the stream was given. *)
Definition marker_of (latest : option stamp) (r recorded t : nat) : stamp :=
  match latest with
  | Some m => if Nat.leb t (tick m) then m else Stamp r recorded
  | None => Stamp r recorded
  end.
Theorem a_marker_covers_what_was_asked latest r recorded t :
  (forall m, latest = Some m -> stream m = r) -> t < recorded ->
  stream (marker_of latest r recorded t) = r /\ t <= tick (marker_of latest r recorded t).
Proof.
  intros L A; unfold marker_of. destruct latest as [m|]; simpl; [|lia].
  destruct (Nat.leb t (tick m)) eqn:E; simpl; [|lia].
  apply Nat.leb_le in E; split; [apply L; reflexivity|exact E].
Qed.

Lemma is_covered_true c s : is_covered c s = true -> covers c s.
Proof. intros E; apply Nat.leb_le in E; exact E. Qed.
Lemma le_clock_refl c : le_clock c c.
Proof. intros r; lia. Qed.
Lemma le_clock_trans c d e : le_clock c d -> le_clock d e -> le_clock c e.
Proof. intros A B r; specialize (A r); specialize (B r); lia. Qed.

(** A look never takes back what an earlier one did. *)
Lemma order_keeps l p : le_clock (fst p) (fst (order p l)) /\ forall s, stands_for (snd p) s -> stands_for (snd (order p l)) s.
Proof.
  destruct p as [c hs]; unfold order.
  destruct (reads l && is_good l); [split; [apply le_clock_refl|auto]|].
  destruct (is_covered c (use l) && negb (reads l && is_complete l)); [split; [apply le_clock_refl|auto]|].
  destruct (is_complete l); simpl; (split; [apply cover_grows || apply le_clock_refl|auto using add_keeps]).
Qed.
Lemma orders_keep ls : forall p,
  le_clock (fst p) (fst (fold_left order ls p)) /\ forall s, stands_for (snd p) s -> stands_for (snd (fold_left order ls p)) s.
Proof.
  induction ls as [|l ls IH]; intros p; simpl; [split; [apply le_clock_refl|auto]|].
  destruct (IH (order p l)) as [A B], (order_keeps l p) as [C D]. split; [eapply le_clock_trans; eauto|auto].
Qed.

Section Hazards.
  (** What is complete when the stream's lock was taken at last. What was complete before still is. *)
  Variable complete : stamp -> Prop.
  Hypothesis complete_before : forall r t u, u <= t -> complete (Stamp r t) -> complete (Stamp r u).

  (** After the looks each use is covered, or complete, or `Hazards` has one that stands for it. *)
  Lemma no_look_is_lost ls : forall p,
    (forall l, In l ls -> is_good l = true \/ is_complete l = true -> complete (use l)) ->
    forall l, In l ls ->
      covers (fst (fold_left order ls p)) (use l) \/ complete (use l) \/ stands_for (snd (fold_left order ls p)) (use l).
  Proof.
    induction ls as [|x ls IH]; intros p T l; simpl; [tauto|]; intros [->|I].
    - destruct (orders_keep ls (order p l)) as [G K].
      assert (T' := T l (or_introl eq_refl)).
      assert (covers (fst (order p l)) (use l) \/ complete (use l) \/ stands_for (snd (order p l)) (use l)) as [C|[C|C]].
      { destruct p as [c hs]; unfold order.
        destruct (reads l && is_good l) eqn:E; [apply andb_prop in E; tauto|].
        destruct (is_covered c (use l) && negb (reads l && is_complete l)) eqn:F.
        { apply andb_prop in F; left; apply is_covered_true; tauto. }
        destruct (is_complete l); [tauto|]. right; right; apply add_stands_for. }
      + left; eapply covers_mono; eauto.
      + auto.
      + auto.
    - apply IH; [|exact I]. intros y J; apply T; right; exact J.
  Qed.

  (** Every hazard is covered after `lock_after`, or complete. What is assumed is about the stamps in `Hazards` alone: each has a
      marker of its stream of no earlier tick, or is complete. Between the looks and the waits the lock is free, so the clock may have
      grown: from that of the looks to `c`. *)
  Theorem every_hazard_is_covered : forall c0 ls c found,
    let (looked, hs) := fold_left order ls (c0, []) in
    (forall l, In l ls -> is_good l = true \/ is_complete l = true -> complete (use l)) ->
    le_clock looked c ->
    (forall h, In h hs ->
       match found h with Some m => stream (at_ m) = stream h /\ tick h <= tick (at_ m) | None => complete h end) ->
    forall l, In l ls -> covers (waited c (markers found hs)) (use l) \/ complete (use l).
  Proof.
    intros c0 ls c found. destruct (fold_left order ls (c0, [])) as [looked hs] eqn:E.
    intros T G F l I.
    destruct (no_look_is_lost ls (c0, []) T l I) as [C|[C|[h [J [S L]]]]]; rewrite ?E in *; simpl in *.
    - left. eapply covers_mono; [apply waited_grows|]. eapply covers_mono; [exact G|exact C].
    - right; exact C.
    - assert (H := F h J). destruct (found h) as [m|] eqn:M.
      + left. destruct H as [S' L'].
        assert (C := waited_covers_marker (markers found hs) c m).
        assert (In m (markers found hs)) as K by (apply in_flat_map; exists h; rewrite M; simpl; auto).
        specialize (C K). unfold covers in *. rewrite S', S in C. lia.
      + right. destruct h as [r t], (use l) as [r' t']; simpl in *; subst r'. eapply complete_before; eauto.
  Qed.
End Hazards.

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

  (** All together: when `lock_after` has returned, what the op conflicts with is before the op, `q`. `p` is where the stream was when
      its lock was taken at last. *)
  Theorem every_conflict_comes_before : forall (complete : stamp -> Prop) c0 ls c found p q,
    let (looked, hs) := fold_left order ls (c0, []) in
    (forall r t u, u <= t -> complete (Stamp r t) -> complete (Stamp r u)) ->
    (forall s, 1 <= tick s -> complete s -> before s q) ->
    (forall l, In l ls -> 1 <= tick (use l) /\ (is_good l = true \/ is_complete l = true -> complete (use l))) ->
    le_clock looked c -> true_at c p -> before p q ->
    (forall h, In h hs ->
       match found h with Some m => stream (at_ m) = stream h /\ tick h <= tick (at_ m) | None => complete h end) ->
    (forall h m, In h hs -> found h = Some m -> true_at (known m) (at_ m) /\ before (at_ m) q) ->
    forall l, In l ls -> before (use l) q.
  Proof.
    intros complete c0 ls c found p q.
    pose proof (every_hazard_is_covered complete) as E; specialize (fun D => E D c0 ls c found).
    destruct (fold_left order ls (c0, [])) as [looked hs].
    intros D O T G Tc B F M l I. destruct (T l I) as [P _].
    destruct (E D (fun l I => proj2 (T l I)) G F l I) as [C|C]; [|auto].
    apply (merged_clocks_are_true c (markers found hs) p q Tc B); auto.
    intros m J. apply in_flat_map in J; destruct J as [h [J K]].
    destruct (found h) as [m'|] eqn:N; [|destruct K]. destruct K as [->|[]]. eapply M; eauto.
  Qed.
End Truth.

Print Assumptions waited_grows.
Print Assumptions hazards_lose_none.
Print Assumptions a_marker_covers_what_was_asked.
Print Assumptions every_hazard_is_covered.
Print Assumptions merged_clocks_are_true.
Print Assumptions every_conflict_comes_before.
