------------------------------- MODULE Turns --------------------------------
(* Programs that threads share in turns.                                        *)
(* Code: crates/model/src/session/turns.rs (`Turns::next`, `free`, `line_up`,   *)
(* `wake`, `Turn::drop`), programs.rs (`take_shared`, `give`). All of `Turns`   *)
(* is under one lock; a stretch under it is one step.                           *)
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Threads, Urgent, Count, Overtakes, MayExpire, Rounds, Bug
VARIABLES free, waiting, left,   \* `State`: turns, the line, how often each may still be overtaken
          ready, programs,       \* `Programs`: those that lie ready, and all there are
          pc, has, woken, expired,
          passed, rounds         \* ghost: urgent ones that came later and went first; runs of each thread
vars == <<free, waiting, left, ready, programs, pc, has, woken, expired, passed, rounds>>
Init ==
  /\ free = Count /\ waiting = <<>> /\ left = [t \in Threads |-> 0] /\ ready = 0 /\ programs = 0
  /\ pc = [t \in Threads |-> "idle"] /\ has = [t \in Threads |-> FALSE] /\ woken = {} /\ expired = {}
  /\ passed = [t \in Threads |-> 0] /\ rounds = [t \in Threads |-> 0]

(* `line_up`: an urgent one comes before those at the end that may still be overtaken *)
RECURSIVE Behind(_)
Behind(n) == IF n = 0 THEN 0
             ELSE IF waiting[n] \notin Urgent /\ (left[waiting[n]] > 0 \/ Bug = "no_bound") THEN Behind(n - 1) ELSE n
Lined(t) == LET n == IF t \in Urgent THEN Behind(Len(waiting)) ELSE Len(waiting)
            IN SubSeq(waiting, 1, n) \o <<t>> \o SubSeq(waiting, n + 1, Len(waiting))
Jumped(t) == LET n == IF t \in Urgent THEN Behind(Len(waiting)) ELSE Len(waiting) IN {waiting[i] : i \in (n + 1)..Len(waiting)}
(* `wake`: the first is notified if there is a turn *)
Wake(line, n) == IF n > 0 /\ line # <<>> /\ Bug # "no_wake" THEN woken \cup {line[1]} ELSE woken
Without(q, t) == SelectSeq(q, LAMBDA o : o # t)

(* What the loop of `next` does when it looks *)
Loop(t, line, late) ==
  LET turn == line[1] = t /\ free > 0
      turnbug == IF Bug = "not_in_line" THEN free > 0 ELSE turn
      rest == Without(line, t)
  IN IF turnbug \/ late
     THEN /\ waiting' = rest
          /\ free' = IF turnbug THEN free - 1 ELSE free
          /\ has' = [has EXCEPT ![t] = turnbug]
          /\ woken' = IF Bug = "taker_wakes_none" THEN woken \ {t} ELSE Wake(rest, free') \ {t}
          /\ pc' = [pc EXCEPT ![t] = "take"]
     ELSE /\ waiting' = line /\ pc' = [pc EXCEPT ![t] = "asleep"] /\ woken' = woken \ {t} /\ UNCHANGED <<free, has>>
Arrive(t) ==
  /\ pc[t] = "idle" /\ rounds[t] < Rounds
  /\ left' = [o \in Threads |-> IF o = t THEN Overtakes ELSE IF o \in Jumped(t) /\ left[o] > 0 THEN left[o] - 1 ELSE left[o]]
  /\ passed' = [o \in Threads |-> IF o = t THEN 0 ELSE IF o \in Jumped(t) THEN passed[o] + 1 ELSE passed[o]]
  /\ expired' = expired \ {t} /\ rounds' = [rounds EXCEPT ![t] = @ + 1]
  \* Its time may be up when it comes. Then it counts as one that overtook, and goes at once.
  /\ \E late \in (IF MayExpire THEN BOOLEAN ELSE {FALSE}) : Loop(t, Lined(t), late)
  /\ UNCHANGED <<ready, programs>>
