//! How the imitated device is, and what is to go wrong.

use std::sync::RwLock;
use std::thread;
use std::time::Duration;

use crate::lock::{read, write};

/// How the device is, and what is to go wrong.
#[derive(Clone)]
pub(crate) struct Settings {
    pub capacity: u64,
    pub unified: bool,
    pub apple_family: isize,
    pub simdgroup: usize,
    pub gpu_cores: Option<i64>,
    pub most_in_flight: Option<usize>,
    pub racing_encoders: bool,
    pub longest_delay: Duration,
    pub longest_wait: Duration,
    pub event_limit: Duration,
    pub failures: Vec<Failure>,
    pub compile_failures: Vec<String>,
    pub refusals: Vec<Refusal>,
    pub watchdog: Option<u64>,
    pub skips_kernels: bool,
    pub paused: bool,
    pub held: Option<String>,
    pub busy_archives: bool,
    pub victims: bool,
    pub lost: bool,
}

/// What becomes of the next command buffer of a queue with this label.
#[derive(Clone)]
pub(crate) struct Failure {
    pub queue: String,
    pub code: isize,
    pub somewhere: bool,
}

/// A call that returns nil on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The one that says which GPU the system prefers.
    PreferredDevice,
    /// One that makes a command queue.
    Queue,
    /// One that makes a command buffer.
    CommandBuffer,
    /// One that makes an encoder.
    Encoder,
    /// One that makes an event.
    Event,
    /// One that makes a buffer of the host's memory: Metal does so only where that is mapped, not from an allocator.
    WrappedBuffer,
}

/// Longer than any wait of a test takes that does not hang, on a machine that does other things as well.
const LONGEST_WAIT: Duration =
    Duration::from_secs(match cfg!(any(sanitize_thread, sanitize_address)) {
        true => 300,
        false => 60,
    });

/// How long Metal lets a command buffer wait for an event that is not signalled, as reports have it.
const EVENT_LIMIT: Duration = Duration::from_secs(5);

/// How long a thread that is to wait does so before it looks whether it still is.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

pub(crate) const USUAL: Settings = Settings {
    capacity: 64 << 30,
    unified: true,
    apple_family: 8,
    simdgroup: 32,
    gpu_cores: Some(16),
    most_in_flight: None,
    racing_encoders: false,
    longest_delay: Duration::ZERO,
    longest_wait: LONGEST_WAIT,
    event_limit: EVENT_LIMIT,
    failures: Vec::new(),
    compile_failures: Vec::new(),
    refusals: Vec::new(),
    watchdog: None,
    skips_kernels: false,
    paused: false,
    held: None,
    busy_archives: false,
    victims: false,
    lost: false,
};

static SETTINGS: RwLock<Settings> = RwLock::new(USUAL);

pub(crate) fn settings() -> Settings {
    read(&SETTINGS).clone()
}

pub(crate) fn change<R>(change: impl FnOnce(&mut Settings) -> R) -> R {
    change(&mut write(&SETTINGS))
}

/// Whether such a call is to return nil now.
pub(crate) fn is_refused(refusal: Refusal) -> bool {
    let asked = |settings: &Settings| settings.refusals.iter().position(|next| *next == refusal);
    if asked(&settings()).is_none() {
        return false;
    }
    change(|settings| asked(settings).map(|at| settings.refusals.remove(at))).is_some()
}

/// Waits while `holds` says so of what a test asks.
pub(crate) fn wait_while(holds: impl Fn(&Settings) -> bool) {
    while holds(&settings()) {
        thread::sleep(LOOK_AGAIN);
    }
}

/// The next command buffer that a queue with this label commits fails before anything of it is executed, with this code
/// of `MTLCommandBufferErrorDomain`. Signals that it encodes are not given.
pub fn fail_next(queue: &str, code: isize) {
    fail(queue, code, false);
}

/// As [`fail_next`], but it may fail anywhere: what it encodes is executed up to there.
pub fn fail_next_somewhere(queue: &str, code: isize) {
    fail(queue, code, true);
}

fn fail(queue: &str, code: isize, somewhere: bool) {
    let queue = queue.to_owned();
    change(|settings| {
        settings.failures.push(Failure {
            queue,
            code,
            somewhere,
        })
    });
}
