//! Convolutions of numbers that were bytes, before what is known of them is computed.

use streampool_tensor::DType;

use super::editor::{Editor, fused};
use crate::graph::{Node, Operator, ValueId};

/// Channels of a group below which gathering them takes longer than what is gained.
const LEAST_CHANNELS: usize = 8;

/// A convolution of dequantised bytes by dequantised weights becomes one of the bytes themselves, and makes bytes if it is quantised.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    if node.is("QuantizeLinear") {
        return quantised(editor, place);
    }
    if !node.is("Conv") {
        return None;
    }
    let (_, seen) = editor.made_by(node.input(0)?, "DequantizeLinear")?;
    let (_, weights) = editor.made_by(node.input(1)?, "DequantizeLinear")?;
    // One scale and zero point for all, and the zero point says that they are bytes without a sign.
    let (scale, zero) = (seen.input(1)?, seen.input(2)?);
    let is_single = |id: ValueId, dtype: DType| {
        editor
            .constant(id)
            .is_some_and(|tensor| tensor.elem_count() == 1 && tensor.dtype() == dtype)
    };
    if !is_single(scale, DType::F32) || !is_single(zero, DType::U8) {
        return None;
    }
    let weight = editor.constant(weights.input(0)?)?;
    let shape = weight.shape();
    let is_filled = shape.get(1)? >= &LEAST_CHANNELS;
    if weight.dtype() != DType::I8 || !(3..=4).contains(&shape.len()) || !is_filled {
        return None;
    }
    let channels = *shape.first()?;
    let of_channels = editor.constant(weights.input(1)?)?;
    let is_along = weights.int("axis", 1) == 0 && of_channels.elem_count() == channels;
    let is_plain = weights.int("block_size", 0) == 0 && seen.int("block_size", 0) == 0;
    if of_channels.dtype() != DType::F32
        || !(is_along || of_channels.elem_count() == 1)
        || !is_plain
        || !has_no_zero_point(editor, weights)
    {
        return None;
    }
    let inputs = vec![
        seen.input(0),
        Some(scale),
        Some(zero),
        weights.input(0),
        weights.input(1),
        node.input(2),
    ];
    let mut new = fused("ConvOfBytes", node, inputs);
    new.attributes.clone_from(&node.attributes);
    editor.replace("convolution of bytes", place, &[], new)
}

/// What quantises the results of a convolution of bytes becomes part of it.
fn quantised(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let [scale, zero] = [node.input(1)?, node.input(2)?];
    let is_single = |id| {
        editor
            .constant(id)
            .is_some_and(|tensor| tensor.elem_count() == 1)
    };
    let (conv, convolution) = editor.maker(node.input(0)?)?;
    let is_bytes = convolution.operator == Operator::fused("ConvOfBytes");
    let is_plain = node.attributes.iter().all(|(name, _)| name == "axis");
    let is_f32 = editor.constant(scale)?.dtype() == DType::F32;
    if !is_bytes || !is_plain || !is_f32 || !is_single(scale) || !is_single(zero) {
        return None;
    }
    let mut new = convolution.clone();
    new.outputs.clone_from(&node.outputs);
    new.inputs.resize(6, None);
    new.inputs.extend([Some(scale), Some(zero)]);
    editor.replace("convolution of bytes", place, &[conv], new)
}

/// Whether what a node dequantises stands for multiples of its scale.
fn has_no_zero_point(editor: &Editor<'_>, node: &Node) -> bool {
    let Some(zero) = node.input(2) else {
        return true;
    };
    let numbers = editor.integers(zero);
    numbers.is_some_and(|numbers| numbers.iter().all(|&number| number == 0))
}
