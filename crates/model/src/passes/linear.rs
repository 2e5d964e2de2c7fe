//! Products with constant matrices, with their bias and activation.

use streampool_tensor::Tensor;

use super::activation;
use super::editor::{Editor, fused};
use crate::graph::{Domain, Node, ValueId};

/// A product becomes a linear layer; a bias and an activation that follow become part of it.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    match (node.operator.domain, &node.operator.name[..]) {
        (Domain::Onnx, "MatMul") => product(editor, place),
        (Domain::Microsoft, "FusedMatMul") => product(editor, place),
        (Domain::Onnx, "Gemm") => gemm(editor, place),
        (Domain::Microsoft, "FusedGemm") => gemm(editor, place),
        (Domain::Onnx, "Add") => bias(editor, place),
        _ => activated(editor, place),
    }
}

/// Whether a node is a linear layer.
pub fn is_linear(node: &Node) -> bool {
    node.operator.domain == Domain::Fused && node.operator.name == "Linear"
}

/// The constant `[k, n]` that a node multiplies with.
fn matrix(editor: &Editor<'_>, node: &Node) -> Option<Tensor> {
    let weight = editor.constant(node.input(1)?)?;
    (weight.rank() == 2 && weight.dtype().is_float()).then(|| weight.clone())
}

/// The matrix, turned if the node turns it. A view: devices read it either way.
fn turned(editor: &mut Editor<'_>, node: &Node, weight: Tensor) -> Option<ValueId> {
    if node.int("transB", 0) == 0 {
        return node.input(1);
    }
    let turned = weight.transpose(0, 1).ok()?;
    Some(editor.add_constant(format!("{}.weight", node.name), turned))
}

fn product(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?.clone();
    let odd = ["transA", "transBatchA", "transBatchB"];
    if node.inputs.len() != 2 || odd.iter().any(|name| node.int(name, 0) != 0) {
        return None;
    }
    let weight = matrix(editor, &node)?;
    let weight = turned(editor, &node, weight)?;
    let mut new = fused("Linear", &node, vec![node.input(0), Some(weight)]);
    let alpha = node.float("alpha", 1.0);
    if alpha != 1.0 {
        new.set("alpha", alpha);
    }
    editor.replace("linear", place, &[], new)
}

fn gemm(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?.clone();
    let weight = matrix(editor, &node).filter(|_| node.int("transA", 0) == 0)?;
    let columns = weight.shape()[usize::from(node.int("transB", 0) == 0)];
    let mut inputs = vec![node.input(0)];
    let beta = node.float("beta", 1.0);
    let bias = match node.input(2).filter(|_| beta != 0.0) {
        None => None,
        Some(id) => {
            let bias = along(editor.constant(id)?, columns, &weight)?;
            let bias = if beta == 1.0 {
                bias
            } else {
                bias.mul(f64::from(beta)).ok()?
            };
            Some(editor.add_constant(format!("{}.bias", node.name), bias))
        }
    };
    inputs.push(Some(turned(editor, &node, weight)?));
    inputs.extend(bias.map(Some));
    let mut new = fused("Linear", &node, inputs);
    let alpha = node.float("alpha", 1.0);
    if alpha != 1.0 {
        new.set("alpha", alpha);
    }
    if let Some(name) = named(node.string("activation", ""))? {
        new.set("activation", name);
    }
    editor.replace("linear", place, &[], new)
}

/// The activation that ONNX Runtime names; inner `None` for none.
fn named(name: &str) -> Option<Option<&'static str>> {
    Some(Some(match name {
        "" => return Some(None),
        "Relu" => "relu",
        "Sigmoid" => "sigmoid",
        "Tanh" => "tanh",
        _ => return None,
    }))
}

/// A constant as a bias of so many columns.
fn along(bias: &Tensor, columns: usize, weight: &Tensor) -> Option<Tensor> {
    let (last, outer) = match bias.shape().split_last() {
        Some((&last, outer)) => (last, outer),
        None => (1, &[][..]),
    };
    let fits = (last == columns || last == 1) && outer.iter().all(|&size| size == 1);
    let bias = bias
        .reshape(&[last])
        .ok()
        .filter(|_| fits && bias.dtype() == weight.dtype())?;
    bias.broadcast_to(&[columns]).ok()?.contiguous().ok()
}

fn bias(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let (from, id) = editor.with_constant(node)?;
    let (inner, old) = editor.maker(from)?;
    if !is_linear(old) || old.input(2).is_some() || old.attribute("activation").is_some() {
        return None;
    }
    let weight = editor.constant(old.input(1)?)?;
    let bias = along(editor.constant(id)?, weight.shape()[1], weight)?;
    if !editor.adds_no_axis(id, from) {
        return None;
    }
    let (mut new, name) = (old.clone(), format!("{}.bias", node.name));
    new.outputs.clone_from(&node.outputs);
    new.inputs.truncate(2);
    new.inputs.push(Some(editor.add_constant(name, bias)));
    editor.replace("linear", place, &[inner], new)
}

fn activated(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let name = activation::name(node)?;
    let (inner, old) = editor.maker(node.input(0)?)?;
    if !is_linear(old) || old.attribute("activation").is_some() {
        return None;
    }
    let mut new = old.clone();
    new.outputs.clone_from(&node.outputs);
    new.set("activation", name);
    editor.replace("linear", place, &[inner], new)
}
