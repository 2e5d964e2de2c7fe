------------------------------- MODULE Leases -------------------------------
(* Streams that threads and tasks lease, and who waits when there is none.      *)
(* Code: crates/runtime/src/slots.rs (`SlotSet`), waiters.rs (`Slots`, `Turn`), *)
(* lease.rs (`claim`, `Lease::drop`), os.rs (`is_stale`).                       *)
(* One step here is one atomic operation of the code, or one stretch under its  *)
(* lock that touches nothing that others read without it.                       *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Threads, Slots,
          Timed,      \* those whose claims have a deadline
          Tasks,      \* those that claim by `Turn::poll`, and may be dropped while they wait
          MayClose, MayFork, Spurious,
          None,
          Bug         \* "none", or the name of a planted bug: see `mutants`

VARIABLES free, shut,          \* the word of the `SlotSet`: its bits, and bit 0
          lock, queue, closed, \* the mutex of `Slots::queue` and what it guards
          outcome,             \* `Waiter::outcome` of each
          pc, slot,            \* where each is, and the slot that it has in its hands
          late,                \* its deadline has passed
          forked               \* this is the child of a fork, in which one thread lives

word == <<free, shut>>
vars == <<free, shut, lock, queue, closed, outcome, pc, slot, late, forked>>

Here == {"idle", "held"}       \* not inside the code of the pool
Procs == Threads \cup {"closer"}

Init ==
  /\ free = Slots /\ shut = FALSE /\ lock = None /\ queue = <<>> /\ closed = FALSE
  /\ outcome = [t \in Threads |-> "pending"]
  /\ pc = [t \in Procs |-> IF t = "closer" /\ ~MayClose THEN "gone" ELSE "idle"]
  /\ slot = [t \in Threads |-> None]
  /\ late = [t \in Threads |-> FALSE]
  /\ forked = FALSE

Goto(t, p) == pc' = [pc EXCEPT ![t] = p]
Take(t, s) == slot' = [slot EXCEPT ![t] = s]

(* `SlotSet::claim`: the exchange that succeeds, or the load that finds nothing *)
ClaimFast(t) ==
  /\ pc[t] = "idle" /\ t \in Threads \ Tasks /\ ~forked
  /\ IF ~shut /\ free # {}
     THEN \E s \in free : free' = free \ {s} /\ Take(t, s) /\ Goto(t, "held")
     ELSE Goto(t, "lock") /\ UNCHANGED <<free, slot>>
  /\ UNCHANGED <<shut, lock, queue, closed, outcome, late, forked>>

(* `Turn::poll` the first time *)
PollFirst(t) ==
  /\ pc[t] = "idle" /\ t \in Tasks /\ ~forked
  /\ Goto(t, "lock")
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, slot, late, forked>>

Lock(t, from, to) ==
  /\ pc[t] = from /\ lock = None
  /\ lock' = t /\ Goto(t, to)
  /\ UNCHANGED <<free, shut, queue, closed, outcome, slot, late, forked>>

(* `claim_wait` under the lock: is it closed? *)
AskClosed(t) ==
  /\ pc[t] = "locked"
  /\ IF closed THEN Goto(t, "idle") /\ lock' = None
               ELSE Goto(t, "orshut") /\ UNCHANGED lock
  /\ UNCHANGED <<free, shut, queue, closed, outcome, slot, late, forked>>

(* `SlotSet::claim_or_shut`; the bug looks first and shuts in a second step *)
ClaimOrShut(t) ==
  /\ pc[t] = "orshut"
  /\ IF ~shut /\ free # {}
     THEN \E s \in free : free' = free \ {s} /\ Take(t, s) /\ Goto(t, "unlockheld") /\ UNCHANGED shut
     ELSE /\ UNCHANGED <<free, slot>>
          /\ IF Bug = "look_then_shut" THEN Goto(t, "shutlater") /\ UNCHANGED shut
                                       ELSE Goto(t, "push") /\ shut' = TRUE
  /\ UNCHANGED <<lock, queue, closed, outcome, late, forked>>

ShutLater(t) ==
  /\ pc[t] = "shutlater" /\ shut' = TRUE /\ Goto(t, "push")
  /\ UNCHANGED <<free, lock, queue, closed, outcome, slot, late, forked>>

(* `push_back`. Then comes the loop: a deadline may have passed before the first sleep. *)
Push(t) ==
  /\ pc[t] = "push"
  /\ queue' = Append(queue, t) /\ outcome' = [outcome EXCEPT ![t] = "pending"]
  /\ Goto(t, "look") /\ late' = [late EXCEPT ![t] = FALSE]
  /\ UNCHANGED <<free, shut, lock, closed, slot, forked>>

Expire(t) ==
  /\ pc[t] \in {"look", "asleep", "woken"} /\ t \in Timed /\ ~late[t]
  /\ late' = [late EXCEPT ![t] = TRUE]
  /\ Goto(t, IF pc[t] = "asleep" THEN "woken" ELSE pc[t])
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, slot, forked>>

SpuriousWake(t) ==
  /\ Spurious /\ pc[t] = "asleep" /\ Goto(t, "woken")
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, slot, late, forked>>

Others(q, t) == SelectSeq(q, LAMBDA o : o # t)

(* the loop of `claim_wait`: an outcome goes before a deadline; else `Waiter::sleep`, which gives the lock up *)
Look(t) ==
  /\ pc[t] = "look"
  /\ LET given == outcome[t] # "pending" IN
     IF given /\ ~(Bug = "deadline_first" /\ late[t])
     THEN /\ lock' = None
          /\ IF outcome[t] = "closed" THEN Goto(t, "idle") /\ UNCHANGED slot
                                      ELSE Goto(t, "held") /\ Take(t, outcome[t])
          /\ outcome' = [outcome EXCEPT ![t] = "pending"]
          /\ UNCHANGED queue
     ELSE IF late[t]
     THEN /\ queue' = Others(queue, t) /\ Goto(t, "openlate")
          /\ outcome' = [outcome EXCEPT ![t] = "pending"] /\ UNCHANGED <<lock, slot>>
     ELSE /\ lock' = None /\ Goto(t, "asleep") /\ UNCHANGED <<queue, slot, outcome>>
  /\ UNCHANGED <<free, shut, closed, late, forked>>

Unlock(t, from, to) ==
  /\ pc[t] = from /\ lock' = None /\ Goto(t, to)
  /\ UNCHANGED <<free, shut, queue, closed, outcome, slot, late, forked>>

(* `open_if_idle` *)
OpenIfIdle(t, from, to) ==
  /\ pc[t] = from
  /\ shut' = IF (queue = <<>> \/ Bug = "always_opens") /\ ~closed /\ ~(Bug = "stays_shut" /\ from = "openlate") THEN FALSE ELSE shut
  /\ Goto(t, to)
  /\ UNCHANGED <<free, lock, queue, closed, outcome, slot, late, forked>>

(* `Lease::drop`: in the child of a fork it does nothing *)
Drop(t) ==
  /\ pc[t] = "held"
  /\ IF forked /\ Bug # "drop_in_child"
     THEN Goto(t, "idle") /\ Take(t, None)
     ELSE Goto(t, "release") /\ UNCHANGED slot
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, late, forked>>

(* `SlotSet::release_if_open` *)
Release(t) ==
  /\ pc[t] = "release"
  /\ IF ~shut \/ Bug = "release_shut"
     THEN free' = free \cup {slot[t]} /\ Take(t, None) /\ Goto(t, "idle")
     ELSE Goto(t, "wanthand") /\ UNCHANGED <<free, slot>>
  /\ UNCHANGED <<shut, lock, queue, closed, outcome, late, forked>>

Next1(q) == IF Bug = "last_first" THEN q[Len(q)] ELSE Head(q)

(* `hand_over` under the lock *)
HandOver(t) ==
  /\ pc[t] = "hand"
  /\ IF queue = <<>>
     THEN /\ free' = free \cup {slot[t]} /\ Take(t, None) /\ Goto(t, "unlockidle")
          /\ UNCHANGED <<lock, queue, outcome>>
     ELSE LET w == Next1(queue) IN
          /\ queue' = Others(queue, w)
          /\ outcome' = [outcome EXCEPT ![w] = slot[t]]
          /\ slot' = [slot EXCEPT ![t] = w]       \* now: whom to wake
          /\ Goto(t, "openhand") /\ UNCHANGED lock
          /\ free' = IF Bug = "hand_and_free" THEN free \cup {slot[t]} ELSE free
  /\ UNCHANGED <<shut, closed, late, forked>>

(* `Waiting::wake`, without a lock *)
Wake(t) ==
  /\ pc[t] = "wake"
  /\ pc' = [pc EXCEPT ![t] = "idle",
                      ![slot[t]] = IF @ = "asleep" /\ Bug # "no_wake" THEN "woken" ELSE @]
  /\ Take(t, None)
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, late, forked>>

(* a task that waits is dropped: `Turn::drop` *)
Cancel(t) ==
  /\ pc[t] = "asleep" /\ t \in Tasks /\ Goto(t, "wantcancel")
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, slot, late, forked>>
Leave(t) ==
  /\ pc[t] = "leave"
  /\ queue' = Others(queue, t) /\ Goto(t, "opencancel")
  /\ UNCHANGED <<free, shut, lock, closed, outcome, slot, late, forked>>
GiveBack(t) ==
  /\ pc[t] = "left"
  /\ outcome' = [outcome EXCEPT ![t] = "pending"]
  /\ IF outcome[t] \in Slots /\ Bug # "cancel_keeps"
     THEN Take(t, outcome[t]) /\ Goto(t, "release")
     ELSE Goto(t, "idle") /\ UNCHANGED slot
  /\ UNCHANGED <<free, shut, lock, queue, closed, late, forked>>

(* `Slots::close` *)
Close == 
  /\ pc["closer"] = "close"
  /\ closed' = TRUE /\ Goto("closer", "closeshut")
  /\ UNCHANGED <<free, shut, lock, queue, outcome, slot, late, forked>>
CloseShut ==
  /\ pc["closer"] = "closeshut"
  /\ shut' = TRUE /\ Goto("closer", "closegive")
  /\ UNCHANGED <<free, lock, queue, closed, outcome, slot, late, forked>>
CloseGive ==
  /\ pc["closer"] = "closegive"
  /\ outcome' = [t \in Threads |-> IF \E i \in DOMAIN queue : queue[i] = t THEN "closed" ELSE outcome[t]]
  /\ queue' = <<>> /\ lock' = None
  /\ pc' = [t \in Procs |-> IF t = "closer" THEN "gone"
                            ELSE IF (\E i \in DOMAIN queue : queue[i] = t) /\ pc[t] = "asleep" THEN "woken"
                            ELSE pc[t]]
  /\ UNCHANGED <<free, shut, closed, slot, late, forked>>

(* The child of a fork has the memory as it was, and only the thread that forked. *)
Fork(t) ==
  /\ MayFork /\ ~forked /\ pc[t] \in Here
  /\ forked' = TRUE
  /\ pc' = [o \in Procs |-> IF o = t THEN pc[o] ELSE "gone"]
  /\ UNCHANGED <<free, shut, lock, queue, closed, outcome, slot, late>>

Steps(t) ==
  \/ AskClosed(t) \/ ClaimOrShut(t) \/ ShutLater(t) \/ Push(t) \/ Look(t)
  \/ OpenIfIdle(t, "openlate", "unlockidle") \/ OpenIfIdle(t, "openhand", "unlockwake")
  \/ OpenIfIdle(t, "opencancel", "unlockleft")
  \/ Unlock(t, "unlockheld", "held") \/ Unlock(t, "unlockidle", "idle") \/ Unlock(t, "unlockwake", "wake")
  \/ Unlock(t, "unlockleft", "left")
  \/ Release(t) \/ HandOver(t) \/ Wake(t) \/ Leave(t) \/ GiveBack(t)
Locks(t) ==
  \/ Lock(t, "lock", "locked") \/ Lock(t, "woken", "look")
  \/ Lock(t, "wanthand", "hand") \/ Lock(t, "wantcancel", "leave")

Next ==
  \/ \E t \in Threads : ClaimFast(t) \/ PollFirst(t) \/ Drop(t) \/ Steps(t) \/ Locks(t)
                        \/ Expire(t) \/ SpuriousWake(t) \/ Cancel(t) \/ Fork(t)
  \/ Lock("closer", "idle", "close") \/ Close \/ CloseShut \/ CloseGive

(* A thread in the code goes on; a mutex starves nobody; who has a lease drops it some day. Nothing is assumed of deadlines, *)
(* of wake-ups for no reason, of cancelling, closing, forking, or of anybody's claiming.                                     *)
Fair == /\ \A t \in Threads : WF_vars(Steps(t)) /\ SF_vars(Locks(t)) /\ WF_vars(Drop(t))
        /\ WF_vars(Close) /\ WF_vars(CloseShut) /\ WF_vars(CloseGive)
Spec == Init /\ [][Next]_vars /\ Fair

-----------------------------------------------------------------------------
Waiting(t) == \E i \in DOMAIN queue : queue[i] = t

(* Where a slot is. *)
Places(s) == (IF s \in free THEN 1 ELSE 0)
           + Cardinality({t \in Threads : slot[t] = s /\ pc[t] \notin {"openhand", "unlockwake", "wake"}})
           + Cardinality({t \in Threads : outcome[t] = s})

(* No slot has two holders, and none is lost. (In a child, what the others had is gone with them.) *)
EachSlotOnce == ~forked => \A s \in Slots : Places(s) = 1
EachSlotAtMostOnce == \A s \in Slots : Places(s) <= 1

(* Who waits is not overtaken: the set is shut while somebody waits. *)
ShutWhileWaiting == queue # <<>> => shut
(* At rest, it is shut only then, or closed. *)
ShutForAReason == lock = None /\ ~forked => (shut <=> queue # <<>> \/ closed)
(* Nobody waits beside a free slot. *)
NoneWaitsBesideAFreeSlot == queue # <<>> /\ lock = None /\ ~forked => free = {}

(* A slot that is handed over goes to who has waited longest. *)
FirstComeFirstServed ==
  [][\A t \in Threads : outcome[t] = "pending" /\ outcome'[t] \in Slots => queue # <<>> /\ Head(queue) = t]_vars
NobodyOvertakes ==
  [][\A t \in Threads : slot[t] = None /\ slot'[t] \in free => queue = <<>>]_vars

(* In the child of a fork, nobody waits for a lock whose holder does not exist. *)
ChildIsFree == forked => \A t \in Threads : pc[t] \in Here \cup {"gone"}

(* Who asks gets a slot, or hears that there is none. *)
EveryClaimEnds == \A t \in Threads : pc[t] \notin Here ~> pc[t] \in Here \cup {"gone"}
=============================================================================
