//! What can go wrong in the runtime, with what to do about it.

use std::time::Duration;

use streampool_device::{Fault, OpKind};

use crate::settings::SettingError;

/// The result of a runtime call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a runtime call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] streampool_device::Error),
    /// A setting is not what it can be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Every stream is taken and the policy is to fail.
    #[error(
        "all {limit} worker streams are in use (stream 0 is the main thread's): return one (end its thread, or release_current_stream), \
         raise STREAMPOOL_STREAMS (at most 64), or share or wait with STREAMPOOL_WAIT_TIMEOUT_MS"
    )]
    NoFreeStream {
        /// How many worker streams there are.
        limit: usize,
    },
    /// Every stream stayed taken for as long as the policy waits.
    #[error(
        "all {limit} worker streams stayed in use for {waited:?}: raise STREAMPOOL_WAIT_TIMEOUT_MS or \
         STREAMPOOL_STREAMS (at most 64)"
    )]
    WaitTimedOut {
        /// How many worker streams there are.
        limit: usize,
        /// How long the policy waits.
        waited: Duration,
    },
    /// The deadline of a run passed before it had a stream, or while it encoded work or waited for it.
    #[error("the deadline of the run is past")]
    Deadline,
    /// A piece of work takes more than its budget.
    #[error(
        "it takes at least {asked} {what}, at most {limit} are allowed: if that is meant, raise {setting} or \
         the limit of the run itself"
    )]
    OverBudget {
        /// `steps`, or the `elements` that ops go over.
        what: &'static str,
        /// So many at least.
        asked: u64,
        /// The most there may be.
        limit: u64,
        /// What decides that.
        setting: &'static str,
    },
    /// There is no stream of that number.
    #[error("there is no stream {index}: this pool's are 0 to {last}")]
    NoSuchStream {
        /// The number asked for.
        index: usize,
        /// The highest there is.
        last: usize,
    },
    /// A stream of another pool or device was given.
    #[error("the stream belongs to another pool: take one from the pool it is used with")]
    ForeignStream,
    /// A buffer of another pool or device was given.
    #[error("the buffer belongs to another pool: allocate it there, or copy it through the host")]
    ForeignBuffer,
    /// A program of another pool or device was given.
    #[error("the program belongs to another pool: capture it there")]
    ForeignProgram,
    /// An event of another pool or device was given.
    #[error("the event belongs to another pool: make it there")]
    ForeignEvent,
    /// An operand that an op writes was given for reading only.
    #[error("{op}: {argument} is written, and was given with `read`: give it with `write`")]
    NotWritable {
        /// The op.
        op: OpKind,
        /// The operand.
        argument: &'static str,
    },
    /// Host data of the wrong length was given.
    #[error("{what} is {got} bytes long, expected {expected}")]
    WrongLength {
        /// What was given.
        what: &'static str,
        /// Its bytes.
        got: usize,
        /// The bytes that fit.
        expected: String,
    },
    /// Bytes on the device are not values of the type asked for.
    #[error("the buffer holds bytes that are no {dtype}: {why}")]
    NotOfType {
        /// The type asked for.
        dtype: streampool_device::DType,
        /// What is wrong with them.
        why: String,
    },
    /// Work this call waited for had read what a fault on another stream never wrote.
    #[error("it used the result of failed work: {0}")]
    Dependency(Fault),
    /// There is not enough memory, after everything was tried.
    #[error(
        "out of memory: {requested} bytes asked for, {reserved} of at most {limit} taken from the device, \
         {in_use} of these in buffers, {pending} awaiting other streams, and {overhead} taken by the device itself; \
         free buffers, or raise {}",
        most_memory(*.is_setting)
    )]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes taken from the device.
        reserved: usize,
        /// Bytes that the device takes for itself, which count, too.
        overhead: usize,
        /// Bytes in buffers.
        in_use: usize,
        /// Bytes in freed blocks that other streams still use.
        pending: usize,
        /// The most this pool may take: the setting, or the device's capacity.
        limit: usize,
        /// Whether that is the setting.
        is_setting: bool,
    },
    /// More was asked for in one piece than any block holds.
    #[error("{requested} bytes asked for in one piece, expected at most {largest}")]
    TooLarge {
        /// Bytes asked for.
        requested: usize,
        /// The largest block.
        largest: usize,
    },
    /// The device aligns memory less than blocks need.
    #[error("{device} aligns memory to {got} bytes, expected at least {expected}")]
    Alignment {
        /// The device's name.
        device: String,
        /// Its alignment.
        got: usize,
        /// The alignment of blocks.
        expected: usize,
    },
    /// An operand of a captured op names something that the capture does not know.
    #[error("{op}: {argument} belongs to another capture")]
    ForeignSlot {
        /// The op.
        op: OpKind,
        /// The operand.
        argument: &'static str,
    },
    /// A program was replayed with other buffers than it takes.
    #[error("{what} {index} of the program is {got}, expected {expected}")]
    WrongBinding {
        /// `input` or `output`.
        what: &'static str,
        /// Which one.
        index: usize,
        /// What was given.
        got: String,
        /// What fits.
        expected: String,
    },
    /// The pool was dropped.
    #[error("the pool was shut down: keep it alive for as long as its streams are used")]
    ShutDown,
    /// The process is a fork of the one that made the pool.
    #[error(
        "this process is a fork of the one that made the pool, and devices do not survive a fork: make \
         the device and the pool after the fork"
    )]
    Forked,
}

/// What says how much memory there is.
fn most_memory(is_setting: bool) -> &'static str {
    match is_setting {
        true => "STREAMPOOL_MEMORY_LIMIT",
        false => "the device's own limit, such as STREAMPOOL_HOST_MEMORY, where it is set",
    }
}

impl Error {
    /// The fault behind it, if work on a stream failed.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Dependency(fault)
            | Error::Device(
                streampool_device::Error::Fault(fault) | streampool_device::Error::Poisoned(fault),
            ) => Some(fault),
            _ => None,
        }
    }
}
