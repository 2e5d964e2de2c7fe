//! What a name of a graph stands for.

use streampool_tensor::Tensor;

use crate::error::NodeError;

/// Values, in order.
pub type Values = Result<Vec<Value>, NodeError>;

/// A value while a graph is evaluated.
#[derive(Clone)]
pub enum Value {
    /// As nearly all are.
    Tensor(Tensor),
    /// Several tensors, which need not be alike.
    Sequence(Vec<Tensor>),
    /// An optional value that is not there.
    Nothing,
}

impl Value {
    /// The tensor that it has to be.
    pub fn tensor(&self) -> Result<&Tensor, NodeError> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            Value::Sequence(_) => Err(NodeError::malformed("a value", "a sequence", "a tensor")),
            Value::Nothing => Err(NodeError::malformed(
                "a value",
                "an empty optional",
                "a tensor",
            )),
        }
    }

    /// The tensors it holds.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Value::Tensor(tensor) => std::slice::from_ref(tensor),
            Value::Sequence(tensors) => tensors,
            Value::Nothing => &[],
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}
