//! Working memory of kernels: the only place of the crate that asks for as much as shapes say.
//!
//! Shapes come from files and requests. So sizes are multiplied checked, memory is asked for in a way that can be
//! refused, and what cannot be had ends the op, not the process: [`NoRoom`].

use std::cell::Cell;
use std::ops::{Add, Mul};
use std::panic::resume_unwind;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::given_up;
use crate::options::physical_memory;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Floats of a cache line.
pub(crate) const FLOATS_OF_A_LINE: usize = LINE / size_of::<f32>();

/// A cache line, so that scratch is aligned for every vector.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[allow(dead_code, reason = "space")] [u8; LINE]);

impl Line {
    pub(crate) const ZERO: Line = Line([0; LINE]);
}

/// How many numbers a kernel needs room for: sums and products of sizes, which are no number if they are more than a
/// `usize` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(Option<usize>);

impl Count {
    /// As many as this size, which is neither a product nor a sum of others.
    pub(crate) const fn of(size: usize) -> Count {
        Count(Some(size))
    }

    /// Rounded up to a multiple, which is not zero.
    pub(crate) fn rounded_to(self, multiple: usize) -> Count {
        Count(
            self.0
                .and_then(|size| size.checked_next_multiple_of(multiple)),
        )
    }

    /// As it is where there is memory for it; else the op ends.
    pub(crate) fn here(self) -> usize {
        self.0.unwrap_or_else(|| refuse(None))
    }

    /// As it is, unless it is more than can be counted.
    pub(crate) fn known(self) -> Option<usize> {
        self.0
    }

    fn bytes(self, each: usize) -> Option<usize> {
        self.0?.checked_mul(each)
    }
}

impl Mul<usize> for Count {
    type Output = Count;
    fn mul(self, size: usize) -> Count {
        Count(self.0.and_then(|count| count.checked_mul(size)))
    }
}

impl Add for Count {
    type Output = Count;
    fn add(self, other: Count) -> Count {
        Count(self.0.and_then(|count| count.checked_add(other.0?)))
    }
}

impl Add<usize> for Count {
    type Output = Count;
    fn add(self, size: usize) -> Count {
        self + Count::of(size)
    }
}

/// Why an op ended that there was no working memory for. It unwinds to whoever executes the op, as a panic does but
/// without a word of the panic hook, and becomes the op's fault there.
#[derive(Debug)]
pub(crate) struct NoRoom {
    bytes: Option<usize>,
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bytes {
            Some(bytes) => write!(f, "there is no memory for the {bytes} bytes it works in"),
            None => f.write_str("it works in more memory than can be counted"),
        }
    }
}

#[cold]
fn refuse(bytes: Option<usize>) -> ! {
    resume_unwind(Box::new(NoRoom { bytes }))
}

/// Room for so many more, if it can be had. A system may promise more memory than the machine has, and end the process
/// that uses it; so nothing is asked for that is larger than that.
#[allow(clippy::disallowed_methods, reason = "it is the fallible way")]
pub(crate) fn reserve<T>(values: &mut Vec<T>, count: Count) {
    let bytes = count.bytes(size_of::<T>());
    match (count.0, bytes) {
        (Some(count), Some(bytes)) => {
            let large = bytes > LARGE && bytes > physical_memory();
            if large || values.try_reserve_exact(count).is_err() {
                refuse(Some(bytes));
            }
        }
        _ => refuse(None),
    }
}

/// Smaller pieces of memory every machine has.
const LARGE: usize = 1 << 28;

/// So many of one value.
#[allow(clippy::disallowed_methods, reason = "there is room")]
pub(crate) fn filled<T: Clone>(value: T, count: Count) -> Vec<T> {
    /// So many are written before it is asked whether anybody still wants them.
    const AT_ONCE: usize = 1 << 22;
    let (mut values, count) = (with_room(count), count.here());
    while values.len() < count {
        given_up::check();
        values.resize(count.min(values.len() + AT_ONCE), value.clone());
    }
    values
}

