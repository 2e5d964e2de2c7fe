//! Layer and RMS normalisation from their pieces.

use streampool_tensor::room::copied;
use streampool_tensor::{DType, Tensor};

use super::editor::Editor;
use crate::graph::{Domain, Node, Operator, ValueId};

/// `x`, less its mean if `centred`, over its deviation.
struct Normalised {
    x: ValueId,
    centred: bool,
    /// From which axis on, counted from the last.
    axis: i64,
    epsilon: f64,
    dtype: DType,
    nodes: Vec<usize>,
}

/// Ends with a bias, a scale or neither; the first that is met has what comes before as well, so later ends are tried on
/// what this made.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    match &node.operator.name[..] {
        "Add" => biased(editor, place),
        "Mul" => scaled(editor, place).or_else(|| plain(editor, place)),
        "Div" => plain(editor, place),
        _ => None,
    }
}

/// What is normalised, as itself.
fn plain(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let found = normalised(editor, node)?;
    let name = format!("{}.scale", node.name);
    let one = Tensor::ones(editor.pool(), &[1], found.dtype).ok()?;
    let mut new = norm(&found, node);
    let scale = editor.add_constant(name, one);
    new.inputs.push(Some(scale));
    editor.replace(what(found.centred), place, &found.nodes, new)
}

/// What is normalised, times a constant.
fn scaled(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (from, scale) = editor.with_constant(node)?;
    // The norm may be computed in a wider type than what it is of, and what it gives be cast back.
    let dtype = editor.constant(scale)?.dtype();
    let cast = editor
        .made_by(from, "Cast")
        .map(|(place, cast)| Some((place, cast.input(0)?)));
    let (cast, made) = match cast {
        Some(cast) => cast.map(|(place, from)| (Some(place), from))?,
        None => (None, from),
    };
    let (inner, old) = editor.maker(made)?;
    if !is_norm(old) || old.input(2).is_some() || editor.number(old.input(1)?)? != 1.0 {
        return None;
    }
    let layer = old.operator.name == "LayerNormalization";
    let old_dtype = editor.constant(old.input(1)?)?.dtype();
    let x = match cast {
        None => old.input(0).filter(|_| old_dtype == dtype)?,
        Some(_) => {
            narrow(editor, old.input(0)?, dtype).filter(|_| editor.dtype(from) == Some(dtype))?
        }
    };
    let scale = own(editor, old, scale, dtype)?;
    let (mut new, name) = (old.clone(), format!("{}.scale", node.name));
    new.outputs.clone_from(&node.outputs);
    new.operator = operator(layer);
    let kind = what(layer);
    new.inputs = vec![Some(x), Some(editor.add_constant(name, scale))];
    let places: Vec<usize> = [inner].into_iter().chain(cast).collect();
    editor.replace(kind, place, &places, new)
}

/// What a value was cast from to a wider type, if that is certain to be this one. Norms compute in the wider type anyway.
fn narrow(editor: &Editor<'_>, wide: ValueId, dtype: DType) -> Option<ValueId> {
    let (_, cast) = editor.made_by(wide, "Cast")?;
    let from = cast.input(0)?;
    let is_half = matches!(dtype, DType::F16 | DType::BF16);
    let widens = is_half && editor.dtype(wide) == Some(DType::F32);
    (widens && editor.dtype(from) == Some(dtype)).then_some(from)
}

/// What is normalised and scaled, plus a constant.
fn biased(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (from, bias) = editor.with_constant(node)?;
    let (inner, old) = editor.maker(from)?;
    if old.operator.name != "LayerNormalization" || !is_norm(old) || old.input(2).is_some() {
        return None;
    }
    let dtype = editor.constant(old.input(1)?)?.dtype();
    let bias = own(editor, old, bias, dtype)?;
    let (mut new, name) = (old.clone(), format!("{}.bias", node.name));
    new.outputs.clone_from(&node.outputs);
    new.operator = operator(true);
    new.inputs.truncate(2);
    new.inputs.push(Some(editor.add_constant(name, bias)));
    editor.replace("layer_norm", place, &[inner], new)
}

fn what(centred: bool) -> &'static str {
    if centred { "layer_norm" } else { "rms_norm" }
}

fn is_norm(node: &Node) -> bool {
    let name = &node.operator.name[..];
    let known = matches!(node.operator.domain, Domain::Onnx | Domain::Fused);
    known && matches!(name, "LayerNormalization" | "RMSNormalization")
}

/// The operator, whose scale and bias may broadcast what is normalised, as pieces do.
fn operator(layer: bool) -> Operator {
    let name = if layer {
        "LayerNormalization"
    } else {
        "RMSNormalization"
    };
    Operator::fused(name)
}

/// The node that does all this; the scale is not among its inputs yet.
fn norm(found: &Normalised, old: &Node) -> Node {
    let mut new = old.clone();
    new.operator = operator(found.centred);
    new.inputs = vec![Some(found.x)];
    new.attributes.clear();
    new.set("axis", found.axis);
    new.set("epsilon", found.epsilon as f32);
    new
}

