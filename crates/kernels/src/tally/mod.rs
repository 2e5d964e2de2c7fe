//! What depends on the values there are: counts, and the places of what is not zero.

mod histogram;
mod launch;
mod nonzero;
#[cfg(test)]
mod tests;

use streampool_device::{Histogram, NonZero};

use histogram::Counting;

use crate::dispatch::{Limits, Plan};
use crate::elementwise::Elementwise;
use crate::scan::Scan;
use crate::text::{Dialect, KernelText};

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

impl From<Counting> for Tally {
    fn from(kernel: Counting) -> Tally {
        match kernel {
            Counting::Clear(sum) => Tally::Clear(sum),
            Counting::Add(kernel) => Tally::Add(kernel),
            Counting::Finish(kernel) => Tally::Finish(kernel),
        }
    }
}

/// `dst[b] =` how many elements of `src` lie in bin `b`, or the sum of their weights.
pub(crate) fn histogram<K: From<Tally>>(op: &Histogram, limits: &Limits) -> Plan<K> {
    histogram::histogram(op, limits, |kernel| Tally::from(kernel).into())
}

/// The places of the elements of `src` that are not zero, in row-major order.
pub(crate) fn nonzero<K>(op: &NonZero, limits: &Limits) -> Plan<K>
where
    K: From<Tally> + From<Elementwise> + From<Scan>,
{
    nonzero::nonzero(op, limits, |kernel| Tally::Places(kernel).into())
}
