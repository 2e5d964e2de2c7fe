-------------------------------- MODULE AgxMC --------------------------------
(* Small programs for TLC: what each thread does with one encoder. *)
EXTENDS Agx
\* one encodes and ends, one encodes and lets the driver touch it from the command buffer, one gives it up too early
Racing == [t \in Threads |-> CASE t = 1 -> <<"encode", "end">> [] t = 2 -> <<"nested", "driver", "commit">> [] OTHER -> <<"encode", "release">>]
Inside_ == [t \in Threads |-> CASE t = 1 -> <<"release_inside">> [] t = 2 -> <<"encode", "apart">> [] OTHER -> <<"end", "encode">>]
==============================================================================
