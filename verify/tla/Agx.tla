-------------------------------- MODULE Agx ---------------------------------
(* The guard round an encoder "E" of Apple's driver and its command buffer "C".  *)
(* Code: apple/agx-fix/src/logic/guarded.rs (`Guarded::enter`, `wait`, `leave`,  *)
(* `destroy`, `unpin`, `pass_on`), guard.rs (`Guard::enter`, `leave`, `destroy`, *)
(* `keep`), quarantine.rs. Each stretch under an object's mutex is one step.     *)
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Threads, ScriptOf, Opener, MayGiveUp, None, Bug
Objects == {"E", "C"}
VARIABLES life, ended, holder, depth, beside, pins, open, \* `State` of each object; `open` is of C: who opened E
          waiting, woken,                          \* who waits at which object, and was notified
          destroyed, kept,                         \* ghost and quarantine: E's memory is given back; it is kept
          todo, gave, cameBefore, dropped, deciding
vars == <<life, ended, holder, depth, beside, pins, open, waiting, woken, destroyed, kept, todo, gave, cameBefore, dropped, deciding>>

(* What a thread does, in steps of the guard. *)
Op(name) ==
  CASE name = "encode" -> <<<<"enter", "E", "encode">>, <<"leave", "E", FALSE>>>>
    [] name = "end" -> IF Bug = "encoder_first"
         THEN <<<<"enter", "E", "end">>, <<"enter", "C", "other">>, <<"leave", "C", FALSE>>, <<"leave", "E", TRUE>>>>
         ELSE <<<<"enter", "C", "other">>, <<"enter", "E", "end">>, <<"leave", "E", TRUE>>, <<"leave", "C", FALSE>>>>
    [] name = "nested" -> <<<<"enter", "E", "encode">>, <<"enter", "E", "encode">>, <<"leave", "E", FALSE>>, <<"leave", "E", FALSE>>>>
    [] name = "driver" -> <<<<"enter", "C", "other">>, <<"enter", "E", "other">>, <<"leave", "E", FALSE>>, <<"leave", "C", FALSE>>>>
    [] name = "apart" -> <<<<"enter", "C", "apart">>, <<"leave", "C", FALSE>>>>
    [] name = "commit" -> <<<<"enter", "C", "end">>, <<"leave", "C", TRUE>>>>
    [] name = "release" -> <<<<"destroy", "E", "">>>>
    [] name = "release_inside" -> <<<<"enter", "E", "encode">>, <<"destroy", "E", "">>, <<"leave", "E", FALSE>>>>
RECURSIVE Steps0(_)
Steps0(names) == IF names = <<>> THEN <<>> ELSE Op(names[1]) \o Steps0(Tail(names))

Init ==
  /\ life = [o \in Objects |-> "lives"] /\ ended = [o \in Objects |-> FALSE]
  /\ holder = [o \in Objects |-> None] /\ depth = [o \in Objects |-> 0] /\ beside = [o \in Objects |-> {}]
  /\ pins = [o \in Objects |-> 0] /\ open = Opener
  /\ waiting = [o \in Objects |-> {}] /\ woken = [o \in Objects |-> {}]
  /\ destroyed = FALSE /\ kept = FALSE
  /\ todo = [t \in Threads |-> Steps0(ScriptOf[t])]
  /\ gave = {} /\ cameBefore = {} /\ dropped = FALSE /\ deciding = None

Inside(t, o) == holder[o] = t \/ t \in beside[o]
AtEntry(t, o) == todo[t] # <<>> /\ todo[t][1][1] = "enter" /\ todo[t][1][2] = o
Purpose(t) == todo[t][1][3]
(* `State::ahead_of` *)
Ahead(t, o) ==
  \/ holder[o] # None /\ Bug # "two_at_once"
  \/ o = "C" /\ open \notin {None, t} /\ Purpose(t) \in {"apart", "end"}
Allows(t, o) == ~ended[o] \/ Purpose(t) = "other" \/ Bug = "after_end"
Go(t) == [todo EXCEPT ![t] = Tail(@)]
RECURSIVE DropLeave(_, _)
DropLeave(s, o) == IF s = <<>> THEN <<>> ELSE IF s[1][1] = "leave" /\ s[1][2] = o THEN Tail(s) ELSE <<s[1]>> \o DropLeave(Tail(s), o)
Refuse(t, o) == [todo EXCEPT ![t] = DropLeave(Tail(@), o)]
(* `pass_on`: all that wait are notified if nobody is in it *)
PassOn(o, h, w) == IF h = None /\ Bug # "pass_on_none" THEN [woken EXCEPT ![o] = w] ELSE woken

(* Takes a pin away; whoever takes the last of a condemned one destroys it, or keeps it if it is ended. *)
Unpin(o, lifeNow, pinsNow, isEnded) ==
  IF lifeNow = "condemned" /\ pinsNow = 0 /\ Bug # "never_destroys"
  THEN IF o = "E" /\ isEnded THEN life' = [life EXCEPT ![o] = "kept"] /\ kept' = TRUE /\ UNCHANGED destroyed
       ELSE life' = [life EXCEPT ![o] = "gone"] /\ destroyed' = (destroyed \/ o = "E") /\ UNCHANGED kept
  ELSE UNCHANGED <<life, destroyed, kept>>

GetIn(t, o) ==
  /\ IF holder[o] = None
     THEN holder' = [holder EXCEPT ![o] = t] /\ depth' = [depth EXCEPT ![o] = 1] /\ UNCHANGED beside
     ELSE beside' = [beside EXCEPT ![o] = @ \cup {t}] /\ UNCHANGED <<holder, depth>>
  /\ todo' = Go(t)
(* `Guarded::enter` *)
Enter(t, o) ==
  /\ AtEntry(t, o) /\ t \notin waiting[o]
  /\ IF (life[o] \notin {"lives", "condemned"}) \/ (life[o] = "condemned" /\ ~Inside(t, o))
     THEN /\ todo' = Refuse(t, o)
          /\ UNCHANGED <<holder, depth, beside, pins, waiting, woken, cameBefore, dropped, life, destroyed, kept>>
     ELSE IF Inside(t, o) /\ Bug # "nested_waits"
     THEN /\ pins' = [pins EXCEPT ![o] = @ + 1]
          /\ depth' = IF holder[o] = t THEN [depth EXCEPT ![o] = @ + 1] ELSE depth
          /\ todo' = Go(t)
          /\ UNCHANGED <<holder, beside, waiting, woken, cameBefore, dropped, life, destroyed, kept>>
     ELSE IF Ahead(t, o)
     THEN /\ pins' = [pins EXCEPT ![o] = @ + 1] /\ waiting' = [waiting EXCEPT ![o] = @ \cup {t}]
          /\ cameBefore' = cameBefore \cup {t}
          /\ UNCHANGED <<holder, depth, beside, woken, todo, dropped, life, destroyed, kept>>
     ELSE IF ~Allows(t, o)
     THEN /\ todo' = Refuse(t, o)
          /\ UNCHANGED <<holder, depth, beside, pins, waiting, woken, cameBefore, dropped, life, destroyed, kept>>
     ELSE pins' = [pins EXCEPT ![o] = @ + 1] /\ GetIn(t, o) /\ UNCHANGED <<waiting, woken, cameBefore, dropped, life, destroyed, kept>>
  /\ UNCHANGED <<ended, open, gave, deciding>>
(* `wait`, and what comes after it *)
Waited(t, o) ==
  /\ t \in waiting[o] /\ (t \in woken[o] \/ t \in gave)
  /\ IF Ahead(t, o) /\ t \notin gave
     THEN woken' = [woken EXCEPT ![o] = @ \ {t}] /\ UNCHANGED <<holder, depth, beside, pins, waiting, todo, dropped, life, destroyed, kept>>
     ELSE /\ waiting' = [waiting EXCEPT ![o] = @ \ {t}]
          /\ IF ~Allows(t, o) \/ (Bug = "condemned_refused" /\ life[o] = "condemned")
             THEN /\ todo' = Refuse(t, o) /\ pins' = [pins EXCEPT ![o] = @ - 1]
                  /\ dropped' = (dropped \/ Allows(t, o))
                  /\ Unpin(o, life[o], pins[o] - 1, ended[o])
                  /\ woken' = [PassOn(o, holder[o], waiting'[o]) EXCEPT ![o] = @ \ {t}]
                  /\ UNCHANGED <<holder, depth, beside>>
             ELSE GetIn(t, o) /\ woken' = [woken EXCEPT ![o] = @ \ {t}] /\ UNCHANGED <<pins, dropped, life, destroyed, kept>>
  /\ UNCHANGED <<ended, open, gave, cameBefore, deciding>>
