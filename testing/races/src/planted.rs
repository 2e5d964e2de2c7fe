//! Bugs that are there on purpose.

/// A bug of the device, to see that what is above it is caught where it relies on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A queue that is to wait for an event does not.
    LostWaits,
    /// A queue says of what was appended that it is over.
    EarlyCompletion,
}
