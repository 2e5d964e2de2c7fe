----------------------------- MODULE FaultsSeen -----------------------------
(* Faults.tla with what each stream's thread heard last: traces are compared with this. *)
EXTENDS Faults
VARIABLE heard
Heard(s) ==
  CASE cmds'[s] # cmds[s] -> "nothing"
    [] pc[s] = "judged" /\ ask[s].sync = 0 /\ ask[s].found /\ pc'[s] = "idle" -> "refused"
    [] told'[s] # told[s] -> IF poison[s] # 0 \/ ask[s].over THEN "fault" ELSE "good"
    [] OTHER -> heard[s]
SeenInit == Init /\ heard = [s \in Streams |-> "nothing"]
SeenNext == Next /\ heard' = [s \in Streams |-> Heard(s)]
Seen == SeenInit /\ [][SeenNext]_<<vars, heard>>
=============================================================================
