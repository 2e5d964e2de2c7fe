------------------------------- MODULE Faults -------------------------------
(* Who hears of a fault, and who does not.                                      *)
(* Code: crates/runtime/src/faults.rs (`verdict`, `find`, `settle`, `remember`),*)
(* history.rs, lane.rs (`Consumed`), clock.rs (`Clean`), order.rs               *)
(* (`order_read`, `overcome`), stream.rs (`recover`).                           *)
(* Each look at what another thread may change is a step of its own.            *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS N, MaxTick, MaxFaults,
          Chain,     \* a stream uses only what the one before it made, and only the first one faults
          Apart,     \* `TOLD_APART`: so many uses of a stream are remembered one by one
          Bug
Streams == 1..N
NoStamp == [stream |-> 0, tick |-> 0]

VARIABLES cmds,      \* of each stream: what each command used of another (or `NoStamp`)
          done, poison, \* the device: executed, and the tick of the fault that holds the queue, or 0
          bad,       \* ghost: ticks whose result is no good
          told,      \* ghost: up to where a stream's owner has been told of what was bad
          hits,      \* `History`: pairs from, to
          consumed,  \* `Consumed`: what was used before it was known to be good
          clean,     \* `Clean`: [after, until] of each other stream
          pc, ask,   \* what the thread of each stream is at; what it asks about
          faults, lied, alarm
vars == <<cmds, done, poison, bad, told, hits, consumed, clean, pc, ask, faults, lied, alarm>>

Last(s) == Len(cmds[s])
Nothing == [uses |-> {}, seen |-> {}, todo |-> {}, now |-> NoStamp, sync |-> 0, of |-> NoStamp, use |-> NoStamp, over |-> FALSE, found |-> FALSE, since |-> 0]
Init ==
  /\ cmds = [s \in Streams |-> <<>>] /\ done = [s \in Streams |-> 0] /\ poison = [s \in Streams |-> 0]
  /\ bad = [s \in Streams |-> {}] /\ told = [s \in Streams |-> 0]
  /\ hits = [s \in Streams |-> {}] /\ consumed = [s \in Streams |-> {}]
  /\ clean = [s \in Streams |-> [r \in Streams |-> <<0, 0>>]]
  /\ pc = [s \in Streams |-> "idle"] /\ ask = [s \in Streams |-> Nothing]
  /\ faults = 0 /\ lied = FALSE /\ alarm = FALSE

Hit(r, t) == \E h \in hits[r] : h[1] <= t /\ t <= h[2]
LastBefore(r, t) == LET all == {h[2] : h \in {x \in hits[r] : x[2] < t}} IN
                    IF all = {} \/ Bug = "clean_from_0" THEN 0 ELSE CHOOSE x \in all : \A y \in all : x >= y
CleanCovers(s, st) == clean[s][st.stream][1] < st.tick /\ st.tick <= clean[s][st.stream][2]
Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y
(* `Clean::cover` *)
CleanAfter(c, a, t) == IF a <= c[2] /\ c[1] <= t THEN <<Min(c[1], a), Max(c[2], t)>>
                       ELSE IF t > c[2] THEN <<a, t>> ELSE c

(* `History::was_over_between`, `Consumed::add` *)
OverBetween(r, x, y) == \E h \in hits[r] : Min(x, y) <= h[2] /\ h[2] < Max(x, y)
Consume(s, st, t) ==
  LET known == {u \in consumed[s] : u.stamp.stream = st.stream /\
                   (Bug = "merge_uses" \/ ~OverBetween(st.stream, u.stamp.tick, st.tick))}
      u == CHOOSE u \in known : \A v \in known : v.since <= u.since
  IN IF known # {} /\ (Bug \in {"merge_uses", "stands_for_all"} \/ Cardinality(consumed[s]) >= Apart \/ u.stamp.tick >= st.tick)
     THEN (consumed[s] \ {u}) \cup {[stamp |-> [u.stamp EXCEPT !.tick = Max(@, st.tick)], since |-> u.since]}
     ELSE consumed[s] \cup {[stamp |-> st, since |-> t]}

(* What a command at `st` may be told of. Where a later use stands for an earlier one, what it used counts for the commands before it, too.   *)
UsesUpTo(st) == {cmds[st.stream][t] : t \in 1..st.tick} \ {NoStamp}
LastUsed(r, q) == LET all == {cmds[r][t].tick : t \in {u \in 1..Len(cmds[r]) : cmds[r][u].stream = q}} IN CHOOSE x \in all : \A y \in all : x >= y
Behind(S) == S \cup UNION {{[stream |-> u.stream, tick |-> IF Apart < MaxTick THEN LastUsed(st.stream, u.stream) ELSE u.tick] :
                              u \in UsesUpTo(st)} : st \in S}
RECURSIVE Closure(_, _)
Closure(S, n) == IF n = 0 THEN S ELSE Closure(Behind(S), n - 1)
MayHear(st) == \E u \in Closure({st}, N) : \E t \in bad[u.stream] : t <= u.tick

Append1(s, st) == cmds' = [cmds EXCEPT ![s] = Append(@, st)]

(* A command that uses nothing of others; a poisoned queue takes none. *)
Encode(s) ==
  /\ pc[s] = "idle" /\ poison[s] = 0 /\ Last(s) < MaxTick /\ (Chain => s = 1)
  /\ Append1(s, NoStamp)
  /\ UNCHANGED <<done, poison, bad, told, hits, consumed, clean, pc, ask, faults, lied, alarm>>

(* A command that uses the result at `st` of another stream: `order_read` *)
Use(s, st) ==
  /\ pc[s] = "idle" /\ poison[s] = 0 /\ Last(s) < MaxTick /\ st.stream # s
  /\ Chain => st.stream + 1 = s
  /\ st.tick \in 1..Last(st.stream)
  /\ IF CleanCovers(s, st) THEN Append1(s, st) /\ UNCHANGED <<consumed, pc, ask>>
     ELSE IF done[st.stream] >= st.tick
     THEN /\ pc' = [pc EXCEPT ![s] = "find"]
          /\ ask' = [ask EXCEPT ![s] = [Nothing EXCEPT !.of = st, !.todo = {st}]]
          /\ UNCHANGED <<cmds, consumed>>
     ELSE /\ pc' = [pc EXCEPT ![s] = "use"]
          /\ ask' = [ask EXCEPT ![s] = [Nothing EXCEPT !.of = st]]
          /\ UNCHANGED <<cmds, consumed>>
  /\ UNCHANGED <<done, poison, bad, told, hits, clean, faults, lied, alarm>>
(* What was not there when it looked may be by the time it encodes, and bad: it is asked about when the stream is synchronised. *)
Used(s) ==
  /\ pc[s] = "use" /\ pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing]
  /\ IF poison[s] # 0 THEN UNCHANGED <<cmds, consumed>>
     ELSE /\ Append1(s, ask[s].of)
          /\ consumed' = [consumed EXCEPT ![s] = Consume(s, ask[s].of, Last(s) + 1)]
  /\ UNCHANGED <<done, poison, bad, told, hits, clean, faults, lied, alarm>>

