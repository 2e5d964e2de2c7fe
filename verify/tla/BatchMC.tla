------------------------------- MODULE BatchMC -------------------------------
(* Small queues for TLC. *)
EXTENDS Batch
\* three callers, one of each way in
KindMixed == [c \in Callers |-> IF c = "a" THEN "door" ELSE IF c = "b" THEN "help" ELSE "submit"]
KindDoor == [c \in Callers |-> "door"]
KindSubmit == [c \in Callers |-> "submit"]
NoPrio == [c \in Callers |-> 1]
PrioMixed == [c \in Callers |-> IF c = "a" THEN 1 ELSE 0]
NoDeadline == [c \in Callers |-> 0]
NoneBehind == [c \in Callers |-> 0]
OneBehind == [c \in Callers |-> IF c = "a" THEN 1 ELSE 0]
SomeDeadline == [c \in Callers |-> IF c = "a" THEN 2 ELSE IF c = "c" THEN 1 ELSE 0]
==============================================================================
