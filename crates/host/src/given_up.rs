//! Work that nobody wants any more: which it is, and how the thread that does it finds out.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::Tick;

/// The commands of a queue that were given up. One stretch is remembered: those that are over by then do not matter.
#[derive(Default)]
pub(crate) struct GivenUp {
    since: AtomicU64,
    until: AtomicU64,
}

impl GivenUp {
    /// Gives up the commands behind `since`, up to `until`. Called by one thread at a time.
    pub(crate) fn add(&self, since: Tick, until: Tick, completed: Tick) {
        let before = self.until.load(Ordering::Relaxed);
        let since = match before > completed {
            true => since.min(self.since.load(Ordering::Relaxed)),
            false => since,
        };
        // Nothing is in an empty stretch.
        self.until.store(0, Ordering::Release);
        self.since.store(since, Ordering::Release);
        self.until.store(until.max(before), Ordering::Release);
    }

    /// Whether the command at `tick` was given up.
    pub(crate) fn includes(&self, tick: Tick) -> bool {
        tick <= self.until.load(Ordering::Acquire) && tick > self.since.load(Ordering::Acquire)
    }
}

/// The command that a thread works on, and where it is told whether that was given up.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) given_up: Arc<GivenUp>,
    pub(crate) tick: Tick,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What a kernel panics with when it is given up.
pub(crate) struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it was given up")
    }
}

impl Watch {
    /// That of the calling thread. One that is about to end has none: it finishes its work while its locals go.
    pub(crate) fn current() -> Option<Watch> {
        WATCH.try_with(|watch| watch.borrow().clone()).ok()?
    }

    /// Whether the calling thread works on this command.
    pub(crate) fn is_current(&self) -> bool {
        let same =
            |other: &Watch| other.tick == self.tick && Arc::ptr_eq(&other.given_up, &self.given_up);
        let is_current = WATCH.try_with(|watch| watch.borrow().as_ref().is_some_and(same));
        is_current.unwrap_or(false)
    }

    /// Calls `work`, where [`check`] asks about this command.
    pub(crate) fn within<R>(self, work: impl FnOnce() -> R) -> R {
        let before = WATCH.try_with(|watch| watch.replace(Some(self)));
        let _before = before.ok().map(Before);
        work()
    }
}

/// Puts the watch of before back, after a panic too.
struct Before(Option<Watch>);

impl Drop for Before {
    fn drop(&mut self) {
        let _ = WATCH.try_with(|watch| watch.replace(self.0.take()));
    }
}

#[cfg(test)]
thread_local! {
    static CHECKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often this thread has asked.
#[cfg(test)]
pub(crate) fn checks() -> usize {
    CHECKS.get()
}

/// Ends the kernel that calls it if its work was given up. Between the steps of what may take very long.
pub(crate) fn check() {
    #[cfg(test)]
    CHECKS.set(CHECKS.get() + 1);
    let is_given_up = WATCH.try_with(|watch| {
        let watch = watch.borrow();
        let watch = watch.as_ref();
        watch.is_some_and(|watch| watch.given_up.includes(watch.tick))
    });
    if is_given_up.unwrap_or(false) {
        // It is no error of the kernel's: nothing is reported.
        resume_unwind(Box::new(Stopped));
    }
}

/// Counts the steps of a loop, so that it is asked now and then only.
#[derive(Default)]
pub(crate) struct Steps(usize);

impl Steps {
    /// Takes so many steps more; [`check`]s after a million.
    #[inline(always)]
    pub(crate) fn take(&mut self, steps: usize) {
        self.0 = self.0.saturating_add(steps);
        if self.0 >= 1 << 20 {
            self.0 = 0;
            check();
        }
    }
}

#[cfg(test)]
mod tests;
