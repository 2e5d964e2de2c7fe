------------------------------- MODULE Events -------------------------------
(* Events that are lent, recorded, waited for, given back and used again.       *)
(* Code: crates/cuda/src/event.rs (`CudaEvent`, `Recording`), marks.rs (`Shelf`,*)
(* `Mark`), crates/runtime/src/event.rs (`Event::record`, `with_recording`),    *)
(* event_pool.rs.                                                               *)
(* A driver's event (`raw`) knows only where it was recorded last. A wait on a   *)
(* stream takes what is recorded at that moment; a wait of the host, too.       *)
EXTENDS Naturals, FiniteSets
CONSTANTS Lanes, Raws, Events, Hosts, MaxTick, None, Bug
VARIABLES last, done,     \* of each lane: commands encoded and executed
          raw,            \* of each driver's event: where it was recorded last
          latest,         \* `CudaEvent::latest` of each device event: a recording
          stamp,          \* `Event::recorded` of its borrower; None if it never recorded it
          lent,           \* whether somebody has borrowed it of the pool
          pc, kept, sees, \* a host thread: what it is at, the recording it holds, and the stamp it means
          waits,          \* ghost: a stream took another point than was meant
          early           \* ghost: somebody went on too early
vars == <<last, done, raw, latest, stamp, lent, pc, kept, sees, waits, early>>
Points == [lane : Lanes, tick : 1..MaxTick]
Init ==
  /\ last = [l \in Lanes |-> 0] /\ done = [l \in Lanes |-> 0]
  /\ raw = [r \in Raws |-> None] /\ latest = [e \in Events |-> None] /\ stamp = [e \in Events |-> None]
  /\ lent = [e \in Events |-> FALSE]
  /\ pc = [h \in Hosts |-> "idle"] /\ kept = [h \in Hosts |-> None] /\ sees = [h \in Hosts |-> None]
  /\ waits = FALSE /\ early = FALSE
Over(p) == done[p.lane] >= p.tick
(* `Mark`s that somebody holds: an event's latest recording, or a thread that waits for one *)
Held == {latest[e].raw : e \in {x \in Events : latest[x] # None}}
        \cup (IF Bug = "waiter_holds_none" THEN {} ELSE {kept[h].raw : h \in {x \in Hosts : kept[x] # None}})
Shelf == Raws \ Held
Exec(l) == done[l] < last[l] /\ done' = [done EXCEPT ![l] = @ + 1]
           /\ UNCHANGED <<last, raw, latest, stamp, lent, pc, kept, sees, waits, early>>
(* `EventPool::take`: the last borrower's recording is still in it *)
Borrow(e) == ~lent[e] /\ lent' = [lent EXCEPT ![e] = TRUE]
             /\ stamp' = [stamp EXCEPT ![e] = IF Bug = "old_stamp" THEN @ ELSE None]
             /\ UNCHANGED <<last, done, raw, latest, pc, kept, sees, waits, early>>
Busy(e) == \E h \in Hosts : pc[h] \in {"record", "waiting"} /\ sees[h].event = e
GiveBack(e) == /\ lent[e] /\ ~Busy(e)
               /\ lent' = [lent EXCEPT ![e] = FALSE]
               /\ UNCHANGED <<last, done, raw, latest, stamp, pc, kept, sees, waits, early>>
(* `Event::record`: a mark of the shelf, its recording becomes the latest; then the stamp. Under `recording`. *)
Record(h, e, l) ==
  /\ pc[h] = "idle" /\ lent[e] /\ last[l] < MaxTick /\ (Busy(e) => Bug = "no_recording_lock")
  /\ \E r \in Shelf :
       LET p == [lane |-> l, tick |-> last[l] + 1] IN
       /\ raw' = [raw EXCEPT ![r] = p] /\ latest' = [latest EXCEPT ![e] = [lane |-> l, tick |-> p.tick, raw |-> r]]
       /\ sees' = [sees EXCEPT ![h] = [event |-> e, point |-> p]]
  /\ last' = [last EXCEPT ![l] = @ + 1] /\ pc' = [pc EXCEPT ![h] = "record"]
  /\ UNCHANGED <<done, stamp, lent, kept, waits, early>>
Recorded(h) ==
  /\ pc[h] = "record" /\ pc' = [pc EXCEPT ![h] = "idle"] /\ sees' = [sees EXCEPT ![h] = None]
  /\ stamp' = [stamp EXCEPT ![sees[h].event] = sees[h].point]
  /\ UNCHANGED <<last, done, raw, latest, lent, kept, waits, early>>
(* `Stream::wait_event` by `with_recording`: the stamp, then the driver takes what is recorded. Under `recording`. *)
WaitStamp(h, e) ==
  /\ pc[h] = "idle" /\ lent[e] /\ stamp[e] # None /\ (Busy(e) => Bug = "no_recording_lock")
  /\ pc' = [pc EXCEPT ![h] = "waiting"] /\ sees' = [sees EXCEPT ![h] = [event |-> e, point |-> stamp[e]]]
  /\ UNCHANGED <<last, done, raw, latest, stamp, lent, kept, waits, early>>
WaitDevice(h) ==
  /\ pc[h] = "waiting" /\ pc' = [pc EXCEPT ![h] = "idle"] /\ sees' = [sees EXCEPT ![h] = None]
  /\ waits' = (waits \/ sees[h].point # raw[latest[sees[h].event].raw])
  /\ UNCHANGED <<last, done, raw, latest, stamp, lent, kept, early>>
(* `Event::wait`, of the host: the latest recording is held, then waited for by its mark *)
HostHold(h, e) ==
  /\ pc[h] = "idle" /\ lent[e] /\ stamp[e] # None
  /\ kept' = [kept EXCEPT ![h] = latest[e]] /\ pc' = [pc EXCEPT ![h] = "sync"]
  /\ UNCHANGED <<last, done, raw, latest, stamp, lent, sees, waits, early>>
(* `cuEventSynchronize` of the mark takes what is recorded on it now. *)
HostTake(h) ==
  /\ pc[h] = "sync" /\ pc' = [pc EXCEPT ![h] = "syncing"]
  /\ sees' = [sees EXCEPT ![h] = [event |-> None, point |-> raw[kept[h].raw]]]
  /\ UNCHANGED <<last, done, raw, latest, stamp, lent, kept, waits, early>>
HostDone(h) ==
  /\ pc[h] = "syncing" /\ Over(sees[h].point)
  /\ early' = (early \/ ~Over([lane |-> kept[h].lane, tick |-> kept[h].tick]))
  /\ pc' = [pc EXCEPT ![h] = "idle"] /\ kept' = [kept EXCEPT ![h] = None] /\ sees' = [sees EXCEPT ![h] = None]
  /\ UNCHANGED <<last, done, raw, latest, stamp, lent, waits>>
Steps(h) == Recorded(h) \/ WaitDevice(h) \/ HostTake(h) \/ HostDone(h)
Next == \/ \E l \in Lanes : Exec(l)
        \/ \E e \in Events : Borrow(e) \/ GiveBack(e)
        \/ \E h \in Hosts : Steps(h) \/ \E e \in Events : WaitStamp(h, e) \/ HostHold(h, e) \/ \E l \in Lanes : Record(h, e, l)
Fair == /\ \A h \in Hosts : WF_vars(Steps(h))
        /\ \A l \in Lanes : IF Bug = "device_stops" THEN TRUE ELSE WF_vars(Exec(l))
Spec == Init /\ [][Next]_vars /\ Fair
-----------------------------------------------------------------------------
(* Who waited on the host for a recording goes on when that is complete, not another. *)
NobodyGoesOnEarly == ~early
(* What a stream waits for is what the clocks are told it waits for. *)
WaitsForWhatItMeans == ~waits
(* A borrower sees only its own recordings: one that recorded nothing has no stamp. *)
NothingOfTheLastBorrower == [][\A e \in Events : ~lent[e] /\ lent'[e] => stamp'[e] = None]_vars
(* A driver's event is used for one recording at a time, as long as somebody may ask for it. *)
OneUseAtATime == \A h \in Hosts : pc[h] \in {"sync"} => raw[kept[h].raw] = [lane |-> kept[h].lane, tick |-> kept[h].tick]
EveryWaitEnds == \A h \in Hosts : pc[h] # "idle" ~> pc[h] = "idle"
=============================================================================
