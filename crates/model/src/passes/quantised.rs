//! Convolutions of numbers that were bytes, and floats that are rounded to what bytes stand for, before what is known of them is computed.

use std::ops::RangeInclusive;

use streampool_tensor::DType;

use super::editor::{Editor, fused, with_operator};
use super::identity::is_of_bytes;
use crate::graph::{Attribute, Domain, Node, Operator, ValueId, ValueInfo};

/// Channels of a group, one of several, below which products by bytes would be for little.
const LEAST_CHANNELS: usize = 8;
/// Channels that each see only themselves, below which they fill no vector.
const LEAST_APART: usize = 16;

/// Operators that only move or pick elements, of their first input or of all.
const MOVING: &str = "Reshape Flatten Transpose Squeeze Unsqueeze Slice Concat MaxPool";
/// The most such operators one after the other, without bytes between them.
const MOST_MOVES: usize = 8;

/// Scales by which no float of a byte overflows or vanishes.
const PLAIN_SCALES: RangeInclusive<f64> = 1e-30..=1e30;

/// What is quantised behind nodes that move what was dequantised is quantised before them, so that they move bytes; and if it is by the
/// same scale and zero point, it is what it was.
pub fn hoist(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?.clone();
    if !node.is("QuantizeLinear") || !is_for_all(editor, &node) {
        return None;
    }
    let seen = node.input(0)?;
    // Bytes and the floats that they stand for go there and back, and the largest of the one are the largest of the other.
    if !PLAIN_SCALES.contains(&editor.number(node.input(1)?)?) {
        return None;
    }
    if let Some((_, from)) = editor.made_by(seen, "DequantizeLinear") {
        let is_same = is_for_all(editor, from) && is_alike(editor, from, &node);
        let identity = Operator::onnx("Identity", 1);
        let new = with_operator(identity, &node, vec![from.input(0)]);
        return is_same.then(|| editor.replace("bytes as they were", place, &[], new))?;
    }
    if !moves_bytes(editor, seen, &node, MOST_MOVES) || editor.uses(seen) != 1 {
        return None;
    }
    let (moving, moved) = editor.maker(seen)?;
    let mut new = moved.clone();
    new.outputs.clone_from(&node.outputs);
    let count = moved_inputs(moved);
    for place in 0..count {
        let from = new.input(place)?;
        let name = format!("{}.{place}", node.name);
        let info = ValueInfo {
            dtype: editor.constant(node.input(2)?).map(|zero| zero.dtype()),
            ..ValueInfo::named(name.clone())
        };
        let to = editor.add_value(info, editor.rank(from));
        let mut earlier = node.clone();
        earlier.name = name;
        earlier.outputs = vec![Some(to)];
        *earlier.inputs.first_mut()? = Some(from);
        *new.inputs.get_mut(place)? = Some(to);
        editor.add_node(earlier);
    }
    editor.take_over("bytes moved", place, &[moving], new);
    for place in editor.len() - count..editor.len() {
        // Where there is nothing more to do it stays as it is.
        let _ = hoist(editor, place);
    }
    Some(())
}

/// How many of the inputs of a node that moves elements it moves.
fn moved_inputs(node: &Node) -> usize {
    match node.is("Concat") {
        true => node.inputs.len(),
        false => 1,
    }
}

/// Whether a value is made of dequantised bytes by at most so many nodes one after the other that only move them, and it is worth
/// quantising those.
fn moves_bytes(editor: &Editor<'_>, id: ValueId, quantise: &Node, most: usize) -> bool {
    let Some((_, node)) = editor.maker(id).filter(|_| most > 0) else {
        return false;
    };
    // What is joined again and again, each time by another scale, would be quantised as often.
    let is_alone = |from: &Node| {
        [from.input(0), from.output(0)]
            .iter()
            .all(|id| id.is_some_and(|id| editor.uses(id) == 1))
    };
    let is_worth_it = |from: &Node| {
        is_for_all(editor, from)
            && (!node.is("Concat") || is_alone(from) || is_alike(editor, from, quantise))
    };
    node.operator.domain == Domain::Onnx
        && node.is_among(MOVING)
        && node.outputs.len() == 1
        && (0..moved_inputs(node)).all(|place| {
            node.input(place).is_some_and(|id| {
                let from = editor.made_by(id, "DequantizeLinear");
                from.is_some_and(|(_, from)| is_worth_it(from))
                    || editor.uses(id) == 1 && moves_bytes(editor, id, quantise, most - 1)
            })
        })
}

