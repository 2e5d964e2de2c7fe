//! The workers: as many threads as the machine has processors, whatever the number of queues.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector as Jobs, Steal};
use streampool_device::lock::{Condvar, Mutex};
use streampool_device::{Error, Process, Result, foreign};

use crate::lately::Lately;
use crate::ranks;
use crate::region::{End, Region};

/// How long a worker that did something goes on looking for more before it sleeps: about what it takes to
/// wake one, so that the ops of a model, which follow one another closely, find their helpers awake.
const PATIENCE: Duration = Duration::from_micros(100);

/// Looks between two looks at the clock.
const LOOKS: usize = 16;

/// Something for a worker to do. An entry may be stale: whoever takes it finds out from its target.
pub(crate) enum Job {
    /// Execute a strand's commands.
    Commands(Arc<dyn Work>),
    /// Call a strand's handlers.
    Handlers(Arc<dyn Work>),
    /// Lend a hand in a parallel region.
    Region(Arc<Region>),
}

/// What a strand is asked to do.
pub(crate) trait Work: Send + Sync {
    /// Executes commands, if nobody else did.
    fn run_queued(self: Arc<Self>);
    /// Calls the handlers that are due.
    fn run_handlers(&self);
}

impl Job {
    fn run(self, pool: &Shared) {
        match self {
            Job::Commands(strand) => {
                let _working = pool.working();
                strand.run_queued();
            }
            Job::Handlers(strand) => {
                let _working = pool.working();
                strand.run_handlers();
            }
            Job::Region(region) => region.help(End::Back, || (pool.working(), pool.busy())),
        }
    }
}

/// The threads. Dropping it ends and joins them; that happens when the last owner of the device's core is
/// gone, so no job is left that needs one.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    process: Process,
}

/// What the workers share.
///
/// Each worker has a list of its own, and takes from others' when that and the common one are empty. All are
/// of the kind that any thread may push to: the faster single-owner deque races by its own account, and is
/// reported by the thread sanitizer.
pub(crate) struct Shared {
    common: Jobs<Job>,
    own: Box<[Jobs<Job>]>,
    /// Workers that are inside a job.
    working: AtomicUsize,
    sleeping: AtomicUsize,
    looking: AtomicUsize,
    busy: AtomicUsize,
    /// Threads that do work of their own, and may want help with it.
    pub(crate) callers: Lately,
    stopped: Mutex<bool>,
    wake: Condvar,
}

thread_local! {
    /// The pool that this thread works for, as an address to compare with, and its number there.
    static WORKER: Cell<(*const Shared, usize)> = const { Cell::new((std::ptr::null(), 0)) };
}