/// A scale or bias of this type, with the axes that `node` normalises.
fn own(editor: &Editor<'_>, node: &Node, id: ValueId, dtype: DType) -> Option<Tensor> {
    let tensor = editor.constant(id)?;
    let axes = usize::try_from(node.int("axis", -1).checked_neg()?).ok()?;
    if tensor.dtype() != dtype || !editor.adds_no_axis(id, node.input(0)?) {
        return None;
    }
    let outer = tensor.rank().saturating_sub(axes);
    let (before, inside) = tensor.shape().split_at_checked(outer)?;
    let fits = before.iter().all(|&size| size == 1);
    fits.then(|| tensor.reshape(inside).ok())?
}

/// `x` over its deviation, by division or by a product with the inverse.
fn normalised(editor: &Editor<'_>, node: &Node) -> Option<Normalised> {
    let [a, b] = node.pair()?;
    if node.is("Div") {
        return over(editor, a, b, &[]);
    }
    [(a, b), (b, a)].into_iter().find_map(|(x, inverse)| {
        let (place, node) = editor.maker(inverse)?;
        if node.is("Reciprocal") {
            return over(editor, x, node.input(0)?, &[place]);
        }
        let [number, deviation] = node.pair().filter(|_| node.is("Div"))?;
        let one = editor.number(number)? == 1.0 && editor.adds_no_axis(number, deviation);
        one.then(|| over(editor, x, deviation, &[place]))?
    })
}

fn over(
    editor: &Editor<'_>,
    x: ValueId,
    deviation: ValueId,
    nodes: &[usize],
) -> Option<Normalised> {
    let mut nodes = nodes.to_vec();
    let (place, root) = editor.maker(deviation)?;
    let is_root = root.is("Sqrt") || root.is("Pow") && editor.ordered(root)?.1 == 0.5;
    let (sum_place, sum) = editor.made_by(root.input(0)?, "Add").filter(|_| is_root)?;
    nodes.extend([place, sum_place]);
    let [a, b] = sum.pair()?;
    let (variance, epsilon) = editor.with_number(sum)?;
    // The node keeps it in `f32`, and norms take none that is negative.
    if !epsilon.is_finite() || epsilon < 0.0 || f64::from(epsilon as f32) != epsilon {
        return None;
    }
    let dtype = editor.constant(if variance == a { b } else { a })?.dtype();
    let (place, mean) = editor.made_by(variance, "ReduceMean")?;
    nodes.push(place);
    let axis = last_axes(editor, mean)?;
    let (place, square) = editor.maker(mean.input(0)?)?;
    nodes.push(place);
    let of = match &square.operator.name[..] {
        "Mul" if square.is("Mul") => {
            let [a, b] = square.pair()?;
            (a == b).then_some(a)?
        }
        "Pow" if square.is("Pow") => {
            let (base, power) = editor.ordered(square)?;
            (power == 2.0).then_some(base)?
        }
        _ => return None,
    };
    let plain = Normalised {
        x,
        centred: false,
        axis,
        epsilon,
        dtype,
        nodes,
    };
    let Some(centred) = centred(editor, x, axis) else {
        return (of == x).then_some(plain);
    };
    let (from, mut nodes) = centred;
    if of != x {
        // The same difference, computed twice.
        let (_, again) = self::centred(editor, of, axis).filter(|(other, _)| *other == from)?;
        nodes.extend(again);
    }
    nodes.extend(&plain.nodes);
    Some(Normalised {
        x: from,
        centred: true,
        nodes,
        ..plain
    })
}

/// Of what, and by which nodes, a value is what is left without the mean.
fn centred(editor: &Editor<'_>, id: ValueId, axis: i64) -> Option<(ValueId, Vec<usize>)> {
    let (place, difference) = editor.made_by(id, "Sub")?;
    let [x, mean] = difference.pair()?;
    let (mean_place, mean) = editor.made_by(mean, "ReduceMean")?;
    let same = mean.input(0)? == x && last_axes(editor, mean)? == axis;
    same.then(|| (x, vec![place, mean_place]))
}

/// From which axis on, counted from the last, a node takes the mean of all; it has to keep the axes.
fn last_axes(editor: &Editor<'_>, node: &Node) -> Option<i64> {
    let listed = match node.input(1) {
        Some(id) => editor.integers(id)?,
        None => copied(node.ints("axes")?).ok()?,
    };
    let mut axes = Vec::new();
    for axis in listed {
        axes.push(match axis {
            ..0 => axis,
            _ => axis - editor.rank(node.input(0)?).known()? as i64,
        });
    }
    axes.sort_unstable();
    let first = *axes.first()?;
    let last = axes.iter().copied().eq(first..0);
    (last && node.int("keepdims", 1) != 0).then_some(first)
}