/// Whether two nodes quantise or dequantise by the same scale and zero point.
fn is_alike(editor: &Editor<'_>, one: &Node, other: &Node) -> bool {
    let number = |node: &Node, place: usize| {
        let id = node.input(place)?;
        Some((editor.number(id)?, editor.constant(id)?.dtype()))
    };
    [1, 2].iter().all(|&place| {
        let numbers = number(one, place).zip(number(other, place));
        numbers.is_some_and(|(one, other)| one == other)
    })
}

/// A convolution or product of dequantised bytes by dequantised weights becomes one of the bytes themselves, and makes bytes if it is
/// quantised.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    match &node.operator.name[..] {
        _ if node.operator.domain != Domain::Onnx => None,
        "QuantizeLinear" => quantised(editor, place),
        "Conv" => convolution(editor, place),
        "MatMul" | "Gemm" => linear(editor, place),
        _ => None,
    }
}

fn convolution(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (_, weights) = editor.made_by(node.input(1)?, "DequantizeLinear")?;
    let weight = editor.constant(weights.input(0)?)?;
    let shape = weight.shape();
    let [made, read] = [*shape.first()?, *shape.get(1)?];
    let is_filled = match node.int("group", 1) {
        1 => true,
        groups if read == 1 => made >= LEAST_APART && groups == made as i64,
        _ => read >= LEAST_CHANNELS,
    };
    if !is_filled || !(3..=4).contains(&shape.len()) {
        return None;
    }
    let mut new = fused("ConvOfBytes", node, of_bytes(editor, node, (made, 0))?);
    new.attributes.clone_from(&node.attributes);
    editor.replace("convolution of bytes", place, &[], new)
}

fn linear(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (_, weights) = editor.made_by(node.input(1)?, "DequantizeLinear")?;
    let weight = editor.constant(weights.input(0)?)?;
    let turned = node.int("transB", 0);
    let &[first, second] = weight.shape() else {
        return None;
    };
    let of_columns = match turned {
        0 => (second, 1),
        _ => (first, 0),
    };
    let is_plain = node.int("transA", 0) == 0
        && node.float("alpha", 1.0) == 1.0
        && node.float("beta", 1.0) == 1.0;
    // What a bias is dequantised from has its rank.
    let is_line = |id: ValueId| {
        let from = editor.made_by(id, "DequantizeLinear");
        let from = from.and_then(|(_, bias)| bias.input(0)).unwrap_or(id);
        editor.constant(from).is_some_and(|bias| bias.rank() == 1)
    };
    let has_rows = node.is("Gemm") || editor.rank(node.input(0)?).least > 1;
    if !is_plain || !has_rows || !node.input(2).is_none_or(is_line) {
        return None;
    }
    let mut new = fused("LinearOfBytes", node, of_bytes(editor, node, of_columns)?);
    new.attributes = vec![("transB".to_owned(), Attribute::Int(turned))];
    editor.replace("product of bytes", place, &[], new)
}