(* `find`: first what the other stream used, then its poison, then its history, then what those uses came to *)
FindUses(s) ==
  /\ pc[s] = "find"
  /\ IF ask[s].todo = {} THEN pc' = [pc EXCEPT ![s] = "judged"] /\ UNCHANGED ask
     ELSE LET st == CHOOSE st \in ask[s].todo : TRUE IN
          /\ ask' = [ask EXCEPT ![s].now = st, ![s].todo = @ \ {st}, ![s].seen = @ \cup {st},
                     ![s].uses = {u.stamp : u \in {x \in consumed[st.stream] : x.since <= st.tick}}]
          /\ pc' = [pc EXCEPT ![s] = IF Bug = "history_first" THEN "history" ELSE "poison"]
  /\ UNCHANGED <<cmds, done, poison, bad, told, hits, consumed, clean, faults, lied, alarm>>
FindPoison(s) ==
  /\ pc[s] = "poison"
  /\ LET st == ask[s].now found == poison[st.stream] # 0 /\ poison[st.stream] <= st.tick IN
     /\ ask' = [ask EXCEPT ![s].found = found]
     /\ pc' = [pc EXCEPT ![s] = IF found THEN "judged" ELSE IF Bug = "history_first" THEN "more" ELSE "history"]
  /\ UNCHANGED <<cmds, done, poison, bad, told, hits, consumed, clean, faults, lied, alarm>>
FindHistory(s) ==
  /\ pc[s] = "history"
  /\ LET st == ask[s].now found == Hit(st.stream, st.tick) \/ (Bug = "all_is_hit" /\ st.tick > 1) IN
     /\ ask' = [ask EXCEPT ![s].found = found]
     /\ pc' = [pc EXCEPT ![s] = IF found THEN "judged" ELSE IF Bug = "history_first" THEN "poison" ELSE "more"]
  /\ UNCHANGED <<cmds, done, poison, bad, told, hits, consumed, clean, faults, lied, alarm>>
FindMore(s) ==
  /\ pc[s] = "more"
  /\ ask' = [ask EXCEPT ![s].todo = @ \cup (IF Bug = "not_transitive" THEN {} ELSE ask[s].uses \ ask[s].seen), ![s].uses = {}]
  /\ pc' = [pc EXCEPT ![s] = "find"]
  /\ UNCHANGED <<cmds, done, poison, bad, told, hits, consumed, clean, faults, lied, alarm>>

