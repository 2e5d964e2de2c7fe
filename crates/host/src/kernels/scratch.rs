//! Working memory of a thread, kept from one kernel to the next.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A cache line, so that scratch is aligned for every vector.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[allow(dead_code, reason = "space")] [u8; LINE]);

impl Line {
    pub(crate) const ZERO: Line = Line([0; LINE]);
}

/// What a thread keeps: kernels call each other, and each level has memory of its own.
type Store = [Vec<Line>; 2];

thread_local! {
    static SCRATCH: Cell<Store> = const { Cell::new([const { Vec::new() }; 2]) };
}

/// More than this is not kept by the thread, but by all: threads that compute are few, those that ever did may be many.
const OWN_LINES: usize = (1 << 16) / LINE;

/// More than this is given back after use.
const KEPT_LINES: usize = (4 << 20) / LINE;

/// What all threads keep, for as many as compute at a time on most machines.
static SHELF: [Place; 64] = [const { Place(AtomicPtr::new(null_mut())) }; 64];

/// Room for memory that nobody uses.
struct Place(AtomicPtr<Vec<Line>>);

impl Place {
    fn take(&self) -> Option<Vec<Line>> {
        if self.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let lines = self.0.swap(null_mut(), Ordering::Acquire);
        // SAFETY: what is not null was put here by `put`, and whoever takes it owns it.
        (!lines.is_null()).then(|| *unsafe { Box::from_raw(lines) })
    }

    /// Gives it back if there is something already.
    fn put(&self, lines: Vec<Line>) -> Result<(), Vec<Line>> {
        if !self.0.load(Ordering::Relaxed).is_null() {
            return Err(lines);
        }
        let lines = Box::into_raw(Box::new(lines));
        let put = self
            .0
            .compare_exchange(null_mut(), lines, Ordering::Release, Ordering::Relaxed);
        // SAFETY: it was not put anywhere.
        put.map(|_| ())
            .map_err(|_| *unsafe { Box::from_raw(lines) })
    }
}

/// Calls `f` with memory of at least `bytes` bytes, initialised to anything and aligned to a line. It comes from this
/// thread's store or from that of all, or from the heap where there is none or, as the thread exits, no store any more.
pub(crate) fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let needed = bytes.div_ceil(LINE);
    if needed > OWN_LINES {
        return with_shared(needed, f);
    }
    // The inner level is found first, then empty: a call inside `f` gets what this one leaves.
    let [mut lines, inner] = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let _ = SCRATCH.try_with(|store| store.set([inner, Vec::new()]));
    if lines.len() < needed {
        lines = vec![Line::ZERO; needed];
    }
    let result = f(lines.as_mut_ptr().cast());
    // A thread that is exiting has no store any more: the memory is freed instead.
    let [inner, _] = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let _ = SCRATCH.try_with(|store| store.set([lines, inner]));
    result
}

fn with_shared<R>(needed: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let mut lines = SHELF.iter().find_map(Place::take).unwrap_or_default();
    if lines.len() < needed {
        // Before there is more: both at once would be the most that is ever taken.
        drop(lines);
        lines = vec![Line::ZERO; needed];
    }
    let result = f(lines.as_mut_ptr().cast());
    if lines.len() <= KEPT_LINES {
        // Where every place is taken, it is given back.
        let _ = SHELF
            .iter()
            .try_fold(lines, |lines, place| place.put(lines).err());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_aligned_and_nests() {
        with_scratch(1000, |outer| {
            assert_eq!(outer.addr() % 64, 0);
            // SAFETY: 1000 bytes may be written; the inner scratch is other memory.
            unsafe { outer.write_bytes(1, 1000) };
            with_scratch(2000, |inner| {
                assert_ne!(inner, outer);
                // SAFETY: 2000 bytes may be written.
                unsafe { inner.write_bytes(2, 2000) };
            });
            // SAFETY: it was written above.
            assert_eq!(unsafe { *outer.add(999) }, 1);
        });
    }

    #[test]
    fn it_is_kept_between_calls() {
        let first = with_scratch(4096, |memory| memory.addr());
        let second = with_scratch(64, |memory| memory.addr());
        assert_eq!(first, second);
    }

    #[test]
    fn large_scratch_nests_and_is_for_one_at_a_time() {
        let bytes = 2 * OWN_LINES * LINE;
        with_scratch(bytes, |outer| {
            assert_eq!(outer.addr() % 64, 0);
            // SAFETY: so many bytes may be written; the inner scratch is other memory.
            unsafe { outer.write_bytes(1, bytes) };
            with_scratch(bytes, |inner| {
                assert_ne!(inner, outer);
                // SAFETY: as above.
                unsafe { inner.write_bytes(2, bytes) };
            });
            // SAFETY: it was written above.
            assert_eq!(unsafe { *outer.add(bytes - 1) }, 1);
        });
        let work = |own: u8| {
            for _ in 0..100 {
                with_scratch(bytes, |memory| {
                    // SAFETY: so many bytes may be written, and then read.
                    let memory = unsafe {
                        memory.write_bytes(own, bytes);
                        std::slice::from_raw_parts(memory.cast_const(), bytes)
                    };
                    std::thread::yield_now();
                    assert!(memory.iter().all(|&byte| byte == own));
                });
            }
        };
        std::thread::scope(|scope| {
            for own in 0..4 {
                scope.spawn(move || work(own));
            }
        });
    }
}
