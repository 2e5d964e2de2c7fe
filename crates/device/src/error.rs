//! What can go wrong on a device, and what would be right instead.

use std::sync::Arc;
use std::time::Duration;

use crate::OpKind;

/// The result of a device call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device does not execute this op (yet), or not in this form.
    #[error("{device} does not support {op}: {why}")]
    Unsupported {
        /// The device's name.
        device: String,
        /// The op asked for.
        op: OpKind,
        /// What is missing.
        why: String,
    },
    /// An op's operands do not fit together.
    #[error("{op}: {argument} is {got}, expected {expected}")]
    InvalidOp {
        /// The op.
        op: OpKind,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// A layout, span or expression that cannot be.
    #[error("{what} is {got}, expected {expected}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// The device has not enough memory left.
    #[error(
        "out of memory on {device}: asked for {requested} bytes, {in_use} of {capacity} in use"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes asked for.
        requested: usize,
        /// Bytes allocated from the device at that moment.
        in_use: usize,
        /// Bytes the device can give in all.
        capacity: usize,
    },
    /// Work on a queue failed; this call waited for that work.
    #[error(transparent)]
    Fault(Fault),
    /// The queue is poisoned by an earlier fault: recover it before encoding more.
    #[error("the stream is poisoned and takes no work until it is recovered: {0}")]
    Poisoned(Fault),
    /// There is no such device on this machine, or something it cannot do without is missing.
    #[error("no {device} device: {why}")]
    Unavailable {
        /// The device asked for.
        device: String,
        /// What is missing, and what to do about it.
        why: String,
    },
    /// A call of the device's driver failed, and left everything as it was.
    #[error("{device}: {call} failed: {message}")]
    Driver {
        /// The device's name.
        device: String,
        /// The driver's function.
        call: &'static str,
        /// What the driver said.
        message: String,
    },
    /// A kernel does not compile.
    #[error("{device}: the kernel `{kernel}` does not compile:\n{log}")]
    Compile {
        /// The device's name.
        device: String,
        /// The kernel's name.
        kernel: String,
        /// The compiler's log.
        log: String,
    },
    /// The whole device is gone; nothing on it will work again in this process.
    #[error("device lost: {0}")]
    DeviceLost(String),
    /// An event was waited for or compared before it was ever recorded.
    #[error("the event was never recorded: record it on a queue first")]
    NotRecorded,
    /// Elapsed time was asked of an event made without timing.
    #[error("the event keeps no time: make one that does (`Pool::timed_event`)")]
    NoTiming,
    /// A wait ended before what it waited for.
    #[error("not complete after {0:?}")]
    Timeout(Duration),
    /// The call cannot be made while the queue captures.
    #[error("{0} is not possible while the queue captures a program: end the capture first")]
    Capturing(&'static str),
    /// A capture was ended that was never begun.
    #[error("the queue is not capturing: begin a capture first")]
    NotCapturing,
    /// An object of another device was given.
    #[error("{what} belongs to another device than {device}")]
    Foreign {
        /// What was given: an event, a program.
        what: &'static str,
        /// The device it was given to.
        device: String,
    },
}

/// The place of a command in its queue; the first command has tick 1.
pub type Tick = u64;

/// What a piece of work on a queue failed with. Cheap to clone: everyone whose work it hit gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault(Arc<FaultParts>);

#[derive(Debug, PartialEq)]
struct FaultParts {
    queue: String,
    tick: Tick,
    op: OpKind,
    message: String,
}

impl Fault {
    /// A fault of the op at `tick` of the queue labelled `queue`.
    pub fn new(queue: &str, tick: Tick, op: OpKind, message: impl Into<String>) -> Self {
        Fault(Arc::new(FaultParts {
            queue: queue.to_owned(),
            tick,
            op,
            message: message.into(),
        }))
    }

    /// The label of the queue the work was on.
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// The tick of the failed work: everything before it succeeded.
    pub fn tick(&self) -> Tick {
        self.0.tick
    }

    /// The op that failed.
    pub fn op(&self) -> OpKind {
        self.0.op
    }

    /// What the device said.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FaultParts {
            queue,
            tick,
            op,
            message,
        } = &*self.0;
        write!(f, "{op} at tick {tick} of {queue} failed: {message}")
    }
}

impl std::error::Error for Fault {}
