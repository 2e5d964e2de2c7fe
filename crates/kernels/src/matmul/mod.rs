//! Matrix products.
//!
//! Eight forms. [`Tiled`] takes every product: tiles of both operands in shared memory. [`Dots`] and [`Sums`]
//! take those with few rows, where the time is that of reading the second operand once: the one when its
//! columns are dense, as the weights of a linear layer are, the other when its rows are. [`Split`] multiplies `f32` on
//! tensor cores and [`Short`] `f16` and `bf16`, on Hopper [`Warpgroup`] and [`Fetched`], and [`Blocks`] floats by the matrices of Apple's simdgroups.

mod blocks;
mod dots;
mod ends;
mod fetched;
mod few_rows;
mod matrices;
mod problem;
mod shared_text;
mod short;
mod small;
mod split;
mod sums;
mod tiled;
mod warpgroup;
mod windows;

#[cfg(test)]
mod tests;

use streampool_device::{Conv, MatMul};

use crate::dispatch::{Limits, Plan};
use crate::text::{Dialect, KernelText};

pub use blocks::Blocks;
pub use dots::Dots;
pub use fetched::Fetched;
pub use short::{RESIDENT_THREADS, Short};
pub use split::Split;
pub use sums::Sums;
pub use tiled::Tiled;
pub use warpgroup::Warpgroup;

use problem::Problem;
use small::{Rival, Small};

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
    /// `f32` on tensor cores of Hopper.
    Warpgroup(Warpgroup),
    /// `f16` and `bf16` on tensor cores of Hopper.
    Fetched(Fetched),
    /// `f16` and `bf16` on tensor cores, in small tiles.
    Short(Short),
    /// Floats by the matrices of simdgroups.
    Blocks(Blocks),
}

impl Product {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        match self {
            Product::Tiled(kernel) => kernel.text(dialect),
            Product::Dots(kernel) => Some(kernel.text()),
            Product::Sums(kernel) => Some(kernel.text()),
            Product::Split(kernel) => kernel.text(dialect),
            Product::Warpgroup(kernel) => kernel.text(dialect),
            Product::Fetched(kernel) => kernel.text(dialect),
            Product::Short(kernel) => kernel.text(dialect),
            Product::Blocks(kernel) => kernel.text(dialect),
        }
    }
}

impl From<Small> for Product {
    fn from(kernel: Small) -> Product {
        match kernel {
            Small::Dots(kernel) => Product::Dots(kernel),
            Small::Sums(kernel) => Product::Sums(kernel),
        }
    }
}

/// The launches that execute `op`, which was validated.
pub(crate) fn matmul<K: From<Product>>(op: &MatMul, limits: &Limits) -> Plan<K> {
    let Some(problem) = Problem::of(op) else {
        return Plan::default();
    };
    let tiled = |kernel| Product::Tiled(kernel).into();
    small::plan(op, &problem, limits, Rival::Tiled, product)
        .unwrap_or_else(|| tiled::plan(op, &problem, limits, tiled))
}

/// The launch of a form for few rows, where that is expected to be faster than a vendor's library.
pub(crate) fn small_product<K: From<Product>>(op: &MatMul, limits: &Limits) -> Option<Plan<K>> {
    small::plan(op, &Problem::of(op)?, limits, Rival::Library, product)
}

/// The launch on tensor cores.
pub(crate) fn tensor_core_product<K: From<Product>>(
    op: &MatMul,
    limits: &Limits,
) -> Option<Plan<K>> {
    let problem = Problem::of(op)?;
    let split = |kernel| Product::Split(kernel).into();
    split::plan(op, &problem, limits, split).or_else(|| short_product(op, &problem, limits, false))
}

/// The launch that takes the place of that on tensor cores where many streams share the device, if that is another.
pub(crate) fn product_of_many<K: From<Product>>(op: &MatMul, limits: &Limits) -> Option<Plan<K>> {
    short_product(op, &Problem::of(op)?, limits, true)
}

/// The launch on Hopper's tensor cores; of a stream among `many`, if that is another.
pub(crate) fn warpgroup_product<K: From<Product>>(
    op: &MatMul,
    limits: &Limits,
    many: bool,
) -> Option<Plan<K>> {
    let problem = Problem::of(op)?;
    let warpgroup = |kernel| Product::Warpgroup(kernel).into();
    let fetched = |kernel| Product::Fetched(kernel).into();
    warpgroup::plan(op, &problem, limits, many, warpgroup)
        .or_else(|| fetched::plan(op, &problem, limits, many, fetched))
}

/// The launch of a convolution on Hopper's tensor cores; of a stream among `many`, if that is another.
pub(crate) fn warpgroup_conv<K: From<Product>>(
    op: &Conv,
    limits: &Limits,
    many: bool,
) -> Option<Plan<K>> {
    warpgroup::of_windows(op, limits, many, |kernel| Product::Warpgroup(kernel).into())
}

fn short_product<K: From<Product>>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    many: bool,
) -> Option<Plan<K>> {
    let short = |kernel| Product::Short(kernel).into();
    short::plan(op, problem, limits, many, short)
}

/// The launch that executes `op` on a GPU of Apple's whose simdgroups multiply matrices; `None` if that is no gain.
pub(crate) fn simdgroup_product<K: From<Product>>(op: &MatMul, limits: &Limits) -> Option<Plan<K>> {
    let blocks = |kernel| Product::Blocks(kernel).into();
    blocks::plan(op, &Problem::of(op)?, limits, blocks)
}

fn product<K: From<Product>>(kernel: Small) -> K {
    Product::from(kernel).into()
}
