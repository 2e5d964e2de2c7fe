//! What stays in `f32` where a model computes in half precision: sums, what is squared for them, integers that become
//! floats (shapes, positions, counts), and what is computed of them alone, up to a product with weights. A sum of squares soon is more than the largest `f16`, and a variance that is the difference of two such
//! sums has no digits left in a short type.

use std::collections::{HashMap, HashSet};

use streampool_tensor::DType;

use super::identity;
use super::linear::is_linear;
use crate::graph::{Domain, Graph, Node, ValueId};

/// Sums, and what is made of sums.
const SUMS: &str = "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp";

/// What these make of a sum is still as precise as their inputs are.
const AS_PRECISE: &str = "Add Sub Mul Div Pow Max Min Clip Neg Abs Exp Log Sin Cos Floor Ceil Round Mod Sqrt Reciprocal Gather CumSum \
    Tile Relu Where ReduceMax ReduceMin Identity Reshape Expand Squeeze Unsqueeze Transpose Flatten Slice";

/// What is computed in `f32`.
pub struct StaysF32 {
    /// Places of nodes.
    pub nodes: HashSet<usize>,
    /// Values that stay as these make them; what else they make is shortened.
    pub values: HashSet<ValueId>,
    /// The types of all values as far as they are certain, before anything is shortened.
    pub types: HashMap<ValueId, DType>,
}

/// Finds it in a graph whose nodes are in order.
pub fn find(graph: &Graph) -> StaysF32 {
    let mut wide = StaysF32 {
        nodes: HashSet::new(),
        values: HashSet::new(),
        types: identity::types(graph),
    };
    let summed: HashSet<ValueId> = graph
        .nodes
        .iter()
        .filter(|node| node.is_among(SUMS))
        .filter_map(|node| *node.inputs.first()?)
        .collect();
    for (place, node) in graph.nodes.iter().enumerate() {
        let Some(made) = wide.made(node) else {
            continue;
        };
        let begins = node.is_among(SUMS)
            || wide.is_of_integers(node)
            || wide.is_spread(graph, node)
            || matches!(&node.operator.name[..], "Sqrt" | "Reciprocal")
            || summed.contains(&made) && is_square(node);
        let changing = || {
            let reads = node.inputs.iter().flatten();
            let floats = reads.filter(|id| wide.types.get(id) == Some(&DType::F32));
            floats.filter(|id| !graph.constants.contains_key(id))
        };
        let meets_own = || changing().all(|id| wide.values.contains(id));
        let follows = node.is_among(AS_PRECISE) || joins(graph, node) && meets_own();
        if begins || follows && changing().any(|id| wide.values.contains(id)) {
            let stays = begins || changing().all(|id| wide.values.contains(id));
            wide.nodes.insert(place);
            if stays {
                wide.values.insert(made);
            }
        }
    }
    wide
}

impl StaysF32 {
    /// The one value that a node of ONNX makes, if it certainly is of `f32`, and all that it reads of a known type.
    fn made(&self, node: &Node) -> Option<ValueId> {
        let [Some(made)] = node.outputs[..] else {
            return None;
        };
        let reads = node.inputs.iter().flatten();
        let known = reads.into_iter().all(|id| self.types.contains_key(id));
        let floats = self.types.get(&made) == Some(&DType::F32);
        let ours = node.operator.domain == Domain::Onnx || is_linear(node);
        (known && floats && ours).then_some(made)
    }

    /// Whether a node makes floats of integers, which may be more than the short types tell apart, or hold.
    fn is_of_integers(&self, node: &Node) -> bool {
        let is_integer = |id: &ValueId| self.types.get(id).is_some_and(|dtype| dtype.is_integer());
        node.operator.name == "Cast" && node.inputs.iter().flatten().all(is_integer)
    }

    /// Whether a node spreads a constant, which others of these meet.
    fn is_spread(&self, graph: &Graph, node: &Node) -> bool {
        let is_constant = |id: &ValueId| graph.constants.contains_key(id);
        let data = node.input(0);
        node.operator.name == "Expand" && data.is_some_and(|id| is_constant(&id))
    }
}

/// Whether what a node makes of such values alone is one: of several, or a product that is not one with weights; of those
/// with one row each element is the product of two numbers.
fn joins(graph: &Graph, node: &Node) -> bool {
    if node.operator.name == "Concat" {
        return true;
    }
    let rows = |id: &ValueId| {
        graph
            .constants
            .get(id)?
            .shape()
            .iter()
            .rev()
            .nth(1)
            .copied()
    };
    let weights = node.input(1);
    match weights.filter(|id| graph.constants.contains_key(id)) {
        Some(weights) => {
            (is_linear(node) || node.operator.name == "MatMul") && rows(&weights) == Some(1)
        }
        None => node.operator.domain == Domain::Onnx && node.operator.name == "MatMul",
    }
}

fn is_square(node: &Node) -> bool {
    match &node.operator.name[..] {
        "Pow" => true,
        "Mul" => node.pair().is_some_and(|[a, b]| a == b),
        _ => false,
    }
}
