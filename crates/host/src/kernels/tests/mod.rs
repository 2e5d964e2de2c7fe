//! Ops at each level of instructions, on teams, and with factors packed. What they must come to is the oracle's to say.

mod amx;
mod large;
mod levels;
mod matmul;
pub(crate) mod ops;
mod polls;
mod refusals;
