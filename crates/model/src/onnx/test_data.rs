//! Single values in files of their own, as ONNX's tests have them.

use bytes::Bytes;
use streampool_tensor::{Array, Pool, Tensor};

use super::external::External;
use super::proto::{OptionalProto, SequenceProto, TensorProto, decoded};
use super::small::Small;
use super::tensors::Importer;
use crate::error::{NodeError, Result};

/// The tensor in the bytes of a `.pb` file, and its name.
pub fn tensor(bytes: &[u8], known: &Pool) -> Result<(String, Tensor)> {
    let proto: TensorProto = decoded(Bytes::copy_from_slice(bytes), "the tensor")?;
    let tensor = of_any_type(&mut importer(known), &proto)?;
    Ok((proto.name, tensor))
}

/// The array in the bytes of a `.pb` file, which may be one of strings, and its name.
pub fn array(bytes: &[u8], known: &Pool) -> Result<(String, Array)> {
    let proto: TensorProto = decoded(Bytes::copy_from_slice(bytes), "the tensor")?;
    if proto.element != TensorProto::STRING {
        let tensor = of_any_type(&mut importer(known), &proto)?;
        return Ok((proto.name, Array::of(&tensor)?));
    }
    let sizes = proto
        .sizes
        .iter()
        .map(|&size| usize::try_from(size).unwrap_or(usize::MAX));
    let shape: Vec<usize> = sizes.collect();
    let strings = proto
        .strings
        .iter()
        .map(|string| String::from_utf8_lossy(string));
    let strings: Vec<_> = strings.collect();
    Ok((proto.name, Array::from_strings(&strings, &shape)?))
}

/// The sequence of tensors in the bytes of a `.pb` file, and its name.
pub fn sequence(bytes: &[u8], known: &Pool) -> Result<(String, Vec<Tensor>)> {
    let proto: SequenceProto = decoded(Bytes::copy_from_slice(bytes), "the sequence")?;
    let tensors = tensors(&proto, known)?;
    Ok((proto.name, tensors))
}

/// The optional value in the bytes of a `.pb` file, as the tensors it holds if it holds anything, and its name.
pub fn optional(bytes: &[u8], known: &Pool) -> Result<(String, Option<Vec<Tensor>>)> {
    let proto: OptionalProto = decoded(Bytes::copy_from_slice(bytes), "the optional value")?;
    let held = match (proto.kind, &proto.tensor, &proto.sequence) {
        (_, Some(held), None) => Some(vec![importer(known).tensor(held)?]),
        (_, None, Some(held)) => Some(tensors(held, known)?),
        (0, None, None) => None,
        (kind, ..) => {
            let fault = NodeError::unsupported(format_args!("an optional value of kind {kind}"));
            return Err(fault.of_value(&proto.name));
        }
    };
    Ok((proto.name, held))
}

fn tensors(proto: &SequenceProto, known: &Pool) -> Result<Vec<Tensor>> {
    if !matches!(proto.kind, 0 | SequenceProto::TENSOR) {
        let fault = NodeError::unsupported(format_args!("a sequence of kind {}", proto.kind));
        return Err(fault.of_value(&proto.name));
    }
    let mut importer = importer(known);
    proto
        .tensors
        .iter()
        .map(|tensor| importer.tensor(tensor))
        .collect()
}

/// The tensor, in a wider type if its own is smaller than those of tensors.
fn of_any_type(importer: &mut Importer<'_>, proto: &TensorProto) -> Result<Tensor> {
    match Small::of(proto.element) {
        Some(_) => importer.small(proto),
        None => importer.tensor(proto),
    }
}

fn importer(known: &Pool) -> Importer<'_> {
    Importer::new(known, External::none(), None)
}
