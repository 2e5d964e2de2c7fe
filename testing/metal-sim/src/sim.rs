//! The scope in which a test has the imitation to itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::classes::live_objects;
use crate::lock::lock;
use crate::report::{self, Violation};
use crate::settings::{Refusal, USUAL, change};
use crate::{chance, metal, signposts};

static ALONE: Mutex<()> = Mutex::new(());

/// A test that has the imitation to itself, for what it asks and counts is the whole process's.
///
/// When it ends, everything that was committed has to come to its end, and no object may be left.
pub struct Sim {
    _alone: MutexGuard<'static, ()>,
    recording: bool,
}

impl Sim {
    /// A broken rule aborts the process, as it does without a `Sim`.
    pub fn strict() -> Sim {
        Sim::begin(false)
    }

    /// A broken rule is noted, and what broke it is ignored as far as that goes. Each has to be taken by
    /// [`Sim::violations`] before the end.
    pub fn recording() -> Sim {
        Sim::begin(true)
    }

    fn begin(recording: bool) -> Sim {
        let alone = lock(&ALONE);
        change(|settings| *settings = USUAL);
        report::begin(recording);
        signposts::forget();
        chance::seed(1);
        Sim {
            _alone: alone,
            recording,
        }
    }

    /// The violations since the last call. Waits until the GPU is idle, so that it has found all.
    pub fn violations(&self) -> Vec<Violation> {
        metal::wait_until_idle();
        report::taken()
    }

    /// How many objects of each class live, once the GPU is idle.
    pub fn live_objects(&self) -> BTreeMap<String, usize> {
        metal::wait_until_idle();
        live_objects()
    }

    /// Which orders and delays are drawn. The threads that draw are not in step, so it is not the same run twice.
    pub fn seed(&self, seed: u64) {
        chance::seed(seed);
    }

    /// The GPU and the threads that call handlers idle now and then, for at most so long.
    pub fn delay(&self, longest: Duration) {
        change(|settings| settings.longest_delay = longest);
    }

    /// How long a command buffer waits for an event before it fails: 5 seconds, unless it is another time.
    pub fn event_limit(&self, longest: Duration) {
        change(|settings| settings.event_limit = longest);
    }

    /// How long a thread waits for room in a queue before it is taken for hung.
    pub fn longest_wait(&self, longest: Duration) {
        change(|settings| settings.longest_wait = longest);
    }

    /// How much memory the device has: beyond that no buffer is allocated.
    pub fn capacity(&self, bytes: u64) {
        change(|settings| settings.capacity = bytes);
    }

    /// Whether host and device share their memory.
    pub fn unified(&self, unified: bool) {
        change(|settings| settings.unified = unified);
    }

    /// The newest of Apple's families that the device is of: 8, unless it is another.
    pub fn apple_family(&self, newest: isize) {
        change(|settings| settings.apple_family = newest);
    }

    /// Pipelines say that simdgroups have so many threads: 32, unless it is another. Kernels see 32 all the same.
    pub fn simdgroup(&self, threads: usize) {
        change(|settings| settings.simdgroup = threads);
    }

    /// What the registry says of the number of cores: 16, unless it is another, or nothing.
    pub fn gpu_cores(&self, told: Option<i64>) {
        change(|settings| settings.gpu_cores = told);
    }

    /// The device is removed: what is not completed fails, and all that follows.
    pub fn lose_device(&self) {
        change(|settings| settings.lost = true);
    }

    /// The next call of this kind returns nil.
    pub fn refuse(&self, refusal: Refusal) {
        change(|settings| settings.refusals.push(refusal));
    }

    /// The GPU begins nothing any more, until it is [resumed](Sim::resume).
    pub fn pause(&self) {
        change(|settings| settings.paused = true);
    }

    /// The GPU goes on.
    pub fn resume(&self) {
        change(|settings| settings.paused = false);
    }

    /// The queue of this label begins nothing any more, until another is held, or none.
    pub fn hold(&self, queue: Option<&str>) {
        let held = queue.map(str::to_owned);
        change(|settings| settings.held = held);
    }

    /// While it is so, nothing is added to archives: who does waits.
    pub fn busy_archives(&self, busy: bool) {
        change(|settings| settings.busy_archives = busy);
    }

    /// A GPU that is set up anew when a command buffer fails: what other queues have in flight then fails as well.
    pub fn victims(&self) {
        change(|settings| settings.victims = true);
    }

    /// How many buffers are in residency sets, each counted once for each set, as committed.
    pub fn resident(&self) -> usize {
        metal::resident()
    }

    /// The next library does not compile, and says this. Asked for twice, the one after it does not, either.
    pub fn fail_compile(&self, why: &str) {
        change(|settings| settings.compile_failures.push(why.to_owned()));
    }

    /// A system that kills a command buffer which keeps the screen waiting (code 14). Here it is one with more threads than
    /// this, for the imitation has no time of the GPU's; a copy counts as a thread for each 16 bytes.
    pub fn watchdog(&self, threads: u64) {
        change(|settings| settings.watchdog = Some(threads));
    }

    /// Kernels are not executed, for a test that asks only how much was committed at a time.
    pub fn skip_kernels(&self) {
        change(|settings| settings.skips_kernels = true);
    }

    /// A driver that breaks when more command buffers of the device are in flight: a commit beyond is a violation.
    pub fn most_in_flight(&self, count: usize) {
        change(|settings| settings.most_in_flight = Some(count));
    }

    /// A driver that breaks when two threads make, end or free encoders of one device at once: that is a violation. The
    /// real end of an encoder may come with the next one, with what is encoded on its command buffer besides, or when that
    /// is committed or freed.
    pub fn racing_encoders(&self) {
        change(|settings| settings.racing_encoders = true);
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // A test that failed may have left both as they were.
        self.resume();
        self.hold(None);
        self.busy_archives(false);
        metal::wait_until_idle();
        let violations = report::taken();
        report::begin(false);
        change(|settings| *settings = USUAL);
        if std::thread::panicking() {
            return;
        }
        let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(
            told.is_empty(),
            "rules of Metal were broken:\n  {}",
            told.join("\n  ")
        );
        // Where rules are broken, references may be lost.
        let live = live_objects();
        assert!(
            self.recording || live.is_empty(),
            "objects are left: {live:?}"
        );
    }
}
