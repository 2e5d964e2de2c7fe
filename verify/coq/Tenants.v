(** Fair shares of tenants, for any number of them and any weights.
    Code: crates/batch/src/schedule/tenants.rs (`Tenants::turn`, `reached`, `give_back`), mod.rs (`add`, `take`, `first_turns`, `remove`).
    One priority.

    Requests of one kind go in the order of their turns. With several kinds some go early: a batch has the next ones of its kind, though
    other kinds have earlier ones; and so does who was passed over too often. Here requests may go in any order at all. The queue never
    stands later than a turn that waits. (The code looks at the first request of each bucket, and at none that went behind the others.)
    So what goes early does not move it past others: the tenant has had it before its turn, and has that much less when the queue comes
    there. `ahead` is what a tenant has had so. It is 0 while all go in order. *)
From Coq Require Import Arith List Lia Bool.
Import ListNotations.

(** `price`: how far turns go on. A row of weight 1 takes `row` of them. Weights are in thousandths here, as in `Tenant::part`. *)
Definition row : nat := 1024 * 1024.
Definition price (rows weight : nat) : nat := rows * row * 1000 / weight.

(** A price is the work divided by the weight, but for what is lost by rounding. *)
Theorem a_price_is_work_by_weight rows weight : 0 < weight ->
  price rows weight * weight <= rows * row * 1000 < (price rows weight + 1) * weight.
Proof.
  intros W; unfold price.
  generalize (rows * row * 1000); intros n.
  pose proof (Nat.div_mod_eq n weight). pose proof (Nat.mod_upper_bound n weight). nia.
Qed.

Record request := Request { who : nat; turn : nat; cost : nat }.
Record state := State {
  ends : nat -> nat;        (* `Tenant::end` *)
  reached : nat;            (* `Tenants::reached` *)
  waiting : list request;   (* in the order of their coming *)
  given : nat -> nat;       (* not in the code: how much each has given up *)
  early : list request      (* not in the code: what went and had a later turn than where the queue stood then *)
}.

Definition set (f : nat -> nat) (i n : nat) : nat -> nat := fun j => if Nat.eqb j i then n else f j.

(** The least of a turn and those of what waits. *)
Definition least (n : nat) (rs : list request) : nat := fold_right (fun o m => Nat.min (turn o) m) n rs.

Inductive event := Comes (i c : nat) | Goes (r : request) | GivesUp (r : request).

Inductive step : state -> event -> state -> Prop :=
| SComes s i c :   (* `turn` *)
    let begin := Nat.max (reached s) (ends s i) in
    step s (Comes i c) (State (set (ends s) i (begin + c)) (reached s) (waiting s ++ [Request i begin c]) (given s) (early s))
| SGoes s front r back :   (* `reached`, with `first_turns` *)
    waiting s = front ++ r :: back ->
    let now := Nat.max (reached s) (least (turn r) (front ++ back)) in
    step s (Goes r) (State (ends s) now (front ++ back) (given s) (if Nat.ltb now (turn r) then r :: early s else early s))
| SGivesUp s front r back :   (* `give_back`; `-` stops at 0 as `saturating_sub` *)
    waiting s = front ++ r :: back ->
    step s (GivesUp r) (State (set (ends s) (who r) (ends s (who r) - cost r)) (reached s) (front ++ back)
                              (set (given s) (who r) (given s (who r) + cost r)) (early s)).

Lemma least_most n rs : least n rs <= n /\ Forall (fun o => least n rs <= turn o) rs.
Proof.
  induction rs as [|o rs [N F]]; simpl; [split; [lia|constructor]|]. split; [lia|]. constructor; [lia|].
  eapply Forall_impl; [|exact F]. simpl; intros; lia.
Qed.
Lemma least_of_later n rs : Forall (fun o => n <= turn o) rs -> least n rs = n.
Proof. induction 1 as [|o rs L F IH]; simpl; lia. Qed.

(** The code takes a batch out first, and then looks at each of its requests beside all that waits after it. Where the queue stands then
    does not depend on the order of the batch. It is the same as with one request after the other, in the order of their turns. *)
Definition batch_goes (n : nat) (batch rest : list request) : nat :=
  fold_left (fun n r => Nat.max n (least (turn r) rest)) batch n.
