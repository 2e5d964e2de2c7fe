//! What a queue holds until a thread executes it.

use std::sync::Arc;

use streampool_device::{Handler, HostSlice, Op, OpKind, Span};

use crate::cost;
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
}

impl Command {
    /// What its faults tell.
    pub(crate) fn kind(&self) -> OpKind {
        match self {
            Command::Op(op) => op.kind(),
            Command::Upload(..) => OpKind::Upload,
            Command::Download(..) => OpKind::Download,
            Command::Replay(_) => OpKind::Replay,
            Command::Nop | Command::Record(_) | Command::Wait(_) | Command::Handler(_) => {
                OpKind::Nop
            }
        }
    }

    /// About how long it takes, in nanoseconds.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Command::Op(op) => cost::estimate(op),
            Command::Replay(replay) => replay.cost(),
            Command::Upload(span, _) | Command::Download(span, _) => cost::copying(span.bytes),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_fits_a_cache_line() {
        assert!(size_of::<Command>() <= 64, "{}", size_of::<Command>());
    }
}
