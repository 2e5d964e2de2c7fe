//! Computes nodes whose inputs are all known, if the results are of a reasonable size.

use streampool_tensor::{DType, Pool, Tensor};

use crate::evaluate::{Scope, TwoPools, step};
use crate::graph::{Domain, Graph, Node, ValueInfo};
use crate::nodes::Value;

/// The most bytes of a result.
const MOST: usize = 64 << 20;

/// A result of more than so many bytes is left alone if it is also this many times as large as the inputs.
const SMALL: usize = 64 << 10;
const GROWTH: usize = 16;

/// What is different each time, or not worth knowing how large it becomes.
const LEFT_ALONE: &str = "AffineGrid Bernoulli Col2Im Conv ConvTranspose DFT DeformConv Dropout Einsum GRU GridSample If LSTM Loop \
    MaxRoiPool MaxUnpool Multinomial OneHot Pad RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike \
    Resize Scan Upsample";

/// What broadcasts its inputs.
const BROADCASTING: &str = "Add Sub Mul Div Pow Mod Max Min Sum Mean Where PRelu Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor \
    BitShift BitwiseAnd BitwiseOr BitwiseXor";

/// The results of a node, if they are certain now. An error is left for the time when the node is run.
pub fn folded(graph: &Graph, node: &Node, pool: &Pool) -> Option<Vec<Tensor>> {
    let operator = &node.operator;
    let left_alone = node.is_among(LEFT_ALONE) || node.graphs().next().is_some();
    if operator.domain != Domain::Onnx || left_alone {
        return None;
    }
    let mut inputs = Vec::new();
    for input in &node.inputs {
        inputs.push(match input {
            None => None,
            Some(id) => Some(graph.constants.get(id)?),
        });
    }
    let given: usize = inputs.iter().flatten().map(|tensor| bytes(tensor)).sum();
    let fits =
        |bytes: usize| bytes <= MOST && (bytes <= SMALL || bytes <= GROWTH.saturating_mul(given));
    let largest = inputs
        .iter()
        .flatten()
        .map(|tensor| tensor.dtype().size())
        .max();
    let expected = elements(node, &inputs)?.saturating_mul(largest.unwrap_or(1));
    // A constant is as large as it is.
    if !inputs.is_empty() && !fits(expected) {
        return None;
    }
    let made = computed(node, &inputs, pool)?;
    let fit = inputs.is_empty() || made.iter().all(|tensor| fits(bytes(tensor)));
    if !fit {
        return None;
    }
    for tensor in &made {
        if tensor.pool() != pool {
            return None;
        }
        if tensor.synchronize().is_err() {
            // What the values made fail is told when the node is run; the stream is used for what comes.
            let _ = pool.current().and_then(|stream| stream.recover());
            return None;
        }
    }
    Some(made)
}

/// Evaluates a node in a graph that has nothing but its inputs.
fn computed(node: &Node, inputs: &[Option<&Tensor>], pool: &Pool) -> Option<Vec<Tensor>> {
    let mut alone = Graph::default();
    let mut node = node.clone();
    for (place, tensor) in inputs.iter().enumerate() {
        if let Some(tensor) = tensor {
            let id = alone.add_value(ValueInfo::default());
            alone.constants.insert(id, (*tensor).clone());
            node.inputs[place] = Some(id);
        }
    }
    for output in node.outputs.iter_mut().flatten() {
        *output = alone.add_value(ValueInfo::default());
    }
    let pools = TwoPools {
        known: pool,
        work: pool,
    };
    let mut scope = Scope::new(&alone, &pools);
    step(&mut scope, &alone, &node).ok()?;
    let made = node.outputs.iter().map(|output| match output {
        Some(id) => match scope.get(*id) {
            Some(Value::Tensor(tensor)) => Some(tensor.clone()),
            _ => None,
        },
        // Nobody asks for it.
        None => Tensor::zeros(pool, &[0], DType::F32).ok(),
    });
    made.collect()
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.elem_count().saturating_mul(tensor.dtype().size())
}

/// The most elements that a result has.
fn elements(node: &Node, inputs: &[Option<&Tensor>]) -> Option<usize> {
    let input = |place: usize| inputs.get(place).copied().flatten();
    let sizes = |place: usize| -> Option<Vec<usize>> {
        let values: Vec<i64> = input(place)?.to_dtype(DType::I64).ok()?.to_vec().ok()?;
        values
            .into_iter()
            .map(|value| usize::try_from(value).ok())
            .collect()
    };
    let product = |sizes: &[usize]| {
        sizes
            .iter()
            .fold(1usize, |all, &size| all.saturating_mul(size))
    };
    Some(match &node.operator.name[..] {
        "ConstantOfShape" => product(&sizes(0)?),
        "Expand" => product(&broadcast(input(0)?.shape(), &sizes(1)?)),
        "Tile" => input(0)?.elem_count().saturating_mul(product(&sizes(1)?)),
        "Range" => {
            let number = |place: usize| -> Option<f64> {
                input(place)?.to_dtype(DType::F64).ok()?.item().ok()
            };
            ((number(1)? - number(0)?) / number(2)?).ceil().max(0.0) as usize
        }
        "MatMul" | "MatMulInteger" | "QLinearMatMul" | "Gemm" => {
            let ends = |tensor: &Tensor| {
                tensor
                    .shape()
                    .iter()
                    .rev()
                    .take(2)
                    .copied()
                    .max()
                    .unwrap_or(1)
            };
            let b = input(if node.operator.name == "QLinearMatMul" {
                3
            } else {
                1
            })?;
            let outer =
                |tensor: &Tensor| tensor.shape()[..tensor.rank().saturating_sub(2)].to_vec();
            let batch = product(&broadcast(&outer(input(0)?), &outer(b)));
            batch
                .saturating_mul(ends(input(0)?))
                .saturating_mul(ends(b))
        }
        "Gather" => {
            let (data, axis) = (input(0)?, node.int("axis", 0) as isize);
            let row = data.elem_count() / data.dim(axis).ok()?.max(1);
            row.saturating_mul(input(1)?.elem_count())
        }
        "GatherND" | "CenterCropPad" => input(0)?
            .elem_count()
            .saturating_mul(input(1)?.elem_count()),
        "HannWindow" | "HammingWindow" | "BlackmanWindow" | "MelWeightMatrix" | "EyeLike"
        | "SequenceEmpty" => {
            return None;
        }
        _ => {
            let shapes = inputs.iter().flatten().map(|tensor| tensor.shape());
            let together = shapes.fold(Vec::new(), |all, shape| broadcast(&all, shape));
            let listed = inputs
                .iter()
                .flatten()
                .map(|tensor| tensor.elem_count())
                .sum();
            if node.is_among(BROADCASTING) {
                product(&together)
            } else {
                listed
            }
        }
    })
}

/// The sizes to which both broadcast, where they do.
fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (1, other) | (other, 1) => other,
            (one, other) => one.max(other),
        })
        .collect()
}
