//! Convolutions, with the scales and shifts of channels that follow in their weights, and their activation; and normalisations
//! by constants that follow none.

use streampool_tensor::{DType, Tensor};

use super::activation;
use super::editor::{Editor, fused};
use crate::graph::{Domain, Node, Operator, ValueId};

/// What follows a convolution becomes part of it.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    match &node.operator.name[..] {
        "BatchNormalization" => folded(editor, place).or_else(|| scaled_and_shifted(editor, place)),
        "Mul" | "Div" | "Add" | "Sub" => folded(editor, place),
        _ => activated(editor, place),
    }
}

/// A scale and a shift for each channel.
struct Affine {
    scale: Option<Tensor>,
    shift: Option<Tensor>,
}

/// A convolution with constant weights, of which the next node makes something else.
struct Plain {
    place: usize,
    weight: Tensor,
    bias: Option<Tensor>,
    channels: usize,
    /// The groups, if it is a transposed one.
    transposed: Option<usize>,
}

fn plain(editor: &Editor<'_>, id: ValueId) -> Option<Plain> {
    let (place, node) = editor.maker(id)?;
    if !node.is("Conv") && !node.is("ConvTranspose") {
        return None;
    }
    let weight = editor.constant(node.input(1)?)?.clone();
    if weight.rank() < 3 || !weight.dtype().is_float() {
        return None;
    }
    let groups = usize::try_from(node.int("group", 1)).ok()?;
    let transposed = node.is("ConvTranspose").then_some(groups);
    let channels = match transposed {
        Some(groups) => weight.shape()[1].checked_mul(groups)?,
        None => weight.shape()[0],
    };
    let bias = match node.input(2) {
        Some(id) => Some(editor.constant(id)?.clone()),
        None => None,
    };
    Some(Plain {
        place,
        weight,
        bias,
        channels,
        transposed,
    })
}

fn folded(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (from, other) = match node.pair() {
        Some([a, b]) if editor.constant(a).is_some() => (b, Some(a)),
        Some([a, b]) => (a, Some(b)),
        None => (node.input(0)?, None),
    };
    let conv = plain(editor, from)?;
    let affine = match &node.operator.name[..] {
        "BatchNormalization" => normalisation(editor, node)?,
        op => {
            // The constant has to come second where the order matters.
            let other =
                other.filter(|_| !matches!(op, "Div" | "Sub") || node.input(0) == Some(from))?;
            let each = channels(editor.constant(other)?, &conv)?;
            match op {
                "Mul" => Affine {
                    scale: Some(each),
                    shift: None,
                },
                "Div" => Affine {
                    scale: Some(each.reciprocal().ok()?),
                    shift: None,
                },
                "Add" => Affine {
                    scale: None,
                    shift: Some(each),
                },
                _ => Affine {
                    scale: None,
                    shift: Some(each.neg().ok()?),
                },
            }
        }
    };
    let (weight, bias) = merged(&conv, &affine)?;
    let (mut new, name) = (editor.node(conv.place)?.clone(), node.name.clone());
    new.outputs.clone_from(&node.outputs);
    new.outputs.truncate(1);
    new.inputs.truncate(2);
    if let Some(weight) = weight {
        new.inputs[1] = Some(editor.add_constant(format!("{name}.weight"), weight));
    }
    new.inputs
        .push(Some(editor.add_constant(format!("{name}.bias"), bias)));
    editor.replace("conv", place, &[conv.place], new)
}

/// In which type numbers are multiplied.
fn wide(tensor: &Tensor) -> Option<Tensor> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => tensor.to_dtype(DType::F32).ok(),
        _ => Some(tensor.clone()),
    }
}

/// A constant as one number for each channel.
fn channels(constant: &Tensor, conv: &Plain) -> Option<Tensor> {
    let rank = conv.weight.rank();
    if constant.dtype() != conv.weight.dtype() || constant.rank() > rank {
        return None;
    }
    let constant = wide(constant)?;
    if constant.elem_count() == 1 {
        return constant
            .reshape(&[1usize])
            .ok()?
            .broadcast_to(&[conv.channels])
            .ok();
    }
    let missing = rank - constant.rank();
    let fits = constant
        .shape()
        .iter()
        .enumerate()
        .all(|(axis, &size)| match missing + axis {
            1 => size == conv.channels,
            _ => size == 1,
        });
    fits.then(|| constant.reshape(&[conv.channels]).ok())?
}

