//! Convolution and its transpose.
//!
//! Three forms. [`Tiled`] is a product of matrices, of weights and of what the windows see: tiles of both in shared
//! memory. [`Channelwise`] is for depthwise convolutions with small windows: a thread makes a few neighbouring places. [`Direct`] has a
//! thread for each result, for other groups that make so few channels that a tile would be mostly empty. On tensor cores, convolutions of
//! [`patches`] are products of matrices that a copy makes.

mod channelwise;
mod direct;
mod ends;
mod patches;
mod shared_text;
mod tiled;

use streampool_device::{Conv, DType};

use crate::dispatch::{Limits, Plan};
use crate::spatial;
use crate::text::{Dialect, KernelText};

pub use channelwise::Channelwise;
pub use direct::Direct;
pub use patches::{as_product, tensor_core_patches};
pub use tiled::Tiled;

/// A kernel that convolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convolution {
    /// Any convolution.
    Tiled(Tiled),
    /// Few channels made.
    Direct(Direct),
    /// Each channel by itself.
    Channelwise(Channelwise),
}

/// Fewer channels that a group makes are better made one by one.
const LEAST_TILED: usize = 8;

impl Convolution {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let (Convolution::Tiled(Tiled { ends, .. })
        | Convolution::Direct(Direct { ends, .. })
        | Convolution::Channelwise(Channelwise { ends, .. })) = self;
        if dialect == Dialect::Metal && ends.dtype == DType::F64 {
            return None;
        }
        Some(match self {
            Convolution::Tiled(kernel) => kernel.text(),
            Convolution::Direct(kernel) => kernel.text(),
            Convolution::Channelwise(kernel) => kernel.text(),
        })
    }
}

/// The launch of a convolution; `None` if it is one of bytes, or its places are beyond counting.
pub(crate) fn conv<K: From<Convolution>>(op: &Conv, limits: &Limits) -> Option<Plan<K>> {
    if op.is_of_bytes() {
        return None;
    }
    if op.dst.layout().elements() == 0 {
        return Some(Plan::default());
    }
    if !spatial::is_countable(&op.window, [&op.src, &op.dst]) {
        return None;
    }
    if let Some(plan) =
        channelwise::plan(op, limits, |kernel| Convolution::Channelwise(kernel).into())
    {
        return Some(plan);
    }
    match op.dst.shape()[1] / op.groups < LEAST_TILED {
        true => direct::plan(op, |kernel| Convolution::Direct(kernel).into()),
        false => tiled::plan(op, limits, |kernel| Convolution::Tiled(kernel).into()),
    }
}