(* `overcome` with the verdict: refused, or clean up to there *)
Judged(s) ==
  /\ pc[s] = "judged" /\ ask[s].sync = 0
  /\ LET st == ask[s].of IN
     IF ask[s].found
     THEN /\ pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing]
          /\ alarm' = (alarm \/ ~MayHear(st))
          /\ UNCHANGED <<cmds, clean>>
     ELSE IF poison[s] # 0 \/ Last(s) >= MaxTick
     THEN pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing] /\ UNCHANGED <<cmds, clean, alarm>>
     ELSE /\ clean' = [clean EXCEPT ![s][st.stream] = CleanAfter(@, LastBefore(st.stream, st.tick), st.tick)]
          /\ Append1(s, st)
          /\ pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing]
          /\ UNCHANGED alarm
  /\ UNCHANGED <<done, poison, bad, told, hits, consumed, faults, lied>>

(* `synchronise`: what was flushed is over; a poisoned queue says so; then `settle` each use *)
Sync(s) ==
  /\ pc[s] = "idle" /\ done[s] = Last(s) /\ Last(s) > told[s]
  /\ IF poison[s] # 0 \/ consumed[s] = {}
     THEN told' = (IF Bug = "settles_none" /\ poison[s] = 0 THEN told ELSE [told EXCEPT ![s] = Last(s)]) /\ UNCHANGED <<pc, ask, alarm>>
          /\ lied' = (lied \/ (poison[s] = 0 /\ \E t \in bad[s] : t > told[s]))
     ELSE /\ pc' = [pc EXCEPT ![s] = "settle"]
          /\ ask' = [ask EXCEPT ![s] = [Nothing EXCEPT !.sync = Last(s), !.uses = {}]]
          /\ UNCHANGED <<told, lied, alarm>>
  /\ UNCHANGED <<cmds, done, poison, bad, hits, consumed, clean, faults>>
(* (`Flushed::unsettled` says whether there is a use.) Each use in turn. The loop of `settle` works on a copy that `until` made; what is left of it is what is in `consumed` here, as *)
(* only this stream's thread adds to it.                                                                                          *)
Settle(s) ==
  /\ pc[s] = "settle"
  /\ LET left == {u \in consumed[s] : u.since <= ask[s].sync} IN
     IF left = {}
     THEN /\ pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing]
          /\ told' = IF Bug = "settles_none" THEN told ELSE [told EXCEPT ![s] = ask[s].sync]
          \* It says that all is well, or that something was not.
          /\ lied' = (lied \/ (~ask[s].over /\ \E t \in bad[s] : t <= ask[s].sync /\ t > told[s]))
          /\ alarm' = (alarm \/ (ask[s].over /\ ~MayHear([stream |-> s, tick |-> ask[s].sync])))
     ELSE /\ LET u == CHOOSE u \in left : \A v \in left : u.since <= v.since IN
             ask' = [ask EXCEPT ![s] = [Nothing EXCEPT !.sync = ask[s].sync, !.over = ask[s].over,
                                         !.of = u.stamp, !.use = u.stamp, !.todo = {u.stamp}, !.since = u.since]]
          /\ pc' = [pc EXCEPT ![s] = "find"] /\ UNCHANGED <<told, lied, alarm>>
  /\ UNCHANGED <<cmds, done, poison, bad, hits, consumed, clean, faults>>
(* Notes first, and then forgets. *)
Note(s) ==
  /\ pc[s] = "judged" /\ ask[s].sync # 0
  /\ IF Bug = "forget_first"
     THEN /\ consumed' = [consumed EXCEPT ![s] = {u \in @ : u.stamp # ask[s].use}] /\ UNCHANGED <<hits, clean>>
     ELSE /\ UNCHANGED consumed
          /\ IF ask[s].found
             THEN /\ hits' = IF ask[s].over THEN hits ELSE [hits EXCEPT ![s] = @ \cup {<<ask[s].since, Last(s)>>}]
                  /\ UNCHANGED clean
             ELSE /\ clean' = [clean EXCEPT ![s][ask[s].of.stream] =
                                   CleanAfter(@, LastBefore(ask[s].of.stream, ask[s].of.tick), ask[s].of.tick)]
                  /\ UNCHANGED hits
  /\ pc' = [pc EXCEPT ![s] = "forget"]
  /\ ask' = [ask EXCEPT ![s].over = @ \/ ask[s].found]
  /\ UNCHANGED <<cmds, done, poison, bad, told, faults, lied, alarm>>
