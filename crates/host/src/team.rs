//! The threads one op may use.

/// Splits the work of one op over threads. Kernels see only this.
pub(crate) trait Team: Sync {
    /// How many threads may work at the same time, the caller included.
    fn width(&self) -> usize;

    /// Calls `work` once with each number below `parts`, on this and other threads, and returns when all
    /// calls have returned. It never runs anything else meanwhile.
    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
pub(crate) struct Solo;

impl Team for Solo {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..parts).for_each(work);
    }
}
