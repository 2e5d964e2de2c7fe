//! Softmax and its logarithm.

use streampool_device::View;

use super::dims::{Dim, Dims};
use super::line::{Launch, Line, Sums};
use crate::dispatch::{Limits, Plan};
use crate::text::{Dialect, KernelText};

/// A kernel that computes the softmax of rows, or its logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Softmax {
    pub(super) line: Line,
    log: bool,
}

/// The launch of `dst = softmax(src)` along `axis`, or of its logarithm.
pub(super) fn softmax<K>(
    src: &View,
    dst: &View,
    axis: usize,
    log: bool,
    limits: &Limits,
    kind: impl FnOnce(Softmax) -> K,
) -> Plan<K> {
    let (from, to) = (src.layout().strides(), dst.layout().strides());
    let dim = |axis: usize| Dim {
        size: src.shape()[axis],
        strides: [from[axis], to[axis]],
    };
    let others = (0..src.shape().len()).filter(|&other| other != axis);
    let rows = Dims::collapsed(others.map(dim));
    let inner = Dims::collapsed([dim(axis)].into_iter());
    let Some(launch) = Launch::new(
        &rows,
        &inner,
        [Some(src), Some(dst)],
        Sums::default(),
        limits,
    ) else {
        return Plan::default();
    };
    let line = launch.line;
    launch.plan(kind(Softmax { line, log }), |params| params)
}

impl Softmax {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let (line, ty) = (&self.line, self.line.ty());
        let (term, result) = match (self.log, line.holds()) {
            (true, _) => ("value = m_exp(x - top);", "value = x - top - shift;"),
            (false, true) => ("x = value = m_exp(x - top);", "value = x * scale;"),
            (false, false) => ("value = m_exp(x - top);", "value = m_exp(x - top) * scale;"),
        };
        let divisor = if self.log {
            format!("    const {ty} shift = m_log(sum);\n")
        } else {
            format!("    const {ty} scale = {ty}(1) / sum;\n")
        };
        let body = [
            line.open(),
            line.fold("top", "Largest", line.lowest(), "value = x;"),
            line.fold("sum", "Sum", "0", term),
            divisor,
            line.write(&[], "", result),
        ];
        line.text(
            dialect,
            "softmax",
            &["src", "dst"],
            Vec::new(),
            Vec::new(),
            body.concat(),
        )
    }
}