Forget(s) ==
  /\ pc[s] = "forget"
  /\ IF Bug = "forget_first"
     THEN /\ UNCHANGED consumed
          /\ IF ask[s].found THEN hits' = [hits EXCEPT ![s] = @ \cup {<<ask[s].since, Last(s)>>}] ELSE UNCHANGED hits
     ELSE consumed' = [consumed EXCEPT ![s] = {u \in @ : u.stamp # ask[s].use}] /\ UNCHANGED hits
  /\ pc' = [pc EXCEPT ![s] = "settle"]
  /\ UNCHANGED <<cmds, done, poison, bad, told, clean, ask, faults, lied, alarm>>

(* `Stream::recover`, after a synchronise that told of it: notes what was hit, then clears the poison *)
Recover(s) ==
  /\ pc[s] = "idle" /\ poison[s] # 0 /\ done[s] = Last(s) /\ told[s] = Last(s)
  /\ pc' = [pc EXCEPT ![s] = "recover"]
  /\ IF Bug = "clear_first" THEN poison' = [poison EXCEPT ![s] = 0] /\ UNCHANGED hits
     ELSE hits' = [hits EXCEPT ![s] = @ \cup {<<poison[s], Last(s)>>}] /\ UNCHANGED poison
  /\ ask' = [ask EXCEPT ![s].since = poison[s]]
  /\ UNCHANGED <<cmds, done, bad, told, consumed, clean, faults, lied, alarm>>
Recovered(s) ==
  /\ pc[s] = "recover"
  /\ pc' = [pc EXCEPT ![s] = "idle"] /\ ask' = [ask EXCEPT ![s] = Nothing]
  /\ IF Bug = "clear_first" THEN hits' = [hits EXCEPT ![s] = @ \cup {<<ask[s].since, Last(s)>>}] /\ UNCHANGED poison
     ELSE poison' = [poison EXCEPT ![s] = IF Bug = "never_clears" THEN @ ELSE 0] /\ UNCHANGED hits
  /\ UNCHANGED <<cmds, done, bad, told, consumed, clean, faults, lied, alarm>>

(* The device: a command is bad if it fails, or is behind a failed one, or used what is bad. It waits for what it uses. *)
Exec(s, fails) ==
  /\ done[s] < Last(s)
  /\ LET t == done[s] + 1 st == cmds[s][t] IN
     /\ st.stream # 0 => done[st.stream] >= st.tick
     /\ fails => faults < MaxFaults /\ poison[s] = 0 /\ (Chain => s = 1)
     /\ done' = [done EXCEPT ![s] = t]
     /\ poison' = [poison EXCEPT ![s] = IF fails THEN t ELSE @]
     /\ faults' = IF fails THEN faults + 1 ELSE faults
     /\ bad' = [bad EXCEPT ![s] = IF fails \/ poison[s] # 0 \/ (st.stream # 0 /\ st.tick \in bad[st.stream]) THEN @ \cup {t} ELSE @]
  /\ UNCHANGED <<cmds, told, hits, consumed, clean, pc, ask, lied, alarm>>

Host(s) == Used(s) \/ FindUses(s) \/ FindPoison(s) \/ FindHistory(s) \/ FindMore(s) \/ Judged(s) \/ Settle(s) \/ Note(s) \/ Forget(s) \/ Recovered(s)
Next == \E s \in Streams :
  \/ Encode(s) \/ Sync(s) \/ Recover(s) \/ Host(s) \/ Exec(s, TRUE) \/ Exec(s, FALSE)
  \/ \E r \in Streams : \E t \in 1..MaxTick : Use(s, [stream |-> r, tick |-> t])
(* Whoever uses results again and again, and is refused each time, synchronises now and then. *)
Fair == \A s \in Streams : WF_vars(Host(s)) /\ WF_vars(Exec(s, FALSE)) /\ SF_vars(Sync(s)) /\ SF_vars(Recover(s))
Spec == Init /\ [][Next]_vars /\ Fair
-----------------------------------------------------------------------------
(* A stream that is told that all is well has done nothing that is bad, and that it was not told of before. *)
WhoIsHitHears == ~lied
(* A stream hears of a fault only if one of its commands, up to the one that is asked about, used what is bad, itself or through others. *)
OthersHearNothing == ~alarm
(* What is taken to be good is good, for ever. *)
CleanIsGood == \A s, r \in Streams : \A t \in bad[r] : ~CleanCovers(s, [stream |-> r, tick |-> t])
(* What is forgotten is noted: a bad command that is over is found by whoever asks. *)
BadIsFindable == \A r \in Streams : \A t \in bad[r] :
    \/ (poison[r] # 0 /\ poison[r] <= t) \/ Hit(r, t)
    \/ \E u \in consumed[r] : u.since <= t
(* Every fault is told, and every stream recovers. *)
EveryStreamRecovers == \A s \in Streams : poison[s] # 0 ~> poison[s] = 0
EveryStreamIsTold == \A s \in Streams : \A t \in 1..MaxTick : t \in bad[s] ~> told[s] >= t
=============================================================================
