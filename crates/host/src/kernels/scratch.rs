//! Working memory of a thread, kept from one kernel to the next.

use std::cell::Cell;

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

/// More than this is given back after use.
const KEPT_LINES: usize = (4 << 20) / LINE;

/// Calls `f` with memory of at least `bytes` bytes, initialised to anything and aligned to a line. It comes from this
/// thread's store, or from the heap where that is in use or, as the thread exits, gone.
pub(crate) fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    // The inner level is found first, then empty: a call inside `f` gets what this one leaves.
    let [mut lines, inner] = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let _ = SCRATCH.try_with(|store| store.set([inner, Vec::new()]));
    let needed = bytes.div_ceil(LINE);
    if lines.len() < needed {
        lines = vec![Line::ZERO; needed];
    }
    let result = f(lines.as_mut_ptr().cast());
    // A thread that is exiting has no store any more: the memory is freed instead.
    let [inner, _] = SCRATCH.try_with(Cell::take).unwrap_or_default();
    if lines.len() > KEPT_LINES {
        lines = Vec::new();
    }
    let _ = SCRATCH.try_with(|store| store.set([lines, inner]));
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
}
