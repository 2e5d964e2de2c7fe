//! What a plan was made for.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use streampool_device::{DType, Layout, Span};
use streampool_tensor::Tensor;

use super::by_value::InputSet;
use super::input::Input;
use crate::error::Result;
use crate::graph::ValueId;
use crate::nodes::Value;
use crate::trace::{Given, TensorKind};

/// What is given to one part of a model, as far as its plan depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// A tensor of this kind.
    Kind(TensorKind),
    /// A sequence of tensors of these kinds.
    Kinds(Vec<TensorKind>),
    /// A value the plan was made for: its kind and its bytes.
    Value(TensorKind, Box<[u8]>),
    /// A large value the plan was made for, by where it is and how its elements lie there.
    Place(TensorKind, Span, Layout),
    /// Several values the plan was made for.
    Several(Vec<KeyPart>),
    /// An optional value that is not there.
    Nothing,
}

/// From which node on, and what is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Of all the rest, so that it is looked up fast. Keys with the same are compared, and few lie ready at a time: sizes chosen
    /// to have the same make nothing worse than a short search.
    pub hash: u64,
    /// The first node.
    pub start: usize,
    /// What is given, in order.
    pub given: Vec<KeyPart>,
}

/// The bytes of inputs whose values a plan is made for, by place.
pub type Values<'a> = Vec<(usize, Cow<'a, [u8]>)>;

/// The bytes of these inputs, by place. Tensors are waited for here, before a lock is held.
pub fn values<'a>(inputs: &'a [Input<'_>], which: InputSet) -> Result<Values<'a>> {
    let places = (0..inputs.len()).filter(|&place| which.contains(place));
    let values = places.map(|place| Ok((place, inputs[place].to_bytes()?)));
    values.collect()
}

/// Known values of up to this many bytes are compared, larger ones are told apart by their place.
const COMPARED: usize = 1 << 12;

impl Key {
    /// That of what is given from node `start` on.
    pub fn of(start: usize, given: &[(ValueId, Given)]) -> Result<Key> {
        let given = given.iter().map(|(_, given)| match given {
            Given::Input(kind) => Ok(KeyPart::Kind(kind.clone())),
            Given::Inputs(kinds) => Ok(KeyPart::Kinds(kinds.clone())),
            Given::Known(value) => KeyPart::known(value),
        });
        let given: Vec<KeyPart> = given.collect::<Result<_>>()?;
        let mut hasher = FxHasher::default();
        start.hash(&mut hasher);
        given.iter().for_each(|part| part.hash(&mut hasher));
        Ok(Key {
            hash: hasher.finish(),
            start,
            given,
        })
    }

    /// The hash of the key for inputs of the whole model, with these values.
    pub fn hash_of(inputs: &[Input<'_>], values: &Values<'_>) -> u64 {
        let mut hasher = FxHasher::default();
        0usize.hash(&mut hasher);
        for (input, bytes) in each(inputs, values) {
            hash(input.dtype(), input.shape(), bytes, &mut hasher);
        }
        hasher.finish()
    }

    /// Whether it is the key for inputs of the whole model, with these values.
    pub fn is_for(&self, inputs: &[Input<'_>], values: &Values<'_>) -> bool {
        let mut each = self.given.iter().zip(each(inputs, values));
        self.start == 0
            && self.given.len() == inputs.len()
            && each.all(|(part, (input, bytes))| part.fits(input.dtype(), input.shape(), bytes))
    }

    /// Those of the inputs of the whole model that are given anew at each run.
    pub fn bound<'i, 'a>(&'i self, inputs: &'i [Input<'a>]) -> impl Iterator<Item = &'i Input<'a>> {
        let each = self.given.iter().zip(inputs);
        each.filter(|(part, _)| matches!(part, KeyPart::Kind(_)))
            .map(|(_, input)| input)
    }

    /// Which of those the input of this place is.
    pub fn bound_place(&self, place: usize) -> Option<usize> {
        let is_bound = |part: &&KeyPart| matches!(part, KeyPart::Kind(_));
        self.given.get(place).filter(is_bound)?;
        Some(self.given[..place].iter().filter(is_bound).count())
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let parts = self.given.iter().map(KeyPart::bytes);
        size_of::<Key>() + parts.sum::<usize>()
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Each input, with its bytes where a plan is made for them.
fn each<'r, 'a>(
    inputs: &'r [Input<'a>],
    values: &'r Values<'_>,
) -> impl Iterator<Item = (&'r Input<'a>, Option<&'r [u8]>)> {
    inputs.iter().enumerate().map(|(place, input)| {
        let bytes = values.iter().find(|(other, _)| *other == place);
        (input, bytes.map(|(_, bytes)| &bytes[..]))
    })
}

/// The same for an input as for the part of a key that it fits.
fn hash(dtype: DType, shape: &[usize], bytes: Option<&[u8]>, hasher: &mut impl Hasher) {
    (dtype, shape, bytes).hash(hasher);
}

impl Hash for KeyPart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            KeyPart::Kind(kind) => hash(kind.dtype, &kind.shape, None, state),
            KeyPart::Value(kind, bytes) => hash(kind.dtype, &kind.shape, Some(bytes), state),
            KeyPart::Kinds(kinds) => kinds.hash(state),
            KeyPart::Place(kind, span, layout) => (kind, span, layout).hash(state),
            KeyPart::Several(parts) => parts.hash(state),
            KeyPart::Nothing => 0.hash(state),
        }
    }
}

impl KeyPart {
    fn known(value: &Value) -> Result<KeyPart> {
        match value {
            Value::Tensor(tensor) => KeyPart::known_tensor(tensor),
            Value::Nothing => Ok(KeyPart::Nothing),
            Value::Sequence(tensors) => {
                let parts = tensors.iter().map(KeyPart::known_tensor);
                Ok(KeyPart::Several(parts.collect::<Result<_>>()?))
            }
        }
    }

    fn known_tensor(tensor: &Tensor) -> Result<KeyPart> {
        let kind = TensorKind::of(tensor);
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
    fn fits(&self, dtype: DType, shape: &[usize], bytes: Option<&[u8]>) -> bool {
        match (self, bytes) {
            (KeyPart::Kind(kind), None) => kind.dtype == dtype && kind.shape == shape,
            (KeyPart::Value(kind, own), Some(bytes)) => {
                kind.dtype == dtype && kind.shape == shape && **own == *bytes
            }
            _ => false,
        }
    }

    fn bytes(&self) -> usize {
        let sizes = |kind: &TensorKind| size_of_val(&*kind.shape);
        let more = match self {
            KeyPart::Kind(kind) | KeyPart::Place(kind, ..) => sizes(kind),
            KeyPart::Kinds(kinds) => size_of_val(&**kinds) + kinds.iter().map(sizes).sum::<usize>(),
            KeyPart::Value(kind, bytes) => sizes(kind) + bytes.len(),
            KeyPart::Several(parts) => parts.iter().map(KeyPart::bytes).sum(),
            KeyPart::Nothing => 0,
        };
        size_of::<KeyPart>() + more
    }
}