Fixpoint one_by_one (n : nat) (batch rest : list request) : nat :=
  match batch with [] => n | r :: batch => one_by_one (Nat.max n (least (turn r) (batch ++ rest))) batch rest end.
Fixpoint in_turns (rs : list request) : Prop :=
  match rs with [] => True | r :: rs => Forall (fun o => turn r <= turn o) rs /\ in_turns rs end.
Theorem a_batch_goes_one_by_one batch rest : in_turns batch -> forall n, batch_goes n batch rest = one_by_one n batch rest.
Proof.
  induction batch as [|r batch IH]; simpl; [reflexivity|]. intros [L I] n. rewrite <- (IH I). unfold batch_goes; simpl.
  f_equal. f_equal. clear - L. induction L as [|o batch L _ IH]; simpl; [reflexivity|].
  rewrite <- IH. pose proof (proj1 (least_most (turn r) rest)). lia.
Qed.

(** What of a tenant waits. *)
Definition of (i : nat) (r : request) : nat := if Nat.eqb (who r) i then cost r else 0.
Fixpoint load (i : nat) (rs : list request) : nat :=
  match rs with [] => 0 | r :: rs => of i r + load i rs end.
(** What of a tenant waits and has a later turn than `x`. *)
Definition of_later (x i : nat) (r : request) : nat := if Nat.ltb x (turn r) then of i r else 0.
Fixpoint later (x i : nat) (rs : list request) : nat :=
  match rs with [] => 0 | r :: rs => of_later x i r + later x i rs end.

Lemma load_app i a b : load i (a ++ b) = load i a + load i b.
Proof. induction a as [|r a IH]; simpl; lia. Qed.
Lemma later_app x i a b : later x i (a ++ b) = later x i a + later x i b.
Proof. induction a as [|r a IH]; simpl; lia. Qed.
Lemma of_later_most x i r : of_later x i r <= of i r.
Proof. unfold of_later; destruct (Nat.ltb x (turn r)); lia. Qed.
Lemma later_most x i rs : later x i rs <= load i rs.
Proof. induction rs as [|r rs IH]; simpl; [lia|]. pose proof (of_later_most x i r); lia. Qed.

(** What of a tenant went, though its turn is still to come. *)
Definition ahead (k : nat) (s : state) : nat := later (reached s) k (early s).

(** Who goes in order is not early. *)
Theorem in_order_nothing_is_early s r s' :
  Forall (fun o => turn r <= turn o) (waiting s) -> step s (Goes r) s' -> early s' = early s.
Proof.
  intros F S; inversion S as [|? front ? back W now|]; subst; simpl. rewrite W in F.
  apply Forall_app in F as [F1 F2]; inversion F2; subst.
  assert (N : turn r <= now) by (unfold now; rewrite least_of_later by (apply Forall_app; auto); apply Nat.le_max_r).
  apply Nat.ltb_ge in N; rewrite N; reflexivity.
Qed.

Section Fair.
(** The most that one request of each tenant takes. *)
Variable most : nat -> nat.

Definition small (e : event) := match e with Comes i c => c <= most i | _ => True end.

