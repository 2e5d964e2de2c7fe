//! Launches that count.

use smallvec::SmallVec;

use crate::dispatch::{Dispatch, Operand, Params, grid};

/// Threads in each group.
pub(super) const THREADS: u32 = 256;

/// A launch of so many groups.
pub(super) fn dispatch<K>(
    kernel: K,
    groups: usize,
    operands: &[Operand],
    params: Params,
) -> Dispatch<K> {
    Dispatch {
        kernel,
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: SmallVec::from_slice(operands),
        params,
    }
}
