//! Convolution and its transpose.
//!
//! Two forms. [`Tiled`] is a product of matrices, of weights and of what the windows see: tiles of both in shared
//! memory. [`Direct`] has a thread for each result, for groups that make so few channels that a tile would be mostly
//! empty, as depthwise convolutions do.

mod direct;
mod shared_text;
mod tiled;

use streampool_device::{Activation, Conv, DType};

use crate::spatial;
use crate::text::{Dialect, KernelText};
use crate::{Limits, Plan};

pub use direct::Direct;
pub use tiled::Tiled;

/// A kernel that convolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convolution {
    /// Any convolution.
    Tiled(Tiled),
    /// Few channels made.
    Direct(Direct),
}

/// What the text of a convolution depends on besides its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ends {
    dtype: DType,
    activation: Activation,
    bias: bool,
    transposed: bool,
}

/// Fewer channels that a group makes are better made one by one.
const LEAST_TILED: usize = 8;

impl Convolution {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let (Convolution::Tiled(Tiled { ends, .. }) | Convolution::Direct(Direct { ends, .. })) =
            self;
        if dialect == Dialect::Metal && ends.dtype == DType::F64 {
            return None;
        }
        Some(match self {
            Convolution::Tiled(kernel) => kernel.text(),
            Convolution::Direct(kernel) => kernel.text(),
        })
    }
}

impl Ends {
    fn of(op: &Conv) -> Ends {
        Ends {
            dtype: op.src.dtype(),
            activation: op.activation,
            bias: op.bias.is_some(),
            transposed: op.transposed,
        }
    }
}

/// The launch of a convolution; `None` if its places are beyond counting.
pub(crate) fn conv(op: &Conv, limits: &Limits) -> Option<Plan> {
    if op.dst.layout().elements() == 0 {
        return Some(Plan::default());
    }
    if !spatial::is_countable(&op.window, [&op.src, &op.dst]) {
        return None;
    }
    match op.dst.shape()[1] / op.groups < LEAST_TILED {
        true => direct::plan(op),
        false => tiled::plan(op, limits),
    }
}