impl Pool {
    #[expect(clippy::disallowed_methods, reason = "threads are bounded")]
    pub(crate) fn start(threads: usize) -> Result<Pool> {
        let shared = Arc::new(Shared {
            common: Jobs::new(),
            own: (0..threads).map(|_| Jobs::new()).collect(),
            working: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            looking: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            callers: Lately::new(),
            stopped: Mutex::new(ranks::SLEEP, false),
            wake: Condvar::new(),
        });
        let mut pool = Pool {
            shared,
            threads: Vec::with_capacity(threads),
            process: Process::current(),
        };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("streampool-{index}"))
                .spawn(move || work(&shared, index))
                .map_err(|error| {
                    Error::DeviceLost(format!(
                        "worker thread {index} of {threads} did not start: {error}"
                    ))
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl std::ops::Deref for Pool {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Pool {
    /// Whether this process is a fork of the one with the workers.
    pub(crate) fn was_left_behind(&self) -> bool {
        !self.process.is_current()
    }

    /// Fails in a fork of the process with the workers.
    pub(crate) fn check_process(&self) -> Result<()> {
        match self.was_left_behind() {
            false => Ok(()),
            true => Err(Error::DeviceLost(
                "this process is a fork of the one that opened the device: open it after the fork"
                    .to_owned(),
            )),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.was_left_behind() {
            // There are no workers here, and the lock may have been held when the process was forked.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        *self.shared.stopped.lock() = true;
        self.shared.wake.notify_all();
        let current = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // A worker that drops the device last ends by itself.
            if thread.thread().id() != current {
                // It catches panics, so there is no result to lose.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// Gives a job to the workers.
    pub(crate) fn push(&self, job: Job) {
        match self.worker() {
            Some(index) => self.own[index].push(job),
            None => self.common.push(job),
        }
        self.alert();
    }

    /// Sees to it that somebody takes what was pushed: a worker that is awake and in no job does, and else
    /// one is woken.
    fn alert(&self) {
        // Read and written, so that it is ordered against a worker that counts itself as working or sleeping:
        // either that worker sees what was pushed or this sees the worker.
        let working = self.working.fetch_add(0, Ordering::SeqCst);
        let sleeping = self.sleeping.fetch_add(0, Ordering::SeqCst);
        if sleeping > 0 && working + sleeping >= self.own.len() {
            drop(self.stopped.lock());
            self.wake.notify_one();
        }
    }

    /// Counts the calling worker as inside a job until the guard is dropped.
    fn working(&self) -> Working<'_> {
        self.working.fetch_add(1, Ordering::SeqCst);
        // Whoever pushed more may have counted on this worker.
        if !self.is_quiet() {
            self.alert();
        }
        Working(self)
    }

    /// Waits for a while, awake; whether there may be a job. It takes no processor from those who are busy.
    fn look(&self) -> bool {
        let looking = 1 + self.looking.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let found = loop {
            let found = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                !self.is_quiet()
            });
            let crowded = self.taken() + looking > self.own.len();
            if found || crowded || begun.elapsed() >= PATIENCE {
                break found;
            }
        };
        self.looking.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Whether the calling thread is one of these workers.
    pub(crate) fn is_worker(&self) -> bool {
        self.worker().is_some()
    }

    /// Whether nothing waits for a worker.
    pub(crate) fn is_quiet(&self) -> bool {
        self.common.is_empty() && self.own.iter().all(Jobs::is_empty)
    }

    /// Counts the calling thread as busy with long work until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }

    /// How many threads have something long to do, or had of late.
    fn taken(&self) -> usize {
        self.busy.load(Ordering::Relaxed).max(self.callers.most())
    }

    /// How many threads the caller, itself busy, may use: itself and those with nothing long to do, now and of late.
    pub(crate) fn width(&self) -> usize {
        let others = self.taken().saturating_sub(1);
        self.own.len().saturating_sub(others).max(1)
    }

    /// The calling thread's number among these workers.
    fn worker(&self) -> Option<usize> {
        let (pool, index) = WORKER.get();
        std::ptr::eq(pool, self).then_some(index)
    }

    /// A job for the worker of this number: its own first, then anybody's.
    fn find(&self, worker: usize) -> Option<Job> {
        let (before, rest) = self.own.split_at(worker);
        let (own, after) = rest.split_at(1);
        let lists = own.iter().chain([&self.common]).chain(after).chain(before);
        lists.into_iter().find_map(take)
    }

    /// Sleeps until there may be a job; `false` when the pool is stopped.
    fn sleep(&self) -> bool {
        let mut stopped = self.stopped.lock();
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        if !*stopped && self.is_quiet() {
            stopped = self.wake.wait(stopped);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        !*stopped
    }
}

fn take(jobs: &Jobs<Job>) -> Option<Job> {
    loop {
        match jobs.steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

fn work(shared: &Arc<Shared>, index: usize) {
    WORKER.set((Arc::as_ptr(shared), index));
    loop {
        while let Some(job) = shared.find(index) {
            // Jobs catch what they call. Should one panic all the same, it costs itself, not a worker.
            let _ = foreign::call(|| job.run(shared));
        }
        if !shared.look() && !shared.sleep() {
            break;
        }
    }
}

/// See [`Shared::working`].
struct Working<'a>(&'a Shared);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}

/// See [`Shared::busy`].
pub(crate) struct Busy<'a>(&'a Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_pool_ends_its_workers() {
        for threads in [1, 3] {
            let pool = Pool::start(threads).unwrap();
            let shared = Arc::downgrade(&pool.shared);
            assert!(!pool.is_worker() && pool.is_quiet());
            drop(pool);
            assert!(shared.upgrade().is_none(), "a worker still holds the pool");
        }
    }
}
