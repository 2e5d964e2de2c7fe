//! What a queue holds until a thread executes it.

use std::sync::Arc;

use streampool_device::{Handler, HostSlice, Op, OpKind, Span};

use crate::event::Recording;
use crate::program::Replay;

/// One command, small enough to be moved about freely: what is big is behind a pointer.
pub(crate) enum Command {
    /// Nothing, in order.
    Nop,
    /// A kernel.
    Op(Box<Op>),
    /// Bytes taken from the caller, to the start of a span.
    Upload(Span, Box<[u8]>),
    /// A span to the caller's memory.
    Download(Span, HostSlice),
    /// A program.
    Replay(Box<Replay>),
    /// An event to complete.
    Record(Arc<Recording>),
    /// An event to wait for.
    Wait(Arc<Recording>),
    /// A handler to call.
    Handler(Handler),
    /// What an imitated driver broke while it was encoded.
    Broken(OpKind, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_fits_a_cache_line() {
        assert!(size_of::<Command>() <= 64, "{}", size_of::<Command>());
    }
}