/// What a node reads if its first two inputs are dequantised bytes, and as many weights along an axis.
fn of_bytes(
    editor: &Editor<'_>,
    node: &Node,
    (made, axis): (usize, i64),
) -> Option<Vec<Option<ValueId>>> {
    let (_, seen) = editor.made_by(node.input(0)?, "DequantizeLinear")?;
    let (_, weights) = editor.made_by(node.input(1)?, "DequantizeLinear")?;
    // One scale and zero point for all, and the zero point says that they are bytes without a sign.
    let (scale, zero) = (seen.input(1)?, seen.input(2)?);
    let is_single = |id: ValueId, dtype: DType| {
        editor
            .constant(id)
            .is_some_and(|tensor| tensor.elem_count() == 1 && tensor.dtype() == dtype)
    };
    let weight = editor.constant(weights.input(0)?)?;
    let of_channels = editor.constant(weights.input(1)?)?;
    let along = weights.int("axis", 1);
    let is_along = [axis, axis - weight.rank() as i64].contains(&along);
    let suits = is_single(scale, DType::F32)
        && is_single(zero, DType::U8)
        && weight.dtype() == DType::I8
        && of_channels.dtype() == DType::F32
        && (is_along && of_channels.elem_count() == made || of_channels.elem_count() == 1)
        && is_plain(seen)
        && is_plain(weights)
        && has_no_zero_point(editor, weights);
    suits.then(|| {
        vec![
            seen.input(0),
            Some(scale),
            Some(zero),
            weights.input(0),
            weights.input(1),
            node.input(2),
        ]
    })
}

/// What quantises the results of a convolution of bytes becomes part of it.
fn quantised(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    if !is_for_all(editor, node) {
        return None;
    }
    let (mut maker, mut made) = editor.maker(node.input(0)?)?;
    let mut inner = vec![maker];
    if keeps_all_bytes(editor, made, node) {
        (maker, made) = editor.maker(made.input(0)?)?;
        inner.push(maker);
    }
    if !is_of_bytes(made) || made.input(6).is_some() {
        return None;
    }
    let mut new = made.clone();
    new.outputs.clone_from(&node.outputs);
    new.inputs.extend([node.input(1), node.input(2)]);
    editor.replace("convolution of bytes", place, &inner, new)
}

/// Whether a node keeps numbers between bounds that no byte is beyond which they are quantised to.
fn keeps_all_bytes(editor: &Editor<'_>, node: &Node, quantise: &Node) -> bool {
    let number = |id: Option<ValueId>, missing: f64| match id {
        Some(id) => editor.number(id),
        None => Some(missing),
    };
    let bounds = match () {
        () if node.is("Relu") => Some([0.0, f64::INFINITY]),
        () if node.is("Clip") => number(node.input(1), f64::NEG_INFINITY)
            .zip(number(node.input(2), f64::INFINITY))
            .map(<[f64; 2]>::from),
        () => None,
    };
    let byte = |number: f64| {
        let scaled = number as f32 / editor.number(quantise.input(1)?)? as f32;
        let zero = quantise.input(2)?;
        let [least, most] = match editor.constant(zero)?.dtype() {
            DType::I8 => [i8::MIN.into(), i8::MAX.into()],
            _ => [0.0, f32::from(u8::MAX)],
        };
        let byte = scaled.round_ties_even() + editor.number(zero)? as f32;
        Some([byte <= least, byte >= most])
    };
    bounds.is_some_and(|[least, most]| {
        byte(least).is_some_and(|[is_least, _]| is_least)
            && byte(most).is_some_and(|[_, is_most]| is_most)
    })
}

/// What is quantised and at once dequantised, by the same scale and zero point, is rounded.
pub fn round(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    if !node.is("DequantizeLinear") || editor.uses(node.output(0)?) == 0 {
        return None;
    }
    let (bytes, by) = (node.input(0)?, [node.input(1)?, node.input(2)?]);
    let (maker, quantised) = editor.maker(bytes).filter(|_| editor.uses(bytes) == 1)?;
    let is_quantised = quantised.is("QuantizeLinear") && is_for_all(editor, quantised);
    let same = [quantised.input(1)?, quantised.input(2)?] == by;
    if !is_quantised || !same || !is_for_all(editor, node) {
        return None;
    }
    let new = fused("RoundToBytes", node, quantised.inputs.clone());
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
