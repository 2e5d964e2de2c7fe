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

use streampool_device::{Axes, Norm, ReduceKind, View};

use crate::dispatch::{Limits, Plan};
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

/// The launches of `dst = kind(src)` over `axes`.
pub(crate) fn reduce<K: From<Rows>>(
    kind: ReduceKind,
    src: &View,
    dst: &View,
    axes: Axes,
    limits: &Limits,
) -> Plan<K> {
    let wrap = |kernel| Rows::Reduce(kernel).into();
    reduce::reduce(kind, src, dst, axes, limits, wrap)
}

/// The launch of `dst = softmax(src)` along `axis`, or of its logarithm.
pub(crate) fn softmax<K: From<Rows>>(
    src: &View,
    dst: &View,
    axis: usize,
    log: bool,
    limits: &Limits,
) -> Plan<K> {
    let kind = |kernel| Rows::Softmax(kernel).into();
    softmax::softmax(src, dst, axis, log, limits, kind)
}

/// The launch of a normalisation.
pub(crate) fn norm<K: From<Rows>>(op: &Norm, limits: &Limits) -> Plan<K> {
    norm::norm(op, limits, |kernel| Rows::Norm(kernel).into())
}
