//! What happens when a rule is broken: the process is aborted with the reason, as Metal's validation layer does, or
//! the violation is noted, where a test recorded.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::chance;

/// A rule of Metal, or of the Objective-C runtime, that the imitation enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A reference is given back that nobody has.
    OverRelease,
    /// A freed object gets a message, or a reference to it is taken.
    UseAfterFree,
    /// Autoreleased objects need a pool of the thread; pools are closed by who opened them.
    Pools,
    /// A message that the imitation does not know.
    UnknownSelector,
    /// A command buffer has at most one open encoder.
    OneEncoder,
    /// A command buffer and its encoders are used by one thread at a time.
    OneThread,
    /// An encoder is ended, once, before it is released and before its command buffer is committed.
    EndEncoding,
    /// Nothing is encoded on an encoder that is ended.
    EncodeAfterEnd,
    /// Nothing is added to a command buffer that is committed.
    EncodeAfterCommit,
    /// Handlers are added before the commit.
    HandlerAfterCommit,
    /// A command buffer is committed once.
    CommitOnce,
    /// Only a committed command buffer can be waited for, and not by its own handler.
    WaitNeedsCommit,
    /// A queue has a limit of command buffers: who asks for more than it can ever finish waits for ever.
    BuffersInFlight,
    /// With [`Sim::most_in_flight`](crate::Sim::most_in_flight): the device has no more command buffers in flight.
    DeviceInFlight,
    /// With [`Sim::racing_encoders`](crate::Sim::racing_encoders): one thread at a time makes, ends and
    /// frees encoders, and commits and frees command buffers.
    EncoderRace,
    /// What a command buffer without retained references names lives until it is completed.
    FreedInFlight,
    /// A buffer's length is at least 1 and at most what the device allows.
    BufferLength,
    /// Only memory that both share has contents for the host.
    Contents,
    /// Host memory is taken over in whole pages.
    PageAligned,
    /// Indices of buffers are at most 30.
    BindingIndex,
    /// Each buffer that the kernel declares is set.
    BindingMissing,
    /// Offsets lie within the buffer, and are multiples of 4.
    BindingOffset,
    /// Inline bytes are 1 to 4,096.
    BytesLength,
    /// A dispatch needs a pipeline.
    PipelineMissing,
    /// Threadgroup memory comes in multiples of 16 bytes and fits the device; each that the kernel declares is set.
    ThreadgroupMemory,
    /// A group has at least 1 thread, and at most what pipeline and device allow.
    ThreadgroupSize,
    /// A grid has at least 1 group.
    GridSize,
    /// A kernel stays within what it is given, and its threads come to each barrier together.
    Kernel,
    /// Copies and fills lie within their buffers, do not overlap, and are multiples of 4 bytes.
    BlitRange,
    /// Copies and fills are shorter than 4 GiB: longer ones were seen to leave a part undone, without a word, on macOS 14
    /// (copies) and 26 (fills).
    BlitLength,
    /// Values of an event rise.
    EventRises,
    /// A residency set is committed before it is used.
    Residency,
    /// A residency set that is kept resident (`requestResidency`) does not change while command buffers are in flight: in
    /// reports from macOS 15 and 26 on M1 to M5 the kernel panics, now and then.
    ResidencyChanged,
    /// An argument that is nil, or not of the kind the method takes.
    Argument,
}

impl Rule {
    /// Every rule, so that a test can see that each has its breach.
    pub const ALL: [Rule; 34] = [
        Rule::OverRelease,
        Rule::UseAfterFree,
        Rule::Pools,
        Rule::UnknownSelector,
        Rule::OneEncoder,
        Rule::OneThread,
        Rule::EndEncoding,
        Rule::EncodeAfterEnd,
        Rule::EncodeAfterCommit,
        Rule::HandlerAfterCommit,
        Rule::CommitOnce,
        Rule::WaitNeedsCommit,
        Rule::BuffersInFlight,
        Rule::DeviceInFlight,
        Rule::EncoderRace,
        Rule::FreedInFlight,
        Rule::BufferLength,
        Rule::Contents,
        Rule::PageAligned,
        Rule::BindingIndex,
        Rule::BindingMissing,
        Rule::BindingOffset,
        Rule::BytesLength,
        Rule::PipelineMissing,
        Rule::ThreadgroupMemory,
        Rule::ThreadgroupSize,
        Rule::GridSize,
        Rule::Kernel,
        Rule::BlitRange,
        Rule::BlitLength,
        Rule::EventRises,
        Rule::Residency,
        Rule::ResidencyChanged,
        Rule::Argument,
    ];
}

/// A rule that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// What was done.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What was noted, while a test records.
static RECORD: Mutex<Option<Vec<Violation>>> = Mutex::new(None);

fn record() -> std::sync::MutexGuard<'static, Option<Vec<Violation>>> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn begin(recording: bool) {
    *record() = recording.then(Vec::new);
}

pub(crate) fn taken() -> Vec<Violation> {
    record().as_mut().map(std::mem::take).unwrap_or_default()
}

/// A rule is broken.
#[track_caller]
pub(crate) fn violation(rule: Rule, what: String) {
    let violation = Violation { rule, what };
    if let Some(noted) = &mut *record() {
        return noted.push(violation);
    }
    let thread = std::thread::current();
    // Not by `eprintln`, which a test keeps to itself until it ends.
    let _ = writeln!(
        std::io::stderr(),
        "\nthread '{}' broke a rule of Metal, as imitated from seed {}: {violation}\n{}",
        thread.name().unwrap_or("without a name"),
        chance::begun_from(),
        std::backtrace::Backtrace::force_capture(),
    );
    std::process::abort();
}
