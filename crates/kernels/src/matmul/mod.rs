//! Matrix products.
//!
//! Five forms. [`Tiled`] takes every product: tiles of both operands in shared memory. [`Dots`] and [`Sums`]
//! take those with few rows, where the time is that of reading the second operand once: the one when its
//! columns are dense, as the weights of a linear layer are, the other when its rows are. [`Split`] multiplies `f32` on
//! tensor cores, and [`Blocks`] floats by the matrices of Apple's simdgroups.

mod blocks;
mod dots;
mod matrices;
mod problem;
mod shared_text;
mod small;
mod split;
mod sums;
mod tiled;

#[cfg(test)]
mod tests;

use streampool_device::{Activation, DType, MatMul};

use crate::text::{Dialect, KernelText};
use crate::{Limits, Plan};

pub use blocks::Blocks;
pub use dots::Dots;
pub use split::Split;
pub use sums::Sums;
pub use tiled::Tiled;

use problem::Problem;
use small::Rival;

/// A kernel that multiplies matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// Any product.
    Tiled(Tiled),
    /// Few rows, and a second operand with dense columns.
    Dots(Dots),
    /// Few rows, and a second operand with dense rows.
    Sums(Sums),
    /// `f32` on tensor cores.
    Split(Split),
    /// Floats by the matrices of simdgroups.
    Blocks(Blocks),
}

/// What the text of a product depends on besides its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The type of the factors.
    pub dtype: DType,
    /// The type of the result and of the bias.
    pub result: DType,
    /// What is applied last.
    pub activation: Activation,
    /// Whether something is added.
    pub bias: bool,
}

impl Product {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        match self {
            Product::Tiled(kernel) => kernel.text(dialect),
            Product::Dots(kernel) => Some(kernel.text()),
            Product::Sums(kernel) => Some(kernel.text()),
            Product::Split(kernel) => kernel.text(dialect),
            Product::Blocks(kernel) => kernel.text(dialect),
        }
    }
}

impl Ends {
    fn of(op: &MatMul) -> Ends {
        Ends {
            dtype: op.a.dtype(),
            result: op.out.dtype(),
            activation: op.activation,
            bias: op.bias.is_some(),
        }
    }
}

/// The launches that execute `op`, which was validated.
pub(crate) fn matmul(op: &MatMul, limits: &Limits) -> Plan {
    let Some(problem) = Problem::of(op) else {
        return Plan::default();
    };
    small::plan(op, &problem, limits, Rival::Tiled)
        .unwrap_or_else(|| tiled::plan(op, &problem, limits))
}

/// The launch that executes `op`, which was validated, where a kernel made for few rows is expected to be
/// faster than a vendor's library.
pub fn small_product(op: &MatMul, limits: &Limits) -> Option<Plan> {
    small::plan(op, &Problem::of(op)?, limits, Rival::Library).filter(Plan::fits)
}

/// The launch that executes `op`, which was validated, on tensor cores that multiply TF32; `None` if it is not of `f32`
/// or not laid out for them. It is as exact as `f32` is.
pub fn split_product(op: &MatMul, limits: &Limits) -> Option<Plan> {
    split::plan(op, &Problem::of(op)?, limits).filter(Plan::fits)
}

/// The launch that executes `op` on a GPU of Apple's whose simdgroups multiply matrices; `None` if that is no gain.
pub(crate) fn simdgroup_product(op: &MatMul, limits: &Limits) -> Option<Plan> {
    blocks::plan(op, &Problem::of(op)?, limits)
}