fn normalisation(editor: &Editor<'_>, node: &Node) -> Option<Affine> {
    let trains = node.int("training_mode", 0) != 0 || node.int("spatial", 1) == 0;
    let wanted = node.outputs.iter().flatten().count();
    if node.operator.domain != Domain::Onnx || trains || wanted != 1 {
        return None;
    }
    let parameter = |place: usize| wide(editor.constant(node.input(place)?)?);
    let (scale, bias, mean, variance) =
        (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let deviation = variance
        .add(f64::from(node.float("epsilon", 1e-5)))
        .ok()?
        .sqrt()
        .ok()?;
    let scale = scale.div(&deviation).ok()?;
    let shift = bias.sub(&mean.mul(&scale).ok()?).ok()?;
    Some(Affine {
        scale: Some(scale),
        shift: Some(shift),
    })
}

/// A normalisation by constants has one scale and one shift for each channel.
fn scaled_and_shifted(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?.clone();
    let x = node.input(0)?;
    // As the operator wants them: what is of another shape is an error when the model is run.
    let shape = editor.constant(node.input(1)?)?.shape();
    let alike = (1..5).all(|place| {
        let parameter = node.input(place).and_then(|id| editor.constant(id));
        parameter.is_some_and(|parameter| parameter.rank() == 1 && parameter.shape() == shape)
    });
    // `f32` is exact enough for these alone.
    let is_short = matches!(editor.dtype(x), Some(DType::F32 | DType::F16 | DType::BF16));
    if !alike || !is_short {
        return None;
    }
    let affine = normalisation(editor, &node)?;
    let (scale, shift) = (affine.scale?, affine.shift?);
    if scale.dtype() != DType::F32 || !finite(&scale)? || !finite(&shift)? {
        return None;
    }
    let [scale, shift] = [("scale", scale), ("shift", shift)]
        .map(|(what, tensor)| editor.add_constant(format!("{}.{what}", node.name), tensor));
    let new = fused("ScaleShift", &node, vec![Some(x), Some(scale), Some(shift)]);
    editor.replace("batch_norm", place, &[], new)
}

/// The weights, if they change, and the bias.
fn merged(conv: &Plain, affine: &Affine) -> Option<(Option<Tensor>, Tensor)> {
    let dtype = conv.weight.dtype();
    let mut bias = match &conv.bias {
        Some(bias) => wide(bias)?,
        None => wide(&Tensor::zeros(conv.weight.pool(), &[conv.channels], dtype).ok()?)?,
    };
    let mut weight = None;
    if let Some(scale) = &affine.scale {
        bias = bias.mul(scale).ok()?;
        weight = Some(scaled(conv, scale)?.to_dtype(dtype).ok()?);
    }
    if let Some(shift) = &affine.shift {
        bias = bias.add(shift).ok()?;
    }
    if bias.shape() != [conv.channels] {
        return None;
    }
    let bias = bias.to_dtype(dtype).ok()?;
    let bounded = finite(&bias)?
        && weight
            .as_ref()
            .is_none_or(|weight| finite(weight) == Some(true));
    bounded.then_some((weight, bias))
}

/// Whether all numbers are finite: sums of products with others would be NaN where what is folded gives infinity.
fn finite(tensor: &Tensor) -> Option<bool> {
    let finite = tensor.is_finite().ok()?.all(&[], false).ok()?;
    finite.item::<bool>().ok()
}

/// The weights, those of each channel times its scale.
fn scaled(conv: &Plain, scale: &Tensor) -> Option<Tensor> {
    let (weight, shape) = (wide(&conv.weight)?, conv.weight.shape());
    let (grouped, each) = match conv.transposed {
        None => (shape.to_vec(), vec![conv.channels]),
        Some(groups) => {
            let inputs = shape[0].checked_div(groups)?;
            let grouped = [&[groups, inputs], &shape[1..]].concat();
            (grouped, vec![groups, 1, shape[1]])
        }
    };
    let mut sizes = each;
    #[expect(clippy::disallowed_methods, reason = "as many as axes")]
    sizes.resize(grouped.len(), 1);
    let scale = scale.reshape(&sizes).ok()?;
    weight
        .reshape(&grouped)
        .ok()?
        .mul(&scale)
        .ok()?
        .reshape(shape)
        .ok()
}

fn activated(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let name = activation::name(node)?;
    let (inner, old) = editor.made_by(node.input(0)?, "Conv")?;
    let mut new = old.clone();
    new.operator = Operator {
        domain: Domain::Fused,
        ..new.operator
    };
    new.outputs.clone_from(&node.outputs);
    new.set("activation", name);
    editor.replace("conv", place, &[inner], new)
}
