//! What both forms of a convolution have in common.

use streampool_device::{Activation, Conv, DType};

/// What the text of a convolution depends on besides its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ends {
    pub dtype: DType,
    pub activation: Activation,
    pub bias: bool,
    pub transposed: bool,
}

impl Ends {
    /// That of an op.
    pub(super) fn of(op: &Conv) -> Ends {
        Ends {
            dtype: op.src.dtype(),
            activation: op.activation,
            bias: op.bias.is_some(),
            transposed: op.transposed,
        }
    }
}
