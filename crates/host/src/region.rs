//! A parallel region: the parts of one op, taken by whoever is free.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

use streampool_device::foreign::{self, Panic};
use streampool_device::lock::Mutex;

use crate::given_up::Stopped;
use crate::ranks;

/// How often the caller looks before it parks, when helpers are still inside their last parts.
const LOOKS_BEFORE_PARKING: usize = 4096;

/// Where a thread takes parts from: the caller and its helpers from different ends, so that from op to op each
/// comes by about the same elements, which are in its cache.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Front,
    Back,
}

/// One call of [`Team::run`](crate::team::Team::run).
pub(crate) struct Region {
    /// Valid until every part is finished: the caller does not return before.
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
    /// Parts taken from the front, and from the back in the upper half.
    taken: AtomicU64,
    finished: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Panic>>,
    /// Whether nobody wants the work any more. There may be millions of parts, and to unwind from each takes long.
    stopped: AtomicBool,
}

// SAFETY: `work` points to something `Sync`, and `help` follows it only while it is valid.
unsafe impl Send for Region {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new<'a>(parts: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Self {
        // SAFETY: only the lifetime changes, and `wait` keeps the caller until the last use is over.
        let work: &'static (dyn Fn(usize) + Sync) =
            unsafe { std::mem::transmute::<&'a (dyn Fn(usize) + Sync + 'a), _>(work) };
        Region {
            work,
            parts,
            taken: AtomicU64::new(0),
            finished: AtomicUsize::new(0),
            caller: std::thread::current(),
            panic: Mutex::new(ranks::REGION, None),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes parts until none is left, each under what `guard` gives. After the region is over this does nothing.
    ///
    /// The guard is dropped before the part counts as finished: what follows the region finds this thread free.
    pub(crate) fn help<G>(&self, end: End, guard: impl Fn() -> G) {
        while let Some(part) = self.take(end) {
            let guard = guard();
            // SAFETY: this part is taken and not finished, so the caller is still inside `Team::run`,
            // which borrows what `work` points to.
            let work = unsafe { &*self.work };
            let stopped = self.stopped.load(Ordering::Relaxed);
            if !stopped && let Err(panic) = foreign::call(|| work(part)) {
                if panic.payload::<Stopped>().is_some() {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                // One is passed on; which, is of no matter. The other is dropped with no lock held.
                let _other = self.panic.lock().replace(panic);
            }
            drop(guard);
            if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.parts {
                self.caller.unpark();
            }
        }
    }

    /// The number of a part that nobody took.
    fn take(&self, end: End) -> Option<usize> {
        const FROM_BACK: u64 = 1 << 32;
        let taken = self.taken.fetch_add(
            match end {
                End::Front => 1,
                End::Back => FROM_BACK,
            },
            Ordering::Relaxed,
        );
        let (front, back) = ((taken % FROM_BACK) as usize, (taken / FROM_BACK) as usize);
        (front + back < self.parts).then_some(match end {
            End::Front => front,
            End::Back => self.parts.wrapping_sub(1 + back),
        })
    }

    /// Waits for the parts that others are inside, and passes on a panic.
    pub(crate) fn wait(&self) {
        let mut looks = 0;
        while self.finished.load(Ordering::Acquire) < self.parts {
            match looks {
                LOOKS_BEFORE_PARKING => std::thread::park(),
                _ => {
                    looks += 1;
                    std::hint::spin_loop();
                }
            }
        }
        if let Some(panic) = self.panic.lock().take() {
            panic.resume();
        }
    }
}
