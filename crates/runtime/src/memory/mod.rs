//! Memory: arenas of blocks, the buffers that name them, and what happens when it runs short.

mod arena;
mod buffer;
mod callbacks;
mod class;
mod heap;
mod lasting;
mod pressure;
mod shared;
mod source;

pub use arena::ArenaUse;
pub use buffer::{Buffer, HoldsBuffer, Operand};
pub use callbacks::Pressure;

pub(crate) use arena::Arena;
pub(crate) use callbacks::Callbacks;
pub(crate) use class::GRAIN;
pub(crate) use lasting::Lasting;
pub(crate) use shared::Shared;
pub(crate) use source::Source;
