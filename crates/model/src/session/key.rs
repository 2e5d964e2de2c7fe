//! What a plan was made for.

use streampool_device::{DType, Layout, Span};
use streampool_tensor::Tensor;

use super::input::Input;
use crate::error::Result;
use crate::evaluate::Value;
use crate::graph::ValueId;
use crate::trace::{Given, Kind};

/// What is given to one part of a model, as far as its plan depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// A tensor of this kind.
    Kind(Kind),
    /// A value the plan was made for: its kind and its bytes.
    Value(Kind, Box<[u8]>),
    /// A large value the plan was made for, by where it is and how its elements lie there.
    Place(Kind, Span, Layout),
    /// Several.
    Several(Vec<KeyPart>),
}

/// From which node on, and what is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The first node.
    pub start: usize,
    /// What is given, in order.
    pub given: Vec<KeyPart>,
}

/// Known values of up to this many bytes are compared, larger ones are told apart by their place.
const COMPARED: usize = 1 << 12;

impl Key {
    /// That of what is given from node `start` on.
    pub fn of(start: usize, given: &[(ValueId, Given)]) -> Result<Key> {
        let given = given.iter().map(|(_, given)| match given {
            Given::Input(kind) => Ok(KeyPart::Kind(kind.clone())),
            Given::Known(value) => KeyPart::known(value),
        });
        Ok(Key {
            start,
            given: given.collect::<Result<_>>()?,
        })
    }
}

impl Key {
    /// Those of the inputs of the whole model that are given anew at each run.
    pub fn bound<'i, 'a>(&'i self, inputs: &'i [Input<'a>]) -> impl Iterator<Item = &'i Input<'a>> {
        let each = self.given.iter().zip(inputs);
        each.filter(|(part, _)| matches!(part, KeyPart::Kind(_)))
            .map(|(_, input)| input)
    }
}

impl KeyPart {
    fn known(value: &Value) -> Result<KeyPart> {
        match value {
            Value::Tensor(tensor) => KeyPart::known_tensor(tensor),
            several => {
                let parts = several.tensors().iter().map(KeyPart::known_tensor);
                Ok(KeyPart::Several(parts.collect::<Result<_>>()?))
            }
        }
    }

    fn known_tensor(tensor: &Tensor) -> Result<KeyPart> {
        let kind = Kind::of(tensor);
        if kind.bytes() <= COMPARED {
            return Ok(KeyPart::Value(kind, tensor.to_bytes()?.into()));
        }
        Ok(KeyPart::Place(
            kind,
            tensor.buffer().span(),
            *tensor.layout(),
        ))
    }

    /// Whether an input of this type and shape, with these bytes where the plan depends on them, is what it was made for.
    pub fn fits(&self, dtype: DType, shape: &[usize], bytes: Option<&[u8]>) -> bool {
        match (self, bytes) {
            (KeyPart::Kind(kind), None) => kind.dtype == dtype && kind.shape == shape,
            (KeyPart::Value(kind, own), Some(bytes)) => {
                kind.dtype == dtype && kind.shape == shape && **own == *bytes
            }
            _ => false,
        }
    }
}