GiveUp(t) == /\ MayGiveUp /\ t \notin gave /\ \E o \in Objects : t \in waiting[o] /\ gave' = gave \cup {t}
             /\ UNCHANGED <<life, ended, holder, depth, beside, pins, open, waiting, woken, destroyed, kept, todo, cameBefore, dropped, deciding>>
(* `Guarded::leave`, and `close` of its command buffer if that ended it *)
Leave(t, o) ==
  /\ todo[t] # <<>> /\ todo[t][1][1] = "leave" /\ todo[t][1][2] = o
  /\ LET ends == todo[t][1][3]
         out == holder[o] = t /\ depth[o] = 1
         h == IF out THEN None ELSE holder[o]
     IN /\ ended' = [ended EXCEPT ![o] = @ \/ ends]
        /\ holder' = [holder EXCEPT ![o] = h]
        /\ depth' = [depth EXCEPT ![o] = IF holder[o] = t THEN @ - 1 ELSE @]
        /\ beside' = [beside EXCEPT ![o] = IF holder[o] = t THEN @ ELSE @ \ {t}]
        /\ pins' = [pins EXCEPT ![o] = @ - 1]
        /\ Unpin(o, life[o], pins[o] - 1, ended'[o])
        /\ IF o = "E" /\ (ends \/ destroyed' \/ kept') /\ Bug # "stays_open"
           THEN open' = None /\ woken' = [PassOn("E", h, waiting["E"]) EXCEPT !["C"] = IF holder["C"] = None THEN waiting["C"] ELSE @]
           ELSE UNCHANGED open /\ woken' = PassOn(o, h, waiting[o])
        /\ todo' = Go(t)
  /\ UNCHANGED <<waiting, gave, cameBefore, dropped, deciding>>
(* `Guarded::destroy`. (The bug looks at the pins in a step before.) *)
Look(t) ==
  /\ Bug = "looks_first" /\ todo[t] # <<>> /\ todo[t][1][1] = "destroy" /\ deciding = None
  /\ deciding' = <<t, pins["E"]>>
  /\ UNCHANGED <<life, ended, holder, depth, beside, pins, open, waiting, woken, destroyed, kept, todo, gave, cameBefore, dropped>>
Destroy(t) ==
  /\ todo[t] # <<>> /\ todo[t][1][1] = "destroy" /\ (Bug = "looks_first" => deciding # None)
  /\ LET n == IF Bug = "looks_first" THEN deciding[2] ELSE pins["E"] IN
     IF life["E"] # "lives" THEN UNCHANGED <<life, destroyed, kept, open, woken>>
     ELSE IF n > 0 THEN life' = [life EXCEPT !["E"] = "condemned"] /\ UNCHANGED <<destroyed, kept, open, woken>>
     ELSE /\ IF ended["E"] THEN life' = [life EXCEPT !["E"] = "kept"] /\ kept' = TRUE /\ UNCHANGED destroyed
             ELSE life' = [life EXCEPT !["E"] = "gone"] /\ destroyed' = TRUE /\ UNCHANGED kept
          /\ open' = None /\ woken' = [woken EXCEPT !["C"] = IF holder["C"] = None THEN waiting["C"] ELSE @]
  /\ todo' = Go(t)
  /\ UNCHANGED <<ended, holder, depth, beside, pins, waiting, gave, cameBefore, dropped, deciding>>
(* `destroy_kept`: the quarantine lets it go *)
KeptOver ==
  /\ kept /\ life["E"] = "kept" /\ life' = [life EXCEPT !["E"] = "gone"] /\ destroyed' = TRUE /\ kept' = FALSE
  /\ UNCHANGED <<ended, holder, depth, beside, pins, open, waiting, woken, todo, gave, cameBefore, dropped, deciding>>

Steps(t) == Destroy(t) \/ Look(t) \/ \E o \in Objects : Enter(t, o) \/ Waited(t, o) \/ Leave(t, o)
Next == KeptOver \/ \E t \in Threads : Steps(t) \/ GiveUp(t)
Fair == WF_vars(KeptOver) /\ \A t \in Threads : SF_vars(Steps(t))
Spec == Init /\ [][Next]_vars /\ Fair
-----------------------------------------------------------------------------
(* No call on a freed encoder. *)
NoneInAFreedEncoder == destroyed => \A t \in Threads : ~Inside(t, "E")
(* One thread at a time, but for those that gave up waiting. *)
OneAtATime == \A o \in Objects : \A t \in Threads : t \in beside[o] => t \in gave
(* Nobody encodes into an ended encoder. *)
NoneEncodesAfterTheEnd == [][\A t \in Threads, o \in Objects : ~Inside(t, o) /\ (holder'[o] = t \/ t \in beside'[o]) /\ ended[o] => Purpose(t) = "other"]_vars
(* A call that came before the last reference was given up is made, unless it comes after the end. *)
NoCallIsDropped == ~dropped
(* All calls come back, and what was given up is destroyed. *)
AllCallsEnd == \A t \in Threads : <>(todo[t] = <<>>)
GivenUpIsDestroyed == life["E"] \in {"condemned", "kept"} ~> destroyed
=============================================================================
