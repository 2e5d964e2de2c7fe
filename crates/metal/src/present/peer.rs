//! A lane, as other lanes and what all share know it.

use std::sync::Arc;

use streampool_device::Tick;

/// A lane, as others know it.
pub(crate) trait Peer: Send + Sync {
    /// Its turn among the buffers in flight has come. Returns what other lanes can do then.
    fn take_turn(self: Arc<Self>) -> Vec<Next>;

    /// What its next page waited for is over, or some of it. Returns what other lanes can do then.
    fn proceed(self: Arc<Self>) -> Vec<Next>;

    /// Whether `lane` will be told when `tick` of this one is over: not where it is over by now.
    fn will_tell(&self, tick: Tick, lane: Arc<dyn Peer>) -> bool;

    /// Calls the handlers that are due.
    fn call_handlers(&self);
}

/// What a lane can do now.
pub(crate) enum Next {
    /// Its turn among the buffers in flight has come.
    Turn(Arc<dyn Peer>),
    /// A tick that its next page waits for is over.
    Ready(Arc<dyn Peer>),
}
