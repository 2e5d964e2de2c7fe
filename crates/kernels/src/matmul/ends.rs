//! What all forms of a product have in common.

use streampool_device::{Activation, DType, MatMul};

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

impl Ends {
    /// That of an op.
    pub(super) fn of(op: &MatMul) -> Ends {
        Ends {
            dtype: op.a.dtype(),
            result: op.out.dtype(),
            activation: op.activation,
            bias: op.bias.is_some(),
        }
    }
}