/// An empty list with room for so many.
pub(crate) fn with_room<T>(count: Count) -> Vec<T> {
    let mut values = Vec::new();
    reserve(&mut values, count);
    values
}

/// All that there are.
pub(crate) fn list<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut values = Vec::new();
    extend(&mut values, items);
    values
}

/// Adds all that there are.
#[allow(clippy::disallowed_methods, reason = "there is room")]
pub(crate) fn extend<T>(values: &mut Vec<T>, items: impl ExactSizeIterator<Item = T>) {
    reserve(values, Count::of(items.len()));
    values.extend(items);
}

/// Adds one at the end.
#[inline(always)]
pub(crate) fn push<T>(values: &mut Vec<T>, value: T) {
    if values.len() == values.capacity() {
        // Twice as many, so that each is moved a few times at most.
        reserve(values, Count::of(values.len().max(4)));
    }
    values.push(value);
}

/// At least so many floats, as many that rows of them begin in all sets of a cache.
pub(crate) fn odd_lines(floats: usize) -> usize {
    let line = LINE / size_of::<f32>();
    (floats.div_ceil(line) | 1) * line
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

/// Bytes of scratch memory that is not a thread's own.
static SHARED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of scratch memory, used or on the shelf, without the little that is a thread's own.
pub(crate) fn bytes() -> usize {
    SHARED.load(Ordering::Relaxed)
}

/// Scratch memory that is not a thread's own, counted.
#[derive(Default)]
struct Piece(Vec<Line>);

impl Piece {
    fn of(lines: usize) -> Piece {
        let lines = filled(Line::ZERO, Count::of(lines));
        SHARED.fetch_add(size_of_val(&*lines), Ordering::Relaxed);
        Piece(lines)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        SHARED.fetch_sub(size_of_val(&*self.0), Ordering::Relaxed);
    }
}

/// Room for memory that nobody uses.
struct Place(AtomicPtr<Piece>);

impl Place {
    fn take(&self) -> Option<Piece> {
        if self.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let lines = self.0.swap(null_mut(), Ordering::Acquire);
        // SAFETY: what is not null was put here by `put`, and whoever takes it owns it.
        (!lines.is_null()).then(|| *unsafe { Box::from_raw(lines) })
    }

    /// Gives it back if there is something already.
    fn put(&self, lines: Piece) -> Result<(), Piece> {
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

/// Memory to work in, until it is given back. What unwinds frees it.
enum Lines {
    Own(Vec<Line>),
    Shared(Piece),
}

impl Lines {
    /// From this thread's store or from that of all, or from the heap where there is none or, as the thread exits, no store
    /// any more.
    fn take(needed: usize) -> Lines {
        if needed > OWN_LINES {
            let mut piece = SHELF.iter().find_map(Place::take).unwrap_or_default();
            if piece.0.len() < needed {
                // Before there is more: both at once would be the most that is ever taken.
                drop(piece);
                piece = Piece::of(needed);
            }
            return Lines::Shared(piece);
        }
        // The inner level is found first, then empty: a call inside gets what this one leaves.
        let [mut lines, inner] = SCRATCH.try_with(Cell::take).unwrap_or_default();
        let _ = SCRATCH.try_with(|store| store.set([inner, Vec::new()]));
        if lines.len() < needed {
            lines = filled(Line::ZERO, Count::of(needed));
        }
        Lines::Own(lines)
    }

    fn start(&mut self) -> *mut Line {
        match self {
            Lines::Own(lines) => lines.as_mut_ptr(),
            Lines::Shared(piece) => piece.0.as_mut_ptr(),
        }
    }

    fn give_back(self) {
        match self {
            // A thread that is exiting has no store any more: the memory is freed instead.
            Lines::Own(lines) => {
                let [inner, _] = SCRATCH.try_with(Cell::take).unwrap_or_default();
                let _ = SCRATCH.try_with(|store| store.set([lines, inner]));
            }
            Lines::Shared(piece) if piece.0.len() <= KEPT_LINES => {
                // Where every place is taken, it is freed.
                let _ = SHELF
                    .iter()
                    .try_fold(piece, |piece, place| place.put(piece).err());
            }
            Lines::Shared(_) => {}
        }
    }
}

/// Calls `f` with room for so many numbers, initialised to anything and aligned to a line.
pub(crate) fn with_scratch<T, R>(count: Count, f: impl FnOnce(*mut T) -> R) -> R {
    const { assert!(align_of::<T>() <= LINE) };
    let bytes = count.bytes(size_of::<T>()).unwrap_or_else(|| refuse(None));
    let mut lines = Lines::take(bytes.div_ceil(LINE));
    let result = f(lines.start().cast());
    lines.give_back();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_aligned_and_nests() {
        with_scratch(Count::of(1000), |outer: *mut u8| {
            assert_eq!(outer.addr() % 64, 0);
            // SAFETY: 1000 bytes may be written; the inner scratch is other memory.
            unsafe { outer.write_bytes(1, 1000) };
            with_scratch(Count::of(2000), |inner: *mut u8| {
                assert_ne!(inner, outer);
                // SAFETY: 2000 bytes may be written.
                unsafe { inner.write_bytes(2, 2000) };
            });
            // SAFETY: it was written above.
            assert_eq!(unsafe { *outer.add(999) }, 1);
        });
    }

    /// Why the call ended, if it did.
    fn refused<R>(call: impl FnOnce() -> R) -> Option<String> {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        let panic = outcome.err()?;
        Some(panic.downcast_ref::<NoRoom>()?.to_string())
    }

    #[test]
    fn what_cannot_be_had_or_counted_ends_the_call() {
        let most = Count::of(usize::MAX);
        for count in [
            most * 2,
            most + 1,
            Count::of(1 << 62) * 4,
            most.rounded_to(64),
            most,
        ] {
            let told = refused(|| with_scratch(count, |_: *mut u32| ()));
            assert!(told.unwrap().contains("more memory than can be counted"));
        }
        // A machine with so much memory is not built yet, though a system may promise it.
        let much = Count::of(1 << 50);
        let told = "there is no memory for the 1125899906842624 bytes it works in";
        assert_eq!(
            refused(|| with_scratch(much, |_: *mut u8| ())).as_deref(),
            Some(told)
        );
        assert_eq!(refused(|| filled(0u8, much)).as_deref(), Some(told));
        assert_eq!(refused(|| with_room::<u8>(much)).as_deref(), Some(told));
        // The thread's own store is as it was.
        assert_eq!(
            refused(|| with_scratch(Count::of(10), |_: *mut u8| ())),
            None
        );
    }

    #[test]
    fn lists_grow_by_one() {
        let mut numbers = with_room(Count::of(0));
        (0..1000).for_each(|number| push(&mut numbers, number));
        assert_eq!(numbers, list(0..1000));
    }

    #[test]
    fn it_is_kept_between_calls() {
        let first = with_scratch(Count::of(4096), |memory: *mut u8| memory.addr());
        let second = with_scratch(Count::of(64), |memory: *mut u8| memory.addr());
        assert_eq!(first, second);
    }

    #[test]
    fn large_scratch_nests_and_is_for_one_at_a_time() {
        let bytes = 2 * OWN_LINES * LINE;
        with_scratch(Count::of(bytes), |outer: *mut u8| {
            assert_eq!(outer.addr() % 64, 0);
            // SAFETY: so many bytes may be written; the inner scratch is other memory.
            unsafe { outer.write_bytes(1, bytes) };
            with_scratch(Count::of(bytes), |inner: *mut u8| {
                assert_ne!(inner, outer);
                // SAFETY: as above.
                unsafe { inner.write_bytes(2, bytes) };
            });
            // SAFETY: it was written above.
            assert_eq!(unsafe { *outer.add(bytes - 1) }, 1);
        });
        let work = |own: u8| {
            for _ in 0..100 {
                with_scratch(Count::of(bytes), |memory: *mut u8| {
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