(* `Turns::free`: a turn that nobody has or waits for *)
TryFree(t) ==
  /\ pc[t] = "idle" /\ rounds[t] < Rounds /\ free > 0 /\ waiting = <<>>
  /\ free' = free - 1 /\ has' = [has EXCEPT ![t] = TRUE] /\ pc' = [pc EXCEPT ![t] = "take"]
  /\ rounds' = [rounds EXCEPT ![t] = @ + 1] /\ passed' = [passed EXCEPT ![t] = 0]
  /\ UNCHANGED <<waiting, left, ready, programs, woken, expired>>
Look(t) ==
  /\ pc[t] = "asleep" /\ (t \in woken \/ t \in expired)
  /\ Loop(t, waiting, t \in expired)
  /\ UNCHANGED <<left, ready, programs, expired, passed, rounds>>
(* The deadline passes, or nothing moved for so long. *)
Expire(t) ==
  /\ MayExpire /\ pc[t] = "asleep" /\ t \notin expired /\ expired' = expired \cup {t}
  /\ UNCHANGED <<free, waiting, left, ready, programs, pc, has, woken, passed, rounds>>
(* `take_shared`, or else one is captured; who has no turn captures one for once, which is not counted here *)
Take(t) ==
  /\ pc[t] = "take"
  /\ IF has[t] THEN IF ready > 0 THEN ready' = ready - 1 /\ UNCHANGED programs ELSE programs' = programs + 1 /\ UNCHANGED ready
     ELSE UNCHANGED <<ready, programs>>
  /\ pc' = [pc EXCEPT ![t] = "run"]
  /\ UNCHANGED <<free, waiting, left, has, woken, expired, passed, rounds>>
(* `Programs::give`: the program lies there, and then the turn ends *)
Give(t) ==
  /\ pc[t] = "run"
  /\ IF Bug = "turn_first" /\ has[t]
     THEN free' = free + 1 /\ woken' = Wake(waiting, free + 1) /\ pc' = [pc EXCEPT ![t] = "give"] /\ UNCHANGED ready
     ELSE ready' = (IF has[t] THEN ready + 1 ELSE ready) /\ pc' = [pc EXCEPT ![t] = "give"] /\ UNCHANGED <<free, woken>>
  /\ UNCHANGED <<waiting, left, programs, has, expired, passed, rounds>>
End(t) ==
  /\ pc[t] = "give"
  /\ IF ~has[t] THEN UNCHANGED <<free, woken, ready>>
     ELSE IF Bug = "turn_first" THEN ready' = ready + 1 /\ UNCHANGED <<free, woken>>
     ELSE free' = free + (IF Bug = "gives_twice" THEN 2 ELSE 1) /\ woken' = Wake(waiting, free + 1) /\ UNCHANGED ready
  /\ has' = [has EXCEPT ![t] = FALSE] /\ pc' = [pc EXCEPT ![t] = "idle"]
  /\ UNCHANGED <<waiting, left, programs, expired, passed, rounds>>
Steps(t) == Look(t) \/ Take(t) \/ Give(t) \/ End(t)
Next == \E t \in Threads : Steps(t) \/ Arrive(t) \/ TryFree(t) \/ Expire(t)
Fair == \A t \in Threads : WF_vars(Steps(t))
Spec == Init /\ [][Next]_vars /\ Fair
-----------------------------------------------------------------------------
Holders == {t \in Threads : has[t]}
(* No more turns than there are, and no more programs than turns. *)
NoMoreThanCount == Cardinality(Holders) + free = Count
NoMorePrograms == programs <= Count
(* Nobody is overtaken more often than so. *)
BoundedOvertaking == \A t \in Threads : passed[t] <= Overtakes
(* Of equals, who came first goes first: the line keeps their order; nobody has a turn beside a free one and a line. *)
WhoHasATurnWasFirst == [][\A t \in Threads : pc[t] = "asleep" /\ ~has[t] /\ has'[t] => waiting[1] = t]_vars
(* A free turn and somebody who waits: the first has been woken, or looks because its time is up. *)
NoTurnIsLost == free > 0 /\ waiting # <<>> => waiting[1] \in woken \cup expired
EveryoneGoesOn == \A t \in Threads : pc[t] = "asleep" ~> pc[t] # "asleep"
=============================================================================
