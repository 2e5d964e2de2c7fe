------------------------------- MODULE Batch --------------------------------
(* The queue that makes batches: door, inbox, lock, lanes, workers, keeper of    *)
(* time, close.                                                                  *)
(* Code: crates/batch/src/engine/*.rs, schedule/mod.rs (`choose`, `take`,        *)
(* `note_passing`). A stretch under the engine's lock is one step, but for what  *)
(* others touch without the lock: the door's word and the inbox, each a step.    *)
(* One row a request, one kind, `max_wait` 0: the paces, costs and turns of      *)
(* tenants are the schedule's own tests' part, and Tenants.v's.                  *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Callers, KindOf,   \* "door": by the door or the inbox; "help": runs a batch itself; "submit": leaves it to workers
          PrioOf, DeadlineOf, \* 0 is high, 1 normal; 0 is no deadline
          BehindOf,          \* when it goes behind the others of its priority; 0 is never
          Workers, Lanes, Rows, Capacity, Passes, Hold,
          MayCancel, How,    \* how it is closed: "drain", "cancel", "never"
          MostTime, None, Bug

VARIABLES lock, phase, doorShut, doorLanes, isOpen, free, turns, running,
          idle, asleep, calls, calling, inbox, round, sched, held, passed, keeper, now,
          outcome, ran, pc, cont, mail, my, came, batch, lane, seen

state == <<phase, isOpen, free, turns, running, idle, asleep, calls, calling, sched, held, passed, keeper>>
door == <<doorShut, doorLanes>>
local == <<cont, mail, my, came, batch, lane, seen>>
vars == <<lock, state, door, inbox, round, now, outcome, ran, pc, local>>
Procs == Callers \cup Workers \cup {"keeper", "closer"}
NothingCame == <<0, 0, None, TRUE, TRUE>>

Init ==
  /\ lock = None /\ phase = "open" /\ doorShut = TRUE /\ doorLanes = {} /\ isOpen = FALSE
  /\ free = Lanes /\ turns = 0 /\ running = 0
  /\ idle = 0 /\ asleep = {} /\ calls = 0 /\ calling = FALSE
  /\ inbox = <<>> /\ round = 0 /\ sched = <<>> /\ held = <<>> /\ passed = <<None, 0, {}>>   \* the oldest, how often it was passed over, who went behind the others
  /\ keeper = 0 - 0 /\ now = 0      \* keeper: 0 awake, 99 sleeps for ever, else until then
  /\ outcome = [c \in Callers |-> "none"] /\ ran = [c \in Callers |-> 0]
  /\ pc = [p \in Procs |-> CASE p \in Callers -> "start" [] p \in Workers -> "work" [] p = "keeper" -> "keep"
                             [] OTHER -> IF How = "never" THEN "gone" ELSE "open"]
  /\ cont = [p \in Procs |-> ""] /\ mail = [p \in Procs |-> <<>>] /\ my = [p \in Procs |-> 0]
  /\ came = [p \in Procs |-> NothingCame]   \* round, requests, the first of them, patient, alone before
  /\ batch = [p \in Procs |-> <<>>] /\ lane = [p \in Procs |-> None] /\ seen = [p \in Workers |-> FALSE]

------------------------------------------------------------------------------
(* The schedule: plain functions of the sequence of those that wait, in the order of their coming. *)
Elems(q) == {q[i] : i \in DOMAIN q}
Min2(x, y) == IF x < y THEN x ELSE y
Without(q, set) == SelectSeq(q, LAMBDA c : c \notin set)
Late(c, t) == DeadlineOf[c] # 0 /\ DeadlineOf[c] <= t
Behind(c) == BehindOf[c] # 0 /\ BehindOf[c] <= now
RECURSIVE ByPrio(_, _, _)
ByPrio(q, p, bh) == IF p > 1 THEN <<>> ELSE SelectSeq(q, LAMBDA c : PrioOf[c] = p /\ c \notin bh)
                                       \o SelectSeq(q, LAMBDA c : PrioOf[c] = p /\ c \in bh) \o ByPrio(q, p + 1, bh)
Order(q, bh) == ByPrio(q, 0, bh)
(* `put_behind`, at each `take`: those stay behind, and neither lead a batch nor count as passed over. *)
PutBehind(q, ps) == <<ps[1], ps[2], IF Bug = "behind_none" THEN {} ELSE {c \in Elems(q) : c \in ps[3] \/ Behind(c)}>>
Closing(ph) == ph # "open"
(* `is_ready`, `choose`: a high one goes at once, else a batch is worth its lane only if it is no smaller than those that run *)
Ready(q, ph, tn, rows) ==
  q # <<>> /\ (Closing(ph) \/ PrioOf[Order(q, {})[1]] = 0 \/ Min2(Len(q), Rows) * tn >= rows)
MustLead(q, ps) == LET n == Without(q, ps[3]) IN Bug # "no_passes" /\ n # <<>> /\ Passes <= (IF ps[1] = n[1] THEN ps[2] ELSE 0)
Chosen(q, ps) ==
  LET o == Order(q, ps[3]) lead == IF MustLead(q, ps) THEN <<Without(q, ps[3])[1]>> ELSE <<>> IN
  SubSeq(lead \o Without(o, Elems(lead)), 1, Min2(Rows, Len(q)))
PassedAfter(q, ps, b) ==
  LET n == Without(q, ps[3]) bh == ps[3] \ Elems(b) IN
  IF n = <<>> \/ n[1] \in Elems(b) THEN <<None, 0, bh>> ELSE <<n[1], (IF ps[1] = n[1] THEN ps[2] ELSE 0) + 1, bh>>

(* `admit_held`: those outside come in, in order, as far as there is room: what the queue and the outside are then *)
RECURSIVE Admit(_, _)
Admit(q, h) == IF h = <<>> \/ (Len(q) >= Capacity /\ Bug # "admits_too_many") THEN <<q, h>> ELSE Admit(Append(q, h[1]), Tail(h))

(* `call_if_ready`: the worker that is notified, if one is *)
Calls(q, ph, tn, rows, fr, cl, id) == Cardinality(fr) > cl /\ cl < id /\ Ready(q, ph, tn, rows)
Counted(cl) == IF Bug = "uncounted" /\ asleep = {} THEN cl ELSE cl + 1
Notifies(cl, id) == IF Bug = "no_notify" THEN FALSE ELSE Counted(cl) > id - Cardinality(asleep)

(* The earliest deadline; 99 is none. *)
NextTime(q, h) == LET all == {DeadlineOf[c] : c \in {x \in Elems(q) \cup Elems(h) : DeadlineOf[x] # 0}} IN
                  IF all = {} THEN 99 ELSE CHOOSE t \in all : \A u \in all : t <= u
(* `tell_keeper`: it is woken if something comes before it wakes by itself *)
Told(q, h) == keeper # 0 /\ NextTime(q, h) < keeper /\ Bug # "keeper_not_told"

(* What a section leaves behind: new queue, outside, and perhaps a call. `pcs` are the places of all after it.              *)
(* ("wake" of a sleeping worker or keeper is its pc.)                                                                       *)
Wakes(pcs, worker, keep) == [p \in Procs |-> IF p \in worker /\ pcs[p] = "asleep" THEN "awake"
                                             ELSE IF p = "keeper" /\ keep /\ pcs[p] = "sleeps" THEN "keep" ELSE pcs[p]]
Sleeping == {w \in Workers : pc[w] = "asleep"}
CallStep(q, ph, tn, rows, fr, cl, id, pcs, keep) ==
  IF Calls(q, ph, tn, rows, fr, cl, id)
  THEN /\ calls' = Counted(cl) /\ calling' = TRUE
       /\ IF Notifies(cl, id) /\ Sleeping # {}
          THEN \E w \in Sleeping : pc' = Wakes(pcs, {w}, keep)
          ELSE pc' = Wakes(pcs, {}, keep)
  ELSE calls' = cl /\ UNCHANGED calling /\ pc' = Wakes(pcs, {}, keep)

Over(ph, q, fr) == ph = "closing" /\ q = <<>> /\ (fr = Lanes \/ Bug = "closes_early")
Put(oc, set, what) == [c \in Callers |-> IF c \in set /\ (oc[c] = "none" \/ Bug = "put_twice") THEN what ELSE oc[c]]
At(p, to) == [pc EXCEPT ![p] = to]

------------------------------------------------------------------------------
Lock(p, from, to) ==
  /\ pc[p] = from /\ lock = None /\ lock' = p /\ pc' = At(p, to)
  /\ UNCHANGED <<state, door, inbox, round, now, outcome, ran, local>>

(* The door: `Door::enter`, `Door::leave`, without the lock *)
Enter(c) ==
  /\ pc[c] = "start"
  /\ CASE KindOf[c] = "door" ->
            IF ~doorShut /\ doorLanes # {}
            THEN LET l == CHOOSE l \in doorLanes : \A o \in doorLanes : l <= o IN
                 /\ doorLanes' = doorLanes \ {l} /\ lane' = [lane EXCEPT ![c] = l] /\ pc' = At(c, "out")
            ELSE pc' = At(c, IF Bug = "inbox_looks_first" THEN "looks" ELSE "leaves") /\ UNCHANGED <<doorLanes, lane>>
       [] OTHER -> pc' = At(c, "adds") /\ UNCHANGED <<doorLanes, lane>>
  /\ UNCHANGED <<lock, state, doorShut, inbox, round, now, outcome, ran, cont, mail, my, came, batch, seen>>
RunOut(c) ==
  /\ pc[c] = "out"
  /\ outcome' = Put(outcome, {c}, "ran") /\ ran' = [ran EXCEPT ![c] = @ + 1] /\ pc' = At(c, "outleaves")
  /\ UNCHANGED <<lock, state, door, inbox, round, now, local>>
OutLeaves(c) ==
  /\ pc[c] = "outleaves"
  /\ IF ~doorShut \/ Bug = "door_leave_shut"
     THEN doorLanes' = doorLanes \cup {lane[c]} /\ lane' = [lane EXCEPT ![c] = None] /\ pc' = At(c, "done")
     ELSE pc' = At(c, "outlock") /\ UNCHANGED <<doorLanes, lane>>
  /\ UNCHANGED <<lock, state, doorShut, inbox, round, now, outcome, ran, cont, mail, my, came, batch, seen>>
(* `shut_door`, with the lock: a step of its own *)
ShutDoor(p, from, to) ==
  /\ pc[p] = from /\ pc' = At(p, to)
  /\ IF isOpen THEN free' = free \cup doorLanes /\ doorLanes' = {} /\ doorShut' = TRUE /\ isOpen' = FALSE
               ELSE UNCHANGED <<free, door, isOpen>>
  /\ UNCHANGED <<lock, phase, turns, running, idle, asleep, calls, calling, sched, held, passed, keeper, inbox, round, now, outcome, ran, local>>

(* The inbox: `Inbox::leave`. (The bug looks and pushes in two steps.) *)
LooksFirst(c) ==
  /\ pc[c] = "looks" /\ cont' = [cont EXCEPT ![c] = IF inbox = <<>> THEN "first" ELSE "other"] /\ pc' = At(c, "leaves")
  /\ UNCHANGED <<lock, state, door, inbox, round, now, outcome, ran, mail, my, came, batch, lane, seen>>
Leaves(c) ==
  /\ pc[c] = "leaves"
  /\ inbox' = Append(inbox, c)
  /\ LET first == IF Bug = "inbox_looks_first" THEN cont[c] = "first" ELSE inbox = <<>> IN
     IF first THEN pc' = At(c, "leavelock") /\ my' = [my EXCEPT ![c] = round]
              ELSE pc' = At(c, "sleep") /\ UNCHANGED my
  /\ UNCHANGED <<lock, state, door, round, now, outcome, ran, cont, mail, came, batch, lane, seen>>
(* `Inbox::empty`, with the lock of the engine *)
Empty(p, from, then) ==
  /\ pc[p] = from
  /\ mail' = [mail EXCEPT ![p] = inbox] /\ inbox' = <<>>
  /\ round' = IF inbox = <<>> THEN round ELSE round + 1
  /\ came' = IF then # "decide" THEN came ELSE
               [came EXCEPT ![p] = <<round, Len(inbox), None, \A c \in Elems(inbox) : DeadlineOf[c] = 0, sched = <<>> >>]
  /\ pc' = At(p, IF inbox = <<>> THEN then ELSE "collectshut")
  /\ cont' = IF inbox = <<>> THEN cont ELSE [cont EXCEPT ![p] = then]
  /\ UNCHANGED <<lock, state, door, now, outcome, ran, my, batch, lane, seen>>
(* `add_one` for each: what the queue, the outside and the refused are *)
RECURSIVE AddAll(_, _, _, _, _)
AddAll(ms, q, h, no, late) ==
  IF ms = <<>> THEN <<q, h, no, late>>
  ELSE LET c == ms[1] IN
       IF Closing(phase) THEN AddAll(Tail(ms), q, h, no \cup {c}, late)
       ELSE IF Late(c, now) THEN AddAll(Tail(ms), q, h, no, late \cup {c})
       ELSE IF h = <<>> /\ Len(q) < Capacity THEN AddAll(Tail(ms), Append(q, c), h, no, late)
       ELSE IF Hold THEN AddAll(Tail(ms), q, Append(h, c), no, late)
       ELSE AddAll(Tail(ms), q, h, no \cup {c}, late)
(* `collect`, after the door was shut *)
Collect(p) ==
  /\ pc[p] = "collect"
  /\ LET r == AddAll(mail[p], sched, held, {}, {}) IN
     /\ sched' = r[1] /\ held' = r[2]
     /\ outcome' = Put(Put(outcome, r[3], IF Closing(phase) THEN "closed" ELSE "full"), r[4], "expired")
     /\ came' = IF cont[p] # "decide" THEN came ELSE [came EXCEPT ![p][3] = IF mail[p][1] \in Elems(r[1]) THEN mail[p][1] ELSE None]
     /\ keeper' = IF Told(r[1], r[2]) THEN 0 ELSE keeper
     /\ pc' = Wakes(At(p, cont[p]), {}, Told(r[1], r[2]))
  /\ mail' = [mail EXCEPT ![p] = <<>>] /\ cont' = [cont EXCEPT ![p] = ""]
  /\ my' = [my EXCEPT ![p] = IF p \in Workers /\ (outcome' # outcome \/ Len(mail[p]) > 0) THEN 1 ELSE @]
  /\ UNCHANGED <<lock, phase, isOpen, free, turns, running, idle, asleep, calls, calling, passed, door, inbox, round, now, ran, batch, lane, seen>>

(* `leave`, once the mail is in: take a batch, or call *)
DecideLeave(c) ==
  /\ pc[c] = "decide"
  /\ LET k == came[c]
         among == k[1] = my[c] /\ k[2] > 0
         all == (k[5] /\ k[2] = 1) \/ (k[4] /\ Len(sched) <= Rows)
         leads == k[3] # None /\ sched # <<>> /\ Order(sched, passed[3])[1] = k[3] /\ ~MustLead(sched, passed)
                  /\ Ready(sched, phase, turns, running)
     IN IF among /\ (all \/ leads)
        THEN pc' = At(c, "take") /\ UNCHANGED <<lock, calls, calling>>
        ELSE lock' = None /\ CallStep(sched, phase, turns, running, free, calls, idle, At(c, "sleep"), FALSE)
  /\ came' = [came EXCEPT ![c] = NothingCame] /\ my' = [my EXCEPT ![c] = 0]
  /\ UNCHANGED <<phase, isOpen, free, turns, running, idle, asleep, sched, held, passed, keeper, door, inbox, round, now, outcome, ran, cont, mail, batch, lane, seen>>

(* `add`, once the door is shut and the mail is in *)
AddOwn(c) ==
  /\ pc[c] = "addown"
  /\ LET r == AddAll(<<c>>, sched, held, {}, {})
         refused == r[3] \cup r[4] # {}
         own == sched = <<>> \/ (DeadlineOf[c] = 0 /\ Len(r[1]) <= Rows)
     IN /\ sched' = r[1] /\ held' = r[2]
        /\ outcome' = Put(Put(outcome, r[3], IF Closing(phase) THEN "closed" ELSE "full"), r[4], "expired")
        /\ keeper' = IF Told(r[1], r[2]) THEN 0 ELSE keeper
        /\ IF KindOf[c] = "help" /\ own /\ ~refused
           THEN pc' = Wakes(At(c, "take"), {}, Told(r[1], r[2])) /\ UNCHANGED <<lock, calls, calling>>
           ELSE lock' = None /\ CallStep(r[1], phase, turns, running, free, calls, idle, At(c, "sleep"), Told(r[1], r[2]))
  /\ UNCHANGED <<phase, isOpen, free, turns, running, idle, asleep, passed, door, inbox, round, now, ran, local>>

(* `take`: nothing if no lane is free; else the mail, then what has expired, then a batch *)
Take(p) ==
  /\ pc[p] = "take"
  /\ IF free = {} THEN pc' = At(p, "taken") ELSE pc' = At(p, "takemail")
  /\ UNCHANGED <<lock, state, door, inbox, round, now, outcome, ran, local>>
TakeRest(p) ==
  /\ pc[p] = "takerest"
  /\ LET lateq == IF Bug = "takes_late" THEN {} ELSE {c \in Elems(sched) \cup Elems(held) : Late(c, now)}
         x == IF lateq = {} THEN <<sched, held>> ELSE Admit(Without(sched, lateq), Without(held, lateq))
         q == x[1]
         ph == IF lateq # {} /\ Over(phase, q, free) THEN "closed" ELSE phase
         gone == ph = "closed" /\ phase # "closed"
         ps == PutBehind(q, passed)
     IN /\ outcome' = Put(outcome, lateq, "expired")
        /\ IF Ready(q, ph, turns, running)
           THEN \E l \in free :
                LET b == Chosen(q, ps)
                    y == IF Bug = "runs_twice" THEN <<q, x[2]>> ELSE IF Bug = "take_admits_none" THEN <<Without(q, Elems(b)), x[2]>> ELSE Admit(Without(q, Elems(b)), x[2])
                    tn == turns + 1 rows == running + Len(b) fr == free \ {l}
                    needless == y[1] = <<>>
                IN /\ free' = fr /\ turns' = tn /\ running' = rows
                   /\ sched' = y[1] /\ held' = y[2] /\ passed' = PassedAfter(q, ps, b)
                   /\ batch' = [batch EXCEPT ![p] = b] /\ lane' = [lane EXCEPT ![p] = l]
                   /\ keeper' = IF Told(y[1], y[2]) THEN 0 ELSE keeper
                   /\ IF needless
                      THEN calls' = 0 /\ calling' = FALSE /\ pc' = Wakes(At(p, "taken"), {}, Told(y[1], y[2]))
                      ELSE CallStep(y[1], ph, tn, rows, fr, calls, idle, At(p, "taken"), Told(y[1], y[2]))
                   /\ phase' = ph
           ELSE /\ sched' = q /\ held' = x[2] /\ phase' = ph /\ passed' = ps
                /\ pc' = [r \in Procs |-> IF gone /\ pc[r] = "asleep" THEN "awake"
                                           ELSE IF gone /\ pc[r] = "sleeps" THEN "keep"
                                           ELSE IF r = p THEN "taken" ELSE pc[r]]
                /\ UNCHANGED <<free, turns, running, batch, lane, keeper, calls, calling>>
  /\ my' = [my EXCEPT ![p] = IF p \in Workers /\ (outcome' # outcome \/ held' # held) THEN 1 ELSE @]
  /\ UNCHANGED <<lock, isOpen, idle, asleep, door, inbox, round, now, ran, cont, mail, came, seen>>
(* The lock is given up; a batch is run, or not. A worker that has somebody to tell does that first. *)
Taken(p) ==
  /\ pc[p] = "taken"
  /\ IF batch[p] # <<>> THEN pc' = At(p, "run") /\ lock' = None
     ELSE IF p \in Workers
     THEN (pc' = At(p, "idle") /\ UNCHANGED lock) \/ (my[p] = 1 /\ pc' = At(p, "work") /\ lock' = None)
     ELSE pc' = At(p, "sleep") /\ lock' = None
  /\ my' = IF p \in Workers THEN [my EXCEPT ![p] = 0] ELSE my
  /\ UNCHANGED <<state, door, inbox, round, now, outcome, ran, cont, mail, came, batch, lane, seen>>
Run(p) ==
  /\ pc[p] = "run"
  /\ ran' = [c \in Callers |-> IF c \in Elems(batch[p]) THEN ran[c] + 1 ELSE ran[c]]
  /\ outcome' = Put(outcome, Elems(batch[p]), "ran")
  /\ pc' = At(p, "backlock")
  /\ UNCHANGED <<lock, state, door, inbox, round, now, local>>
(* `Turn::drop` and `take_back`; `Out::drop` comes here, too, without a turn. Then `open_door`, which is the last of it. *)
TakeBack(p) ==
  /\ pc[p] = "back"
  /\ LET tn == IF batch[p] = <<>> THEN turns ELSE turns - 1
         rows == running - Len(batch[p])
         fr == free \cup {lane[p]}
         over == Over(phase, sched, fr) /\ Bug # "back_never_closes"
     IN /\ turns' = tn /\ running' = rows /\ free' = fr
        /\ phase' = IF over THEN "closed" ELSE phase
        /\ IF over
           THEN /\ pc' = [r \in Procs |-> IF pc[r] = "asleep" THEN "awake" ELSE IF pc[r] = "sleeps" THEN "keep"
                                            ELSE IF r = p THEN "open1" ELSE pc[r]]
                /\ UNCHANGED <<calls, calling>>
           ELSE IF Bug = "back_calls_none" THEN pc' = At(p, "open1") /\ UNCHANGED <<calls, calling>>
           ELSE CallStep(sched, phase, tn, rows, fr, calls, idle, At(p, "open1"), FALSE)
        /\ batch' = [batch EXCEPT ![p] = <<>>] /\ lane' = [lane EXCEPT ![p] = None]
  /\ UNCHANGED <<lock, isOpen, idle, asleep, sched, held, passed, keeper, door, inbox, round, now, outcome, ran, cont, mail, my, came, seen>>
OpenDoor(p) ==
  /\ pc[p] = "open1"
  /\ IF (sched = <<>> \/ Bug = "door_opens_early") /\ held = <<>> /\ ~Closing(phase) /\ turns = 0 /\ ~isOpen
     THEN isOpen' = TRUE /\ doorShut' = FALSE /\ doorLanes' = free /\ free' = {}
     ELSE UNCHANGED <<isOpen, door, free>>
  /\ pc' = At(p, "open2")
  /\ UNCHANGED <<lock, phase, turns, running, idle, asleep, calls, calling, sched, held, passed, keeper, inbox, round, now, outcome, ran, local>>
Unlock(p) ==
  /\ pc[p] = "open2" /\ lock' = None /\ pc' = At(p, IF p \in Workers THEN "work" ELSE "sleep")
  /\ UNCHANGED <<state, door, inbox, round, now, outcome, ran, local>>

(* A caller has what became of its request. *)
Hear(c) ==
  /\ pc[c] = "sleep" /\ outcome[c] # "none" /\ pc' = At(c, "done")
  /\ UNCHANGED <<lock, state, door, inbox, round, now, outcome, ran, local>>
(* `cancel`, and `withdraw` for one outside *)
Cancel(c) ==
  /\ pc[c] = "cancels"
  /\ LET mine == c \in Elems(sched) \cup Elems(held)
         x == Admit(Without(sched, {c}), Without(held, {c}))
         over == mine /\ Over(phase, x[1], free) /\ Bug # "cancel_never_closes"
     IN /\ IF mine THEN sched' = x[1] /\ held' = x[2] ELSE UNCHANGED <<sched, held>>
        /\ outcome' = IF mine \/ Bug \in {"cancel_races", "put_twice"} THEN Put(outcome, {c}, "cancelled") ELSE outcome
        /\ phase' = IF over THEN "closed" ELSE phase
        /\ lock' = None
        /\ IF over
           THEN /\ pc' = [r \in Procs |-> IF pc[r] = "asleep" THEN "awake" ELSE IF pc[r] = "sleeps" THEN "keep"
                                            ELSE IF r = c THEN "sleep" ELSE pc[r]]
                /\ UNCHANGED <<calls, calling, keeper>>
           ELSE IF mine /\ Len(x[2]) < Len(Without(held, {c}))
           THEN CallStep(x[1], phase, turns, running, free, calls, idle, At(c, "sleep"), Told(x[1], x[2]))
                /\ keeper' = IF Told(x[1], x[2]) THEN 0 ELSE keeper
           ELSE pc' = At(c, "sleep") /\ UNCHANGED <<calls, calling, keeper>>
  /\ my' = [my EXCEPT ![c] = 1000]
  /\ UNCHANGED <<isOpen, free, turns, running, idle, asleep, passed, door, inbox, round, now, ran, cont, mail, came, batch, lane, seen>>
Cancels(c) == MayCancel /\ my[c] # 1000 /\ Lock(c, "sleep", "cancels")

(* A worker: `work`, `wait_for_a_call`. It looks out without the lock before it sleeps. *)
Idle(w) ==
  /\ pc[w] = "idle"
  /\ IF phase = "closed" THEN pc' = At(w, "gone") /\ lock' = None /\ UNCHANGED idle
     ELSE idle' = idle + 1 /\ seen' = [seen EXCEPT ![w] = TRUE] /\ pc' = At(w, "called") /\ UNCHANGED lock
  /\ IF phase = "closed" THEN UNCHANGED seen ELSE TRUE
  /\ UNCHANGED <<phase, isOpen, free, turns, running, asleep, calls, calling, sched, held, passed, keeper, door, inbox, round, now, outcome, ran, cont, mail, my, came, batch, lane>>
Called(w) ==
  /\ pc[w] = "called"
  /\ IF calls = 0 /\ phase # "closed"
     THEN /\ lock' = None /\ UNCHANGED <<idle, calls, calling>>
          /\ IF seen[w] THEN pc' = At(w, "looksout") /\ UNCHANGED asleep
                        ELSE pc' = At(w, "asleep") /\ asleep' = asleep \cup {w}
     ELSE /\ idle' = idle - 1 /\ calls' = IF calls = 0 THEN 0 ELSE calls - 1
          /\ calling' = (calls' > 0) /\ pc' = At(w, "take") /\ UNCHANGED <<lock, asleep>>
  /\ seen' = [seen EXCEPT ![w] = seen[w] /\ pc'[w] = "looksout"]
  /\ UNCHANGED <<phase, isOpen, free, turns, running, sched, held, passed, keeper, door, inbox, round, now, outcome, ran, cont, mail, my, came, batch, lane>>
LooksOut(w) ==
  /\ pc[w] = "looksout" /\ pc' = At(w, "calledlock") /\ seen' = [seen EXCEPT ![w] = calling]
  /\ UNCHANGED <<lock, state, door, inbox, round, now, outcome, ran, cont, mail, my, came, batch, lane>>
Awake(w) ==
  /\ pc[w] = "awakes" /\ asleep' = asleep \ {w} /\ pc' = At(w, "called")
  /\ UNCHANGED <<lock, phase, isOpen, free, turns, running, idle, calls, calling, sched, held, passed, keeper, door, inbox, round, now, outcome, ran, local>>

(* `keep_time` *)
Keep ==
  /\ pc["keeper"] = "keeps"
  /\ LET lateq == {c \in Elems(sched) \cup Elems(held) : Late(c, now)}
         x == Admit(Without(sched, lateq), Without(held, lateq))
         over == Over(phase, x[1], free)
     IN IF phase = "closed" THEN pc' = At("keeper", "gone") /\ lock' = None /\ UNCHANGED <<sched, held, outcome, keeper, calls, calling, phase>>
        ELSE IF lateq # {}
        THEN /\ outcome' = Put(outcome, lateq, "expired") /\ sched' = x[1] /\ held' = x[2] /\ lock' = None
             /\ phase' = IF over THEN "closed" ELSE phase
             /\ UNCHANGED keeper
             /\ IF over THEN /\ pc' = [r \in Procs |-> IF pc[r] = "asleep" THEN "awake" ELSE IF r = "keeper" THEN "keep" ELSE pc[r]]
                             /\ UNCHANGED <<calls, calling>>
                ELSE IF Len(x[2]) < Len(Without(held, lateq))
                THEN CallStep(x[1], phase, turns, running, free, calls, idle, At("keeper", "keep"), FALSE)
                ELSE pc' = At("keeper", "keep") /\ UNCHANGED <<calls, calling>>
        ELSE /\ keeper' = NextTime(sched, held) /\ lock' = None
             /\ CallStep(sched, phase, turns, running, free, calls, idle, At("keeper", "sleeps"), FALSE)
             /\ UNCHANGED <<sched, held, outcome, phase>>
  /\ UNCHANGED <<isOpen, free, turns, running, idle, asleep, passed, door, inbox, round, now, ran, local>>
KeeperWakes ==
  /\ pc["keeper"] = "sleeps" /\ keeper <= now /\ keeper' = 0 /\ pc' = At("keeper", "keep")
  /\ UNCHANGED <<lock, phase, isOpen, free, turns, running, idle, asleep, calls, calling, sched, held, passed, door, inbox, round, now, outcome, ran, local>>
TimePasses == now < MostTime /\ now' = now + 1
  /\ UNCHANGED <<lock, state, door, inbox, round, outcome, ran, pc, local>>

(* `close`, after `shut_door` *)
Close ==
  /\ pc["closer"] = "close"
  /\ LET out == Elems(held) \cup (IF How = "cancel" THEN Elems(sched) ELSE {})
         q == IF How = "cancel" THEN <<>> ELSE sched
         over == Over("closing", q, free)
     IN /\ outcome' = Put(outcome, out, "closed") /\ held' = <<>> /\ sched' = q
        /\ phase' = IF over THEN "closed" ELSE "closing"
        /\ calls' = idle /\ lock' = None /\ UNCHANGED calling
        /\ pc' = [r \in Procs |-> IF pc[r] = "asleep" /\ Bug # "close_wakes_none" THEN "awake" ELSE IF pc[r] = "sleeps" /\ over THEN "keep"
                                  ELSE IF r = "closer" THEN "gone" ELSE pc[r]]
  /\ UNCHANGED <<isOpen, free, turns, running, idle, asleep, calling, passed, keeper, door, inbox, round, now, ran, local>>

Locks(p) ==
  \/ Lock(p, "outlock", "outshut") \/ Lock(p, "leavelock", "mail") \/ Lock(p, "adds", "addshut")
  \/ Lock(p, "backlock", "back") \/ Lock(p, "work", "take") \/ Lock(p, "calledlock", "called")
  \/ Lock(p, "awake", "awakes") \/ Lock(p, "keep", "keeps")
Steps(p) ==
  \/ ShutDoor(p, "outshut", "back") \/ ShutDoor(p, "addshut", "addmail") \/ ShutDoor(p, "collectshut", "collect")
  \/ ShutDoor(p, "closeshut", "close")
  \/ Empty(p, "mail", "decide") \/ Empty(p, "addmail", "addown") \/ Empty(p, "takemail", "takerest")
  \/ Collect(p) \/ Take(p) \/ TakeRest(p) \/ Taken(p) \/ Run(p) \/ TakeBack(p) \/ OpenDoor(p) \/ Unlock(p)
  \/ p \in Callers /\ (Enter(p) \/ RunOut(p) \/ OutLeaves(p) \/ LooksFirst(p) \/ Leaves(p) \/ DecideLeave(p) \/ AddOwn(p) \/ Hear(p) \/ Cancel(p))
  \/ p \in Workers /\ (Idle(p) \/ Called(p) \/ LooksOut(p) \/ Awake(p))
  \/ p = "keeper" /\ (Keep \/ KeeperWakes)
  \/ p = "closer" /\ Close
Next ==
  \/ \E p \in Procs : Steps(p) \/ Locks(p)
  \/ \E c \in Callers : Cancels(c)
  \/ Lock("closer", "open", "closeshut")
  \/ TimePasses

(* Whoever is in the code goes on, the mutex starves nobody, functions end, and time passes. Nothing is assumed of cancelling and closing. *)
Fair == /\ \A p \in Procs : WF_vars(Steps(p)) /\ SF_vars(Locks(p))
        /\ WF_vars(TimePasses)
Spec == Init /\ [][Next]_vars /\ Fair

------------------------------------------------------------------------------
(* Each lane is in one place. *)
LanePlaces(l) == (IF l \in free THEN 1 ELSE 0) + (IF l \in doorLanes /\ ~doorShut THEN 1 ELSE 0) + Cardinality({p \in Procs : lane[p] = l})
EachLaneOnce == \A l \in Lanes : LanePlaces(l) = 1
(* A request runs once at most, and only if that is its outcome. *)
RunsOnce == \A c \in Callers : ran[c] <= 1
OneOutcome == [][\A c \in Callers : outcome[c] # "none" => outcome'[c] = outcome[c]]_vars
RanIsRan == \A c \in Callers : ran[c] = 1 => outcome[c] = "ran"
(* What has expired never runs. *)
LateNeverRuns == [][\A p \in Procs : batch[p] = <<>> /\ batch'[p] # <<>> => \A c \in Elems(batch'[p]) : ~Late(c, now)]_vars
(* Who went behind the others goes after all of its priority that waited. *)
BehindGoesLast == [][\A p \in Procs : batch[p] = <<>> /\ batch'[p] # <<>> =>
                     \A c \in Elems(batch'[p]), d \in Elems(sched) \cap Elems(sched') : PrioOf[c] = PrioOf[d] /\ Behind(c) => Behind(d)]_vars
WithinCapacity == Len(sched) <= Capacity
(* Nobody by the door overtakes those that wait. (They may be under way there when one comes, or be counted in the inbox.) *)
DoorIsShutForThoseWhoWait == lock = None /\ isOpen => sched = <<>> /\ held = <<>> /\ turns = 0
(* The oldest of those that did not go behind the others is passed over so often at most. *)
BoundedOvertaking == passed[2] <= Passes
(* Closed is closed. *)
ClosedIsOver == phase = "closed" => sched = <<>> /\ held = <<>> /\ free = Lanes /\ turns = 0 /\ ~isOpen
(* Whenever the lock is free, a batch can go and a lane is free, somebody is on the way. *)
SomebodyComes ==
  lock = None /\ Ready(sched, phase, turns, running) /\ free # {} /\ Workers # {} =>
     \E p \in Procs : pc[p] \notin {"asleep", "gone", "sleep", "done", "start", "sleeps", "keep", "open"}

EveryRequestEnds == \A c \in Callers : <>(pc[c] = "done")
NobodyWaitsForEver == \A c \in Callers : pc[c] = "sleep" ~> pc[c] = "done"
ClosingEnds == phase = "closing" ~> phase = "closed"
AllGoHome == phase = "closed" ~> \A p \in Workers \cup {"keeper"} : pc[p] = "gone"
=============================================================================
