//! From the listing of a trace to a plan: which ops, over which bytes of which block.

mod direct;
mod fuse;
mod in_place;
mod layout;
mod placement;
mod plan;
mod relaid;
#[cfg(test)]
mod testing;
mod uses;

pub use direct::work_in_place;
pub use fuse::{Fused, fuse};
pub use in_place::{InPlace, Room, in_place};
pub use layout::channels_last;
pub use plan::{Constant, Location, Operand, Output, Plan, Planned, Port, work};
