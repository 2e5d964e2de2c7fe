//! Convolutions of numbers that were bytes, and floats that are rounded to what bytes stand for, before what is known of them is computed.

use streampool_tensor::DType;

use super::editor::{Editor, fused};
use crate::graph::{Attribute, Node, Operator, ValueId};

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
    if of_channels.dtype() != DType::F32
        || !(is_along || of_channels.elem_count() == 1)
        || !is_plain(seen)
        || !is_plain(weights)
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
    let (conv, convolution) = editor.maker(node.input(0)?)?;
    if convolution.operator != Operator::fused("ConvOfBytes") || !is_for_all(editor, node) {
        return None;
    }
    let mut new = convolution.clone();
    new.outputs.clone_from(&node.outputs);
    new.inputs.extend([node.input(1), node.input(2)]);
    editor.replace("convolution of bytes", place, &[conv], new)
}

/// What is quantised and at once dequantised, by the same scale and zero point, is rounded; by the convolution that made it, if it can.
pub fn round(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    if !node.is("DequantizeLinear") || editor.uses(node.output(0)?) == 0 {
        return None;
    }
    let (bytes, by) = (node.input(0)?, [node.input(1)?, node.input(2)?]);
    let (maker, quantised) = editor.maker(bytes).filter(|_| editor.uses(bytes) == 1)?;
    let is_conv = quantised.operator == Operator::fused("ConvOfBytes");
    let first = if is_conv { 6 } else { 1 };
    let is_quantised = is_conv || quantised.is("QuantizeLinear") && is_for_all(editor, quantised);
    let same = [quantised.input(first)?, quantised.input(first + 1)?] == by;
    if !is_quantised || !same || !is_for_all(editor, node) {
        return None;
    }
    let mut new = fused("RoundToBytes", node, quantised.inputs.clone());
    if is_conv {
        new.operator = quantised.operator.clone();
        new.attributes.clone_from(&quantised.attributes);
        let mark = Attribute::Int(1);
        new.attributes.push(("dequantised".to_owned(), mark));
    }
    editor.replace("rounding", place, &[maker], new)
}

/// Whether a node quantises or dequantises floats of `f32` and bytes by one scale and zero point.
fn is_for_all(editor: &Editor<'_>, node: &Node) -> bool {
    let constant = |place: usize| editor.constant(node.input(place)?);
    let (Some(scale), Some(zero)) = (constant(1), constant(2)) else {
        return false;
    };
    let types = [scale.dtype(), zero.dtype()];
    let is_single = scale.elem_count() == 1 && zero.elem_count() == 1;
    is_plain(node)
        && is_single
        && (types == [DType::F32, DType::U8] || types == [DType::F32, DType::I8])
}

/// Whether attributes say nothing of blocks, types and bounds.
fn is_plain(node: &Node) -> bool {
    let is_known = |name: &str| matches!(name, "axis" | "block_size");
    node.attributes.iter().all(|(name, _)| is_known(name)) && node.int("block_size", 0) == 0
}

/// Whether what a node dequantises stands for multiples of its scale.
fn has_no_zero_point(editor: &Editor<'_>, node: &Node) -> bool {
    let Some(zero) = node.input(2) else {
        return true;
    };
    let numbers = editor.integers(zero);
    numbers.is_some_and(|numbers| numbers.iter().all(|&number| number == 0))
}
