//! What depends on the values there are: counts, and the places of what is not zero.

mod histogram;
mod nonzero;
#[cfg(test)]
mod tests;

pub(crate) use histogram::histogram;
pub(crate) use nonzero::nonzero;

use smallvec::SmallVec;

use crate::dispatch::grid;
use crate::text::{Dialect, KernelText};
use crate::{Dispatch, Kernel, Operand, Params};

/// Threads in each group.
const THREADS: u32 = 256;

/// A kernel that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tally {
    /// Sums that nothing was added to yet.
    Clear(histogram::Sum),
    /// What elements of a part of the source add to the bins.
    Add(histogram::Adding),
    /// The bins of all parts.
    Finish(histogram::Finishing),
    /// How many elements of each part are not zero, or where they are.
    Places(nonzero::Places),
}

impl Tally {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        match self {
            Tally::Clear(sum) => sum.clear_text(dialect),
            Tally::Add(kernel) => kernel.text(dialect),
            Tally::Finish(kernel) => kernel.text(dialect),
            Tally::Places(kernel) => Some(kernel.text()),
        }
    }
}

fn dispatch(kernel: Tally, groups: usize, operands: &[Operand], params: Params) -> Dispatch {
    Dispatch {
        kernel: Kernel::Tally(kernel),
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: SmallVec::from_slice(operands),
        params,
    }
}