(** What holds at all times. *)
Record fair (s : state) : Prop := Fair {
  (** Nobody who waits was passed. *)
  f_order : Forall (fun r => reached s <= turn r) (waiting s);
  (** `end` stands for all that waits. *)
  f_load : forall k, load k (waiting s) <= ends s k;
  (** Nobody is ahead by more than one request: what of a tenant's turns is later than `x` still waits, or went early. *)
  f_ahead : forall k x, reached s <= x -> ends s k <= x + most k + later x k (waiting s) + later x k (early s);
  (** Nobody is behind by more than what it gave up itself. *)
  f_behind : forall front r back, waiting s = front ++ r :: back ->
    turn r + load (who r) (waiting s) <= ends s (who r) + given s (who r) + load (who r) front
}.

Definition start : state := State (fun _ => 0) 0 [] (fun _ => 0) [].
Lemma start_fair : fair start.
Proof.
  constructor; simpl; [constructor|lia|intros; lia|].
  intros front r back E; destruct front; discriminate.
Qed.

Lemma set_same f i n : set f i n i = n.
Proof. unfold set; rewrite Nat.eqb_refl; reflexivity. Qed.
Lemma set_other f i n j : j <> i -> set f i n j = f j.
Proof. unfold set; intros D; apply Nat.eqb_neq in D; rewrite D; reflexivity. Qed.
Lemma of_own r : of (who r) r = cost r.
Proof. unfold of; rewrite Nat.eqb_refl; reflexivity. Qed.
Lemma of_other k r : k <> who r -> of k r = 0.
Proof. unfold of; intros D; destruct (Nat.eqb (who r) k) eqn:E; [apply Nat.eqb_eq in E; congruence|reflexivity]. Qed.

(** One of a list that somebody left is in the list before. *)
Lemma split_of_rest (front back front' back' : list request) r r' :
  front ++ back = front' ++ r' :: back' ->
  exists f b, front ++ r :: back = f ++ r' :: b /\
    ((f = front' /\ exists m, b = m ++ r :: back) \/ (exists m, f = front ++ r :: m /\ front' = front ++ m)).
Proof.
  revert front'; induction front as [|x front IH]; intros front' E; simpl in *.
  - subst back. exists (r :: front'), back'; split; [reflexivity|]. right; exists front'; auto.
  - destruct front' as [|y front']; simpl in E; injection E as -> E.
    + exists [], (front ++ r :: back); split; [reflexivity|]. left; split; [reflexivity|]. exists front; reflexivity.
    + destruct (IH front' E) as [f [b [Q [[-> [m ->]]|[m [-> ->]]]]]].
      * exists (y :: front'), (m ++ r :: back); simpl; rewrite Q; split; [reflexivity|]. left; split; [reflexivity|]. exists m; reflexivity.
      * exists (y :: front ++ r :: m), b; simpl; rewrite Q; split; [reflexivity|]. right; exists m; auto.
Qed.

Lemma step_fair s e s' : small e -> step s e s' -> fair s -> fair s'.
Proof.
  intros M S F; destruct F as [O L A B]; destruct S as [s i c begin|s front r back W|s front r back W]; simpl in *.
  - constructor; simpl.
    + apply Forall_app; split; [exact O|]. constructor; [simpl; unfold begin; lia|constructor].
    + intros k. rewrite load_app; simpl. specialize (L k).
      destruct (Nat.eq_dec k i) as [->|D].
      * rewrite set_same. unfold of; simpl; rewrite Nat.eqb_refl. unfold begin; lia.
      * rewrite set_other by exact D. rewrite of_other by exact D. lia.
    + intros k x X. rewrite later_app; simpl. specialize (A k x X).
      destruct (Nat.eq_dec k i) as [->|D].
      * rewrite set_same. unfold of_later, of; simpl; rewrite Nat.eqb_refl.
        destruct (Nat.ltb x begin) eqn:E; [apply Nat.ltb_lt in E|apply Nat.ltb_ge in E]; unfold begin in *; lia.
      * rewrite set_other by exact D. unfold of_later. rewrite of_other by exact D. destruct (Nat.ltb x _); lia.
    + intros f r b E. rewrite load_app; simpl.
      destruct b as [|z b _] using rev_ind.
      * apply app_inj_tail in E; destruct E as [<- <-]; simpl. rewrite set_same.
        unfold of; simpl; rewrite Nat.eqb_refl. lia.
      * rewrite app_comm_cons, app_assoc in E. apply app_inj_tail in E; destruct E as [E <-].
        specialize (B f r b E).
        destruct (Nat.eq_dec (who r) i) as [D|D].
        -- rewrite D in *. rewrite set_same. unfold of; simpl; rewrite Nat.eqb_refl. unfold begin; lia.
        -- rewrite set_other by exact D. rewrite of_other by exact D. lia.
  - rewrite W in *. constructor; simpl.
    + destruct (least_most (turn r) (front ++ back)) as [_ First].
      apply Forall_app in O; destruct O as [O1 O2]; inversion O2 as [|? ? _ O3]; subst.
      assert (O := proj2 (Forall_app _ _ _) (conj O1 O3)). rewrite Forall_forall in *.
      intros o I. specialize (O o I); specialize (First o I). unfold now; lia.
    + intros k; specialize (L k); rewrite load_app in *; simpl in *; lia.
    + intros k x X. assert (A' := A k x ltac:(unfold now in X; lia)). rewrite later_app in *; simpl in *.
      destruct (Nat.ltb now (turn r)) eqn:E; simpl; [lia|]. apply Nat.ltb_ge in E.
      unfold of_later in A'. destruct (Nat.ltb x (turn r)) eqn:E'; [apply Nat.ltb_lt in E'|]; lia.
    + intros f r' b E. destruct (split_of_rest front back f b r r' E) as [f0 [b0 [Q H]]].
      assert (B' := B f0 r' b0 Q). rewrite load_app in *; simpl in *.
      destruct H as [[-> _]|[m [-> ->]]]; rewrite ?load_app in *; simpl in *; lia.
  - rewrite W in *. constructor; simpl.
    + apply Forall_app in O; destruct O as [O1 O2]; inversion O2 as [|? ? _ O3]; subst. apply Forall_app; auto.
    + intros k; specialize (L k); rewrite load_app in *; simpl in *.
      destruct (Nat.eq_dec k (who r)) as [->|D].
      * rewrite set_same. rewrite of_own in L. lia.
      * rewrite set_other by exact D. lia.
    + intros k x X. specialize (A k x X). specialize (L k). rewrite load_app, later_app in *; simpl in *.
      destruct (Nat.eq_dec k (who r)) as [->|D].
      * rewrite set_same. unfold of_later in A. rewrite of_own in *. destruct (Nat.ltb x (turn r)); lia.
      * rewrite set_other by exact D. unfold of_later in A. rewrite of_other in A by exact D.
        destruct (Nat.ltb x (turn r)); lia.
    + intros f r' b E. destruct (split_of_rest front back f b r r' E) as [f0 [b0 [Q H]]].
      assert (B' := B f0 r' b0 Q). specialize (L (who r')). rewrite load_app in *; simpl in *.
      destruct (Nat.eq_dec (who r') (who r)) as [D|D].
      * rewrite D in *. rewrite !set_same. rewrite of_own in *.
        destruct H as [[-> _]|[m [-> ->]]]; rewrite ?load_app in *; simpl in *; rewrite ?of_own in *; lia.
      * rewrite !set_other by exact D. rewrite of_other in B' by exact D.
        destruct H as [[-> _]|[m [-> ->]]]; rewrite ?load_app in *; simpl in *; rewrite ?(of_other _ _ D) in *; lia.
Qed.

Inductive runs : state -> list event -> state -> Prop :=
| Nothing s : runs s [] s
| Then s e s' es s'' : small e -> step s e s' -> runs s' es s'' -> runs s (e :: es) s''.

Lemma runs_fair s es s' : runs s es s' -> fair s -> fair s'.
Proof. induction 1; intros F; auto. apply IHruns. eapply step_fair; eauto. Qed.

(** The work of a tenant that was done, divided by its weight. *)
Definition done (k : nat) (e : event) : nat := match e with Goes r => of k r | _ => 0 end.
Fixpoint served (k : nat) (es : list event) : nat :=
  match es with [] => 0 | e :: es => done k e + served k es end.

Definition waits (k : nat) (s : state) : bool := existsb (fun r => Nat.eqb (who r) k) (waiting s).
(** Something of a tenant waits all the time. *)
Fixpoint always_waits_in (k : nat) (s : state) (es : list event) (s' : state) : Prop :=
  waits k s = true /\
  match es with
  | [] => s = s'
  | e :: es => exists t, small e /\ step s e t /\ always_waits_in k t es s'
  end.

(** Where a tenant stands: where its first request began or, if it has none, where its next would. *)
Definition stands (k : nat) (s : state) : nat :=
  if waits k s then ends s k - load k (waiting s) else Nat.max (reached s) (ends s k).

Lemma no_load k rs : existsb (fun r => Nat.eqb (who r) k) rs = false -> load k rs = 0.
Proof.
  induction rs as [|r rs IH]; simpl; [reflexivity|]. intros E; apply orb_false_iff in E as [E1 E2].
  rewrite (IH E2). unfold of; rewrite E1; reflexivity.
Qed.
Lemma first_of k rs : existsb (fun r => Nat.eqb (who r) k) rs = true ->
  exists front r back, rs = front ++ r :: back /\ who r = k /\ load k front = 0.
Proof.
  induction rs as [|r rs IH]; simpl; [discriminate|]. destruct (Nat.eqb (who r) k) eqn:E; simpl.
  - intros _. apply Nat.eqb_eq in E. exists [], r, rs; auto.
  - intros H; destruct (IH H) as [f [x [b [-> [W Z]]]]]. exists (r :: f), x, b.
    split; [reflexivity|]. split; [exact W|]. simpl. unfold of; rewrite E; exact Z.
Qed.

(** Nobody stands further ahead of the queue than one of its requests takes, and what it has had early. *)
Lemma stands_not_ahead k s : fair s -> stands k s <= reached s + most k + ahead k s.
Proof.
  intros F; unfold stands, ahead. pose proof (f_ahead s F k (reached s) (le_n _)) as A.
  pose proof (later_most (reached s) k (waiting s)).
  destruct (waits k s) eqn:E; [lia|]. unfold waits in E. apply no_load in E. lia.
Qed.
(** Nobody stands further behind the queue than by what it gave up. *)
Lemma stands_not_behind k s : fair s -> reached s <= stands k s + given s k.
Proof.
  intros F; unfold stands. destruct (waits k s) eqn:E; [|lia].
  destruct (first_of k (waiting s) E) as [f [r [b [W [<- Z]]]]].
  pose proof (f_behind s F f r b W) as B. pose proof (f_load s F (who r)).
  pose proof (f_order s F) as O. rewrite W in O. apply Forall_app in O as [_ O]. inversion O; subst. lia.
Qed.

Lemma waits_app k a b : existsb (fun r => Nat.eqb (who r) k) (a ++ b) =
  existsb (fun r => Nat.eqb (who r) k) a || existsb (fun r => Nat.eqb (who r) k) b.
Proof. apply existsb_app. Qed.

(** Whatever happens, a tenant moves on by at least what it is served. *)
Lemma stands_moves k s e s' : fair s -> step s e s' -> stands k s + done k e <= stands k s'.
Proof.
  intros F S; pose proof (f_load s F k) as L; unfold stands, waits.
  destruct S as [s i c begin|s front r back W|s front r back W]; simpl.
  - rewrite waits_app, load_app; simpl. rewrite orb_false_r.
    destruct (Nat.eq_dec k i) as [->|D].
    + rewrite set_same, Nat.eqb_refl, orb_true_r. unfold of; simpl; rewrite Nat.eqb_refl.
      destruct (existsb _ (waiting s)) eqn:E; [unfold begin; lia|]. apply no_load in E. unfold begin; lia.
    + rewrite set_other by exact D. rewrite of_other by exact D.
      assert (Nat.eqb i k = false) as -> by (apply Nat.eqb_neq; congruence). rewrite orb_false_r.
      destruct (existsb _ (waiting s)); lia.
  - rewrite W in *. rewrite !waits_app, load_app in *; simpl in *. rewrite load_app.
    unfold of in *. destruct (Nat.eqb (who r) k) eqn:E; simpl.
    + rewrite orb_true_r. destruct (existsb _ front || existsb _ back) eqn:G; [lia|].
      apply orb_false_iff in G as [G1 G2]; apply no_load in G1, G2; lia.
    + destruct (existsb _ front || existsb _ back) eqn:G; lia.
  - rewrite W in *. rewrite !waits_app, load_app in *; simpl in *. rewrite load_app.
    unfold of in *. destruct (Nat.eqb (who r) k) eqn:E; simpl.
    + apply Nat.eqb_eq in E; subst k. rewrite set_same, orb_true_r.
      destruct (existsb _ front || existsb _ back) eqn:G; [lia|].
      apply orb_false_iff in G as [G1 G2]; apply no_load in G1, G2; lia.
    + rewrite set_other by (apply Nat.eqb_neq in E; congruence).
      destruct (existsb _ front || existsb _ back) eqn:G; lia.
Qed.

(** How far the queue can be for one that waits and gives nothing up, and stood at `x` when it had been served `n` less. *)
Record keeps_up (k x n : nat) (s : state) : Prop := KeepsUp {
  k_reached : reached s <= x + n;
  k_end : ends s k <= x + n + load k (waiting s);
  k_turns : forall front r back, waiting s = front ++ r :: back -> who r = k -> turn r <= x + n + load k front
}.
Lemma keeps_up_at_first k s : fair s -> waits k s = true -> given s k = 0 -> keeps_up k (stands k s) 0 s.
Proof.
  intros F W Z; pose proof (stands_not_behind k s F); pose proof (f_load s F k).
  unfold stands in *; rewrite W in *. constructor; [lia|lia|].
  intros f r b E D; subst k. pose proof (f_behind s F f r b E). lia.
Qed.
Lemma keeps_up_so k x n s e s' : step s e s' -> waits k s = true -> given s' k = given s k ->
  keeps_up k x n s -> keeps_up k x (n + done k e) s'.
Proof.
  intros S W Z [R E T]. destruct S as [s i c begin|s front r back Q|s front r back Q]; simpl in *.
  - rewrite Nat.add_0_r. constructor; simpl; [exact R| |].
    + rewrite load_app; simpl. destruct (Nat.eq_dec k i) as [->|D].
      * rewrite set_same. unfold of; simpl; rewrite Nat.eqb_refl. unfold begin; lia.
      * rewrite set_other by exact D. lia.
    + intros f r b Q D. destruct b as [|z b _] using rev_ind.
      * apply app_inj_tail in Q; destruct Q as [<- <-]; simpl in *. subst i. unfold begin; lia.
      * rewrite app_comm_cons, app_assoc in Q. apply app_inj_tail in Q; destruct Q as [Q _]. exact (T f r b Q D).
  - destruct (first_of k (waiting s) W) as [f1 [r1 [b1 [Q1 [D1 Z1]]]]].
    assert (T1 := T f1 r1 b1 Q1 D1). destruct (least_most (turn r) (front ++ back)) as [Own First].
    constructor; simpl.
    + assert (I : In r1 (front ++ r :: back)) by (rewrite <- Q, Q1; apply in_elt).
      rewrite Forall_forall in First. apply in_elt_inv in I as [<-|I]; [|specialize (First r1 I)]; unfold now; lia.
    + rewrite Q in E. rewrite load_app in *; simpl in *. lia.
    + intros f r' b Q' D. destruct (split_of_rest front back f b r r' Q') as [f0 [b0 [P H]]].
      rewrite <- Q in P. assert (T' := T f0 r' b0 P D).
      destruct H as [[-> _]|[m [-> ->]]]; rewrite ?load_app in *; simpl in *; lia.
  - rewrite Nat.add_0_r. assert (of k r = 0) as O.
    { unfold of; destruct (Nat.eqb (who r) k) eqn:D; [|reflexivity]. apply Nat.eqb_eq in D; subst k. rewrite set_same in Z. lia. }
    constructor; simpl; [exact R| |].
    + rewrite Q in E. rewrite load_app in *; simpl in *. unfold set.
      destruct (Nat.eqb k (who r)) eqn:D; [apply Nat.eqb_eq in D; subst k|]; lia.
    + intros f r' b Q' D. destruct (split_of_rest front back f b r r' Q') as [f0 [b0 [P H]]].
      rewrite <- Q in P. assert (T' := T f0 r' b0 P D).
      destruct H as [[-> _]|[m [-> ->]]]; rewrite ?load_app in *; simpl in *; lia.
Qed.

Lemma given_grows s e s' k : step s e s' -> given s k <= given s' k.
Proof.
  intros S; destruct S; simpl; try lia. unfold set. destruct (Nat.eqb k (who r)) eqn:E; [apply Nat.eqb_eq in E; subst|]; lia.
Qed.

Lemma always_waits_runs k s es s' : always_waits_in k s es s' -> runs s es s' /\ waits k s = true /\ waits k s' = true.
Proof.
  revert s; induction es as [|e es IH]; intros s [W H].
  - subst; repeat split; auto; constructor.
  - destruct H as [t [M [S H]]]. destruct (IH t H) as [R [_ W']]. repeat split; auto. econstructor; eauto.
Qed.
Lemma given_grows_in s es s' k : runs s es s' -> given s k <= given s' k.
Proof. induction 1; [lia|]. pose proof (given_grows _ _ _ k H0). lia. Qed.
Lemma later_falls x y k rs : x <= y -> later y k rs <= later x k rs.
Proof.
  intros L; induction rs as [|r rs IH]; simpl; [lia|]. unfold of_later.
  destruct (Nat.ltb y (turn r)) eqn:E; [|lia]. apply Nat.ltb_lt in E.
  assert (Nat.ltb x (turn r) = true) as -> by (apply Nat.ltb_lt; lia). lia.
Qed.
(** Nobody gets further ahead but by what goes early. *)
Lemma ahead_in k s es s' : runs s es s' -> ahead k s' + load k (early s) <= ahead k s + load k (early s').
Proof.
  induction 1 as [|s e s' es s'' _ S _ IH]; [lia|]. enough (ahead k s' + load k (early s) <= ahead k s + load k (early s')) by lia.
  clear IH. unfold ahead. destruct S as [| s front r back W now |]; simpl; [lia| |lia].
  assert (L := later_falls (reached s) now k (early s) ltac:(unfold now; lia)).
  destruct (Nat.ltb now (turn r)); simpl; [|lia]. pose proof (of_later_most now k r). lia.
Qed.
Lemma stands_moves_in k s es s' : runs s es s' -> fair s -> stands k s + served k es <= stands k s'.
Proof.
  induction 1 as [|s e s' es s'' M S R IH]; intros F; simpl; [lia|].
  pose proof (stands_moves k s e s' F S). specialize (IH (step_fair _ _ _ M S F)). lia.
Qed.
Lemma keeps_up_in k x es : forall n s s', always_waits_in k s es s' -> given s' k = given s k ->
  keeps_up k x n s -> keeps_up k x (n + served k es) s'.
Proof.
  induction es as [|e es IH]; intros n s s' H Z K; simpl.
  - destruct H as [_ <-]. rewrite Nat.add_0_r; exact K.
  - destruct H as [W [t [_ [S H]]]]. destruct (always_waits_runs _ _ _ _ H) as [R _].
    pose proof (given_grows _ _ _ k S). pose proof (given_grows_in _ _ _ k R).
    rewrite Nat.add_assoc. apply (IH _ t); [exact H|lia|]. apply (keeps_up_so k x n s e t); auto; lia.
Qed.

(** Whatever the others do, and in whatever order requests go, one that waits and has given nothing up is served as much, by weight, as any
    other; but for one request of each, what the other had given up before, and what each has had early: the one before, and the other
    at the end, of turns to which the queue has not come yet. What the other gives up meanwhile gains it nothing. *)
Theorem who_waits_has_its_share es0 s es s' i k :
  runs start es0 s -> always_waits_in i s es s' -> given s' i = 0 ->
  served k es <= served i es + most i + most k + given s k + ahead i s + ahead k s'.
Proof.
  intros R0 H Z. pose proof (runs_fair _ _ _ R0 start_fair) as F.
  destruct (always_waits_runs _ _ _ _ H) as [R [W _]]. pose proof (runs_fair _ _ _ R F) as F'.
  pose proof (given_grows_in _ _ _ i R).
  pose proof (stands_moves_in k _ _ _ R F). pose proof (stands_not_ahead k s' F'). pose proof (stands_not_behind k s F).
  assert (Z0 : given s i = 0) by lia.
  pose proof (k_reached _ _ _ _ (keeps_up_in i _ es 0 s s' H ltac:(lia) (keeps_up_at_first i s F W Z0))).
  pose proof (stands_not_ahead i s F). simpl in *. lia.
Qed.

(** So what of the other goes in its turn, not early, has a bound that does not depend on what goes early meanwhile. *)
Theorem who_waits_has_its_turns es0 s es s' i k :
  runs start es0 s -> always_waits_in i s es s' -> given s' i = 0 ->
  served k es - (load k (early s') - load k (early s)) <= served i es + most i + most k + given s k + ahead i s + ahead k s.
Proof.
  intros R0 H Z. pose proof (who_waits_has_its_share _ _ _ _ i k R0 H Z).
  destruct (always_waits_runs _ _ _ _ H) as [R _]. pose proof (ahead_in k _ _ _ R). lia.
Qed.

(** Of two that both wait and gave nothing up, neither is served more than the other but for one request of each and what went early. *)
Theorem two_who_wait_are_served_alike es0 s es s' i j :
  runs start es0 s -> always_waits_in i s es s' -> always_waits_in j s es s' -> given s' i = 0 -> given s' j = 0 ->
  served i es <= served j es + (most i + most j) + (ahead j s + ahead i s') /\
  served j es <= served i es + (most i + most j) + (ahead i s + ahead j s').
Proof.
  intros R I J Zi Zj. destruct (always_waits_runs _ _ _ _ I) as [R' _].
  pose proof (given_grows_in _ _ _ i R'). pose proof (given_grows_in _ _ _ j R').
  pose proof (who_waits_has_its_share _ _ _ _ i j R I Zi). pose proof (who_waits_has_its_share _ _ _ _ j i R J Zj). lia.
Qed.

(** And while one waits and is not served, a bounded amount of work is done, however many others there are and whatever they send, but for
    what goes early. *)
Fixpoint sum (f : nat -> nat) (ks : list nat) : nat := match ks with [] => 0 | k :: ks => f k + sum f ks end.
Theorem who_waits_is_served_after es0 s es s' i ks :
  runs start es0 s -> always_waits_in i s es s' -> given s' i = 0 -> served i es = 0 ->
  sum (fun k => served k es) ks <= sum (fun k => most i + most k + given s k + ahead i s + ahead k s') ks.
Proof.
  intros R H Z N. induction ks as [|k ks IH]; simpl; [lia|].
  pose proof (who_waits_has_its_share _ _ _ _ i k R H Z). lia.
Qed.

(** While all go in order nothing is early, so nobody is ahead. *)
Fixpoint in_order (s : state) (es : list event) (s' : state) : Prop :=
  match es with
  | [] => s = s'
  | e :: es => match e with Goes r => Forall (fun o => turn r <= turn o) (waiting s) | _ => True end /\
    exists t, small e /\ step s e t /\ in_order t es s'
  end.
Theorem in_order_nobody_is_ahead es s' k : in_order start es s' -> runs start es s' /\ ahead k s' = 0.
Proof.
  enough (forall s, early s = [] -> in_order s es s' -> runs s es s' /\ early s' = []) as H.
  { intros O. destruct (H start eq_refl O) as [R E]. split; [exact R|]. unfold ahead; rewrite E; reflexivity. }
  induction es as [|e es IH]; intros s E O; [destruct O; split; [constructor|exact E]|].
  destruct O as [F [t [M [S O]]]]. destruct (IH t) as [R E']; [|exact O|split; [econstructor; eauto|exact E']].
  destruct e as [i c|r|r]; [| |]; [inversion S; subst; exact E| |inversion S; subst; exact E].
  rewrite (in_order_nothing_is_early s r t F S); exact E.
Qed.
End Fair.

(** Why `ahead` is counted: two tenants of equal weight, whose requests take 1 each. Tenant 1 sends five, then tenant 2 sends one. In some
    order those of tenant 1 all go first. In order it would be two at most. *)
Ltac computed := match goal with
  | |- runs ?m ?s ?es ?t => let s' := eval cbv in s in change (runs m s' es t)
  | |- always_waits_in ?m ?k ?s ?es ?t => let s' := eval cbv in s in change (always_waits_in m k s' es t) end.
Ltac comes := eapply Then; [exact (le_n 1)|apply SComes|]; computed.
Lemma waits_on most k s e t es s' : waits k s = true -> small most e -> step s e t -> always_waits_in most k t es s' ->
  always_waits_in most k s (e :: es) s'.
Proof. simpl; eauto. Qed.
Ltac first_goes := eapply waits_on; [reflexivity|exact I|apply (SGoes _ []); reflexivity|]; computed.
Theorem what_goes_early_has_to_be_counted : exists es0 s es s',
  runs (fun _ => 1) start es0 s /\ always_waits_in (fun _ => 1) 2 s es s' /\ given s' 1 = 0 /\ given s' 2 = 0 /\
  served 1 es = 5 /\ served 2 es = 0 /\ ahead 1 s = 0 /\ ahead 2 s = 0 /\ ahead 1 s' = 4.
Proof.
  exists (repeat (Comes 1 1) 5 ++ [Comes 2 1]). eexists. exists (map (fun n => Goes (Request 1 n 1)) [0; 1; 2; 3; 4]). eexists.
  split; [|split].
  - simpl. do 6 comes. constructor.
  - cbn [map]. do 5 first_goes. split; reflexivity.
  - repeat split.
Qed.

Print Assumptions a_price_is_work_by_weight.
Print Assumptions a_batch_goes_one_by_one.
Print Assumptions in_order_nothing_is_early.
Print Assumptions who_waits_has_its_share.
Print Assumptions who_waits_has_its_turns.
Print Assumptions two_who_wait_are_served_alike.
Print Assumptions who_waits_is_served_after.
Print Assumptions in_order_nobody_is_ahead.
Print Assumptions what_goes_early_has_to_be_counted.
