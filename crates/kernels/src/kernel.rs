//! The kernels that there are, and which of them execute an op.

use smallvec::{SmallVec, smallvec};
use streampool_device::Op;

use crate::elementwise::{self, Elementwise};
use crate::matmul::{self, Product};
use crate::rows::{self, Rows};
use crate::text::{Dialect, KernelText, Source};
use crate::{Dispatch, Limits, Params, Plan};

/// A kernel: equal ones have equal text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Does nothing.
    Nop,
    /// Each element by itself: copies, constants, sequences, fused expressions.
    Elementwise(Elementwise),
    /// Rows at a time: reductions, softmax, normalisation.
    Rows(Rows),
    /// Matrix products.
    Product(Product),
}

impl Kernel {
    /// Its text in `dialect`; `None` where the dialect lacks a type that the kernel works on.
    pub fn source(&self, dialect: Dialect) -> Option<Source> {
        let text = match self {
            Kernel::Nop => Some(KernelText {
                entry: "nop",
                ..KernelText::default()
            }),
            Kernel::Elementwise(kernel) => kernel.text(dialect),
            Kernel::Rows(kernel) => kernel.text(dialect),
            Kernel::Product(kernel) => kernel.text(dialect),
        };
        Some(text?.render(dialect))
    }
}

/// The launches that execute `op`, which was [validated](Op::validate); `None` if there is no kernel for it.
/// A plan without launches is right for an op on no elements.
pub fn lower(op: &Op, limits: &Limits) -> Option<Plan> {
    match op {
        Op::Nop => Some(Plan {
            dispatches: smallvec![Dispatch {
                kernel: Kernel::Nop,
                groups: [1; 3],
                threads: 32,
                operands: SmallVec::new(),
                params: Params::new(),
            }],
            scratch: 0,
        }),
        Op::Copy { src, dst } => Some(elementwise::copy(src, dst, limits)),
        Op::Fill { dst, value } => Some(elementwise::fill(dst, *value, limits)),
        Op::Iota { dst, start, step } => Some(elementwise::iota(dst, *start, *step, limits)),
        Op::Map {
            expr,
            inputs,
            outputs,
        } => elementwise::map(expr, inputs, outputs, limits),
        Op::Reduce {
            kind,
            src,
            dst,
            axes,
        } => Some(rows::reduce(*kind, src, dst, *axes, limits)),
        Op::Softmax {
            src,
            dst,
            axis,
            log,
        } => Some(rows::softmax(src, dst, *axis, *log, limits)),
        Op::Norm(norm) => Some(rows::norm(norm, limits)),
        Op::MatMul(product) => Some(matmul::matmul(product, limits)),
        _ => None,
    }
}
