//! Each thread's working memory: taken for a call, given back after it, grown only by the largest.

use std::cell::Cell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Bytes of a cache line; every buffer begins at one.
pub(super) const LINE: usize = 64;

/// More than this is not kept after the call that needed it.
const KEPT: usize = 1 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with at least `bytes` initialised bytes, aligned to a cache line.
pub(super) fn with<R>(bytes: usize, work: impl FnOnce(*mut u8) -> R) -> R {
    // While the thread ends its memory may be gone already, and a nested call finds none: both allocate.
    let mut lines = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let wanted = bytes.div_ceil(LINE);
    if lines.len() < wanted {
        lines.resize(wanted, Line([0; LINE]));
    }
    let result = work(lines.as_mut_ptr().cast());
    if lines.len() <= KEPT / LINE {
        // At the end of the thread there is nobody to keep it for.
        let _ = SCRATCH.try_with(|scratch| scratch.set(lines));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_calls_have_memory_of_their_own() {
        with(1000, |outer| {
            with(1000, |inner| {
                assert!(outer.addr().abs_diff(inner.addr()) >= 1000);
                assert!(outer.addr() % LINE == 0 && inner.addr() % LINE == 0);
            });
        });
    }

    #[test]
    fn the_same_memory_serves_again() {
        let first = with(4096, |memory| memory.addr());
        assert_eq!(with(64, |memory| memory.addr()), first);
    }
}
