------------------------------ MODULE Streams -------------------------------
(* Memory that streams share: stamps, clocks, marks, events, and blocks that    *)
(* are used again. The device executes each stream in order and knows nothing   *)
(* but waits for events; all else is the host's bookkeeping.                    *)
(* Code: crates/runtime/src/clock.rs (`Marks`, `After`, `Hazards`), order.rs    *)
(* (`lock_after`, `wait_for`, `Lane::marker`), memory/arena.rs (`give_back`,    *)
(* `take_in`, `is_reusable`), clocks.rs.                                        *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS N,          \* streams are 1..N; each is used by one thread, which stands for all that share it
          Blocks, HomeOf,
          MaxOps,     \* so many ops are encoded in all
          MayFree,    \* whether blocks are freed and used again
          Bug

Streams == 1..N
OneBlock == <<1>>
TwoBlocks == <<1, 2>>
VARIABLES q, done,            \* commands of each stream, and how many the device has executed
          after, marker,      \* `Encoder::after`, `Encoder::marker`
          written, users, tick, \* `Marks`: last write, who used it since, the highest tick of each
          life,               \* of each block: "live", "pending", "idle"
          readers, writer,    \* who borrows it at the moment
          pc, op, need, got,  \* what each thread is at
          ops,
          hver, dver, wrong   \* which write the block holds, as the host means it and as it is; and whether a command met another

host == <<after, marker, written, users, tick, life>>
ghost == <<hver, dver, wrong>>
vars == <<q, done, host, readers, writer, pc, op, need, got, ops, ghost>>

NoStamp == [stream |-> 0, tick |-> 0]
Stamp(s, t) == [stream |-> s, tick |-> t]
NoMarker == [tick |-> 0, after |-> [r \in Streams |-> 0]]
Home(b) == HomeOf[b]
Max(x, y) == IF x > y THEN x ELSE y

Init ==
  /\ q = [s \in Streams |-> <<>>] /\ done = [s \in Streams |-> 0]
  /\ after = [s \in Streams |-> [r \in Streams |-> 0]]
  /\ marker = [s \in Streams |-> NoMarker]
  /\ written = [b \in Blocks |-> NoStamp] /\ users = [b \in Blocks |-> {}]
  /\ tick = [b \in Blocks |-> [s \in Streams |-> 0]]
  /\ life = [b \in Blocks |-> "live"]
  /\ readers = [b \in Blocks |-> {}] /\ writer = [b \in Blocks |-> 0]
  /\ pc = [s \in Streams |-> "idle"] /\ op = [s \in Streams |-> <<>>]
  /\ need = [s \in Streams |-> {}] /\ got = [s \in Streams |-> {}]
  /\ ops = 0
  /\ hver = [b \in Blocks |-> 0] /\ dver = [b \in Blocks |-> 0] /\ wrong = FALSE

Complete(st) == done[st.stream] >= st.tick                \* `Clocks::is_complete`
Covers(s, st) == IF Bug = "covers_one_less" THEN after[s][st.stream] + 1 >= st.tick
                                            ELSE after[s][st.stream] >= st.tick

Uses(b) == {Stamp(u, tick[b][u]) : u \in users[b]}        \* `Marks::uses`
Foreign(s, stamps) == {st \in stamps : st.stream # s /\ st.stream # 0}
(* what the op conflicts with: `Touch::used_write`, and for a write `Marks::uses` *)
Conflicts(s, kind, b) ==
  IF kind = "read" THEN IF Bug = "no_read_hazard" THEN {} ELSE Foreign(s, {written[b]})
  ELSE IF Bug = "no_write_hazard" THEN Foreign(s, {written[b]}) ELSE Foreign(s, Uses(b))

(* Appends commands to stream s, the last of which is the op, and marks the block. *)
Encode(s, kind, b, waits, clock) ==
  LET cmd == IF kind = "write" THEN [kind |-> "write", block |-> b, ver |-> hver[b] + 1, src |-> NoStamp]
                               ELSE [kind |-> "read", block |-> b, ver |-> hver[b], src |-> NoStamp]
      t == Len(q[s]) + Len(waits) + 1
  IN /\ q' = [q EXCEPT ![s] = @ \o waits \o <<cmd>>]
     /\ after' = [after EXCEPT ![s] = clock]
     /\ tick' = [tick EXCEPT ![b][s] = t]
     /\ IF kind = "write"
        THEN /\ written' = [written EXCEPT ![b] = Stamp(s, t)] /\ users' = [users EXCEPT ![b] = {s}]
             /\ hver' = [hver EXCEPT ![b] = @ + 1]
        ELSE /\ users' = [users EXCEPT ![b] = IF Bug = "last_reader" THEN {s} ELSE @ \cup {s}]
             /\ UNCHANGED <<written, hver>>
     /\ readers' = [readers EXCEPT ![b] = @ \ {s}]
     /\ writer' = [writer EXCEPT ![b] = IF @ = s THEN 0 ELSE @]
     /\ pc' = [pc EXCEPT ![s] = "idle"] /\ op' = [op EXCEPT ![s] = <<>>]
     /\ need' = [need EXCEPT ![s] = {}] /\ got' = [got EXCEPT ![s] = {}]

(* The borrow of the block that an op needs: `&Buffer` or `&mut Buffer`. *)
Begin(s, kind, b) ==
  /\ pc[s] = "idle" /\ ops < MaxOps /\ life[b] = "live" /\ writer[b] = 0
  /\ kind = "write" => readers[b] = {}
  /\ kind = "read" => written[b] # NoStamp
  /\ ops' = ops + 1
  /\ op' = [op EXCEPT ![s] = <<kind, b>>]
  /\ pc' = [pc EXCEPT ![s] = "order"]
  /\ IF kind = "read" THEN readers' = [readers EXCEPT ![b] = @ \cup {s}] /\ UNCHANGED writer
                      ELSE writer' = [writer EXCEPT ![b] = s] /\ UNCHANGED readers
  /\ UNCHANGED <<q, done, host, need, got, ghost>>

(* `lock_after`, with the stream's lock held. Stamps are compared one after the other: one may be over only when another, that is over as  *)
(* well by then, was found not to be.                                                                                                    *)
Order(s) ==
  /\ pc[s] = "order"
  /\ LET kind == op[s][1] b == op[s][2]
         open == {st \in Conflicts(s, kind, b) : ~Covers(s, st)}
         complete == {st \in open : Complete(st)}
     IN \E over \in {some \in SUBSET complete : some # {} \/ complete = {}} :
        LET clock == [r \in Streams |-> IF \E st \in over : st.stream = r
                                        THEN Max(after[s][r], (CHOOSE st \in over : st.stream = r).tick) ELSE after[s][r]]
        IN IF open \subseteq over
           THEN Encode(s, kind, b, <<>>, clock) /\ UNCHANGED <<marker, life>>
           ELSE /\ need' = [need EXCEPT ![s] = open \ over]
                /\ after' = [after EXCEPT ![s] = clock]
                /\ pc' = [pc EXCEPT ![s] = "markers"]
                /\ UNCHANGED <<q, marker, written, users, tick, life, readers, writer, op, got, hver>>
  /\ UNCHANGED <<done, ops, dver, wrong>>

(* `Lane::marker` of another stream, with that stream's lock held *)
Marker(s, st) ==
  /\ pc[s] = "markers" /\ st \in need[s]
  /\ LET r == st.stream
         old == marker[r]
         new == [tick |-> Len(q[r]) + 1, after |-> after[r]]
         reuse == old.tick >= st.tick \/ (Bug = "old_marker" /\ old.tick > 0)
         m == IF reuse THEN old ELSE new
     IN /\ IF reuse THEN UNCHANGED <<q, marker>>
           ELSE /\ q' = [q EXCEPT ![r] = Append(@, [kind |-> "mark", block |-> 0, ver |-> 0, src |-> NoStamp])]
                /\ marker' = [marker EXCEPT ![r] = new]
        /\ got' = [got EXCEPT ![s] = @ \cup {[stream |-> r, tick |-> m.tick,
                     after |-> IF Bug = "clock_of_now" THEN after[r] ELSE m.after]}]
        /\ need' = [need EXCEPT ![s] = @ \ {st}]
        /\ pc' = [pc EXCEPT ![s] = IF need[s] = {st} THEN "wait" ELSE "markers"]
  /\ UNCHANGED <<done, after, written, users, tick, life, readers, writer, op, ops, ghost>>

RECURSIVE InOrder(_)
InOrder(ms) == IF ms = {} THEN <<>>
               ELSE LET m == CHOOSE m \in ms : \A o \in ms : m.stream <= o.stream IN <<m>> \o InOrder(ms \ {m})

(* `wait_for`: the waits, the merged clocks, and then the op, all with the stream's own lock held *)
Wait(s) ==
  /\ pc[s] = "wait"
  /\ LET ms == InOrder(got[s])
         waits == [i \in DOMAIN ms |-> [kind |-> "wait", block |-> 0, ver |-> 0,
                     src |-> Stamp(ms[i].stream, ms[i].tick + (IF Bug = "wait_too_far" THEN 1 ELSE 0))]]
         clock == [r \in Streams |->
                     LET all == {after[s][r]} \cup {m.after[r] : m \in got[s]} \cup {m.tick : m \in {x \in got[s] : x.stream = r}}
                     IN CHOOSE x \in all : \A y \in all : x >= y]
     IN Encode(s, op[s][1], op[s][2], IF Bug = "no_wait" THEN <<>> ELSE waits, clock)
  /\ UNCHANGED <<done, marker, life, ops, dver, wrong>>

(* `Buffer::drop`, `Arena::give_back`: at once if only its home used it, else when the others are done *)
Reset(b) ==
  /\ written' = [written EXCEPT ![b] = NoStamp]
  /\ users' = [users EXCEPT ![b] = IF tick[b][Home(b)] = 0 \/ Bug = "reset_forgets_home" THEN {} ELSE {Home(b)}]
Away(b) == Foreign(Home(b), Uses(b))
Free(b) ==
  /\ MayFree /\ life[b] = "live" /\ writer[b] = 0 /\ readers[b] = {} /\ ops < MaxOps
  /\ IF Away(b) = {} THEN life' = [life EXCEPT ![b] = "idle"] /\ Reset(b)
     ELSE life' = [life EXCEPT ![b] = "pending"] /\ UNCHANGED <<written, users>>
  /\ UNCHANGED <<q, done, after, marker, tick, readers, writer, pc, op, need, got, ops, ghost>>
(* `Arena::collect` *)
Reclaim(b) ==
  /\ life[b] = "pending"
  /\ IF Bug = "one_is_enough" THEN \E st \in Away(b) : Complete(st) ELSE \A st \in Away(b) : Complete(st)
  /\ life' = [life EXCEPT ![b] = "idle"] /\ Reset(b)
  /\ UNCHANGED <<q, done, after, marker, tick, readers, writer, pc, op, need, got, ops, ghost>>
(* `Stream::allocate` takes it; whoever gets the buffer may use it first, on any stream *)
Reuse(b) ==
  /\ life[b] = "idle" /\ life' = [life EXCEPT ![b] = "live"]
  /\ UNCHANGED <<q, done, after, marker, written, users, tick, readers, writer, pc, op, need, got, ops, ghost>>

(* The device executes the next command of a stream. *)
Exec(s) ==
  /\ done[s] < Len(q[s])
  /\ LET c == q[s][done[s] + 1] IN
     /\ c.kind = "wait" => done[c.src.stream] >= c.src.tick
     /\ done' = [done EXCEPT ![s] = @ + 1]
     /\ CASE c.kind = "write" -> dver' = [dver EXCEPT ![c.block] = c.ver] /\ wrong' = (wrong \/ dver[c.block] # c.ver - 1)
          [] c.kind = "read" -> wrong' = (wrong \/ dver[c.block] # c.ver) /\ UNCHANGED dver
          [] OTHER -> UNCHANGED <<dver, wrong>>
  /\ UNCHANGED <<q, host, readers, writer, pc, op, need, got, ops, hver>>

Host(s) == Order(s) \/ Wait(s) \/ \E st \in need[s] : Marker(s, st)
Next ==
  \/ \E s \in Streams : Exec(s) \/ Host(s) \/ \E b \in Blocks : Begin(s, "read", b) \/ Begin(s, "write", b)
  \/ \E b \in Blocks : Free(b) \/ Reclaim(b) \/ Reuse(b)

(* The device goes on, a thread in the code goes on, and what can be reclaimed is. Nothing is assumed of users. *)
Fair == /\ \A s \in Streams : WF_vars(Exec(s)) /\ WF_vars(Host(s))
        /\ \A b \in Blocks : WF_vars(Reclaim(b))
Spec == Init /\ [][Next]_vars /\ Fair

-----------------------------------------------------------------------------
(* No read before its write, no write before the last use, on any stream: *)
(* each command finds the block as the host meant it.                     *)
InOrderOnTheDevice == ~wrong

(* A clock promises only what the device will keep: when s executes what it encodes from now on, what `after` covers is over. *)
(* (Checked when s has executed all it has.)                                                                                  *)
ClocksAreTrue == \A s, r \in Streams : done[s] = Len(q[s]) /\ pc[s] = "idle" => done[r] >= after[s][r]

(* Nothing idle is still used by another stream, but for uses that its home is ordered after already. *)
IdleIsUnused == \A b \in Blocks : life[b] = "idle" =>
                  \A s \in Streams \ {Home(b)} : \A i \in DOMAIN q[s] :
                    q[s][i].block = b => done[s] >= i \/ after[Home(b)][s] >= i

(* Everything that is encoded is executed; every op is encoded; all memory comes back. *)
AllIsDone == \A s \in Streams : (pc[s] # "idle" \/ done[s] < Len(q[s])) ~> (pc[s] = "idle" /\ done[s] = Len(q[s]))
AllComesBack == \A b \in Blocks : life[b] = "pending" ~> life[b] # "pending"
=============================================================================
