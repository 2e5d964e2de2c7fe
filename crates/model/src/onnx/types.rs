//! What files declare of values.

use std::sync::Arc;

use streampool_tensor::{DType, Tensor};

use super::dtype;
use super::proto::{
    HolderType, SizeKind, SizeProto, TensorProto, TensorType, TypeProto, ValueProto,
};
use super::small::Small;
use crate::error::{NodeError, Result};
use crate::graph::{Dim, ValueInfo, ValueKind};

/// What is declared of an input or an output, which has to be of a type we have.
pub fn declared(proto: &ValueProto) -> Result<ValueInfo> {
    info(proto).map_err(|fault| fault.of_value(&proto.name))
}

/// The type of less than eight bits, or of 8-bit floats, of a tensor that is declared to have one.
pub fn small(proto: &ValueProto) -> Option<Small> {
    Small::of(proto.kind.as_ref()?.tensor.as_ref()?.element)
}

/// As [`declared`], of an input, which is no list of pairs.
pub fn declared_input(proto: &ValueProto) -> Result<ValueInfo> {
    let held = proto.kind.as_ref().and_then(|kind| kind.sequence.as_ref());
    let element = held.and_then(|held| held.element.as_ref());
    match element.is_some_and(|element| element.map.is_some()) {
        true => Err(NodeError::unsupported("a list of maps").of_value(&proto.name)),
        false => declared(proto),
    }
}

/// Of an input of pairs: what is declared of the values and of the keys, which are inputs of their own here.
pub fn declared_pairs(proto: &ValueProto) -> Result<Option<[ValueInfo; 2]>> {
    let Some(map) = proto.kind.as_ref().and_then(|kind| kind.map.as_ref()) else {
        return Ok(None);
    };
    let list = |name: String, element: i32| -> Result<ValueInfo, NodeError> {
        let mut info = ValueInfo::named(name);
        info.shape = Some(vec![Dim::Named(format!("pairs of {}", proto.name))]);
        if element == TensorProto::STRING {
            (info.dtype, info.strings) = (Some(DType::I64), Some(Arc::default()));
        } else {
            info.dtype = Some(dtype(i64::from(element))?);
        }
        Ok(info)
    };
    let pairs = || -> Result<[ValueInfo; 2], NodeError> {
        let value = map.value.as_ref().ok_or_else(no_element)?;
        let values = list(proto.name.clone(), tensor_of(value)?.element)?;
        Ok([values, list(format!("{}.keys", proto.name), map.key)?])
    };
    let pairs = pairs().map_err(|fault| fault.of_value(&proto.name))?;
    Ok(Some(pairs))
}

/// What is declared of a value inside a graph, as far as it is understood: who makes it knows better.
pub fn noted(proto: &ValueProto) -> ValueInfo {
    info(proto).unwrap_or_else(|_| ValueInfo::named(&proto.name))
}

fn info(proto: &ValueProto) -> Result<ValueInfo, NodeError> {
    let mut info = ValueInfo::named(&proto.name);
    let declared = |kind: &&TypeProto| **kind != TypeProto::default();
    let Some(kind) = proto.kind.as_ref().filter(declared) else {
        return Ok(info);
    };
    let tensor;
    (info.kind, tensor) = match kind {
        TypeProto {
            optional: Some(held),
            ..
        } => match element(held)? {
            TypeProto {
                sequence: Some(held),
                ..
            } => (ValueKind::OptionalSequence, tensor_of(element(held)?)?),
            held => (ValueKind::Optional, tensor_of(held)?),
        },
        TypeProto {
            sequence: Some(held),
            ..
        } => match element(held)? {
            // What pairs classes and scores is the scores.
            TypeProto { map: Some(_), .. } => return Ok(info),
            held => (ValueKind::Sequence, tensor_of(held)?),
        },
        kind => (ValueKind::Tensor, tensor_of(kind)?),
    };
    if tensor.element == TensorProto::STRING {
        (info.dtype, info.strings) = (Some(DType::I64), Some(Arc::default()));
    } else if let Some(small) = Small::of(tensor.element) {
        info.dtype = Some(small.dtype());
    } else if tensor.element != 0 {
        info.dtype = Some(dtype(i64::from(tensor.element))?);
    }
    if let Some(shape) = &tensor.shape {
        info.shape = Some(shape.sizes.iter().map(dim).collect());
    }
    Ok(info)
}

fn element(holder: &HolderType) -> Result<&TypeProto, NodeError> {
    holder.element.as_ref().ok_or_else(no_element)
}

fn no_element() -> NodeError {
    NodeError::malformed("the type", "without that of its elements", "a whole one")
}

fn tensor_of(kind: &TypeProto) -> Result<&TensorType, NodeError> {
    let other = || {
        NodeError::unsupported("a type other than tensors, sequences of them, and optional ones")
    };
    kind.tensor.as_ref().ok_or_else(other)
}

/// What exporters write for a size that may be any: no name, though it stands where names do.
const ANY: [&str; 4] = ["", "?", "-1", "None"];

/// A size; one that is negative stands for any, as some exporters have it.
fn dim(size: &SizeProto) -> Dim {
    match &size.size {
        Some(SizeKind::Fixed(size)) => usize::try_from(*size).map_or(Dim::Free, Dim::Fixed),
        Some(SizeKind::Named(name)) if !ANY.contains(&name.trim()) => Dim::Named(name.clone()),
        _ => Dim::Free,
    }
}

/// What is known of a value that is this tensor.
pub fn of_constant(name: &str, tensor: &Tensor) -> ValueInfo {
    ValueInfo {
        name: name.to_owned(),
        kind: ValueKind::Tensor,
        dtype: Some(tensor.dtype()),
        shape: Some(tensor.shape().iter().copied().map(Dim::Fixed).collect()),
        strings: None,
    }
}
