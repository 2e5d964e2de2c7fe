//! Rows at a time: reductions, softmax, normalisation.

pub(crate) mod dims;
mod line;
mod norm;
pub(crate) mod packs;
mod reduce;
mod softmax;
mod team;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use norm::norm;
pub(crate) use reduce::reduce;
pub(crate) use softmax::softmax;

use crate::text::{Dialect, KernelText};

/// A kernel that works on rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Reduces each to one element.
    Reduce(reduce::Reduction),
    /// The softmax of each, or its logarithm.
    Softmax(softmax::Softmax),
    /// Normalises each.
    Norm(norm::Normalisation),
}

impl Rows {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        match self {
            Rows::Reduce(kernel) => kernel.text(dialect),
            Rows::Softmax(kernel) => kernel.text(dialect),
            Rows::Norm(kernel) => kernel.text(dialect),
        }
    }
}
