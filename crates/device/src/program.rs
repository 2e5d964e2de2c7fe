//! The program: ops captured once, replayed with one call.

use std::any::Any;

/// A captured sequence of ops. Replayed by [`Queue::replay`](crate::Queue::replay) on any queue of its
/// device, any number of times, also at the same time.
pub trait Program: Send + Sync {
    /// For the device to find its own type again.
    fn as_any(&self) -> &dyn Any;

    /// How many ops it replays.
    fn ops(&self) -> usize;

    /// The sizes of its slots, in bytes.
    fn slots(&self) -> &[usize];

    /// About how much memory it holds, operands not counted.
    fn bytes(&self) -> usize;
}
