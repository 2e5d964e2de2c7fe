//! What stays in `f32` where a model computes in half precision: sums, what is squared for them, and what is computed of
//! them alone. A sum of squares soon is more than the largest `f16`, and a variance that is the difference of two such
//! sums has no digits left in a short type.

use std::collections::{HashMap, HashSet};

use streampool_tensor::DType;

use super::editor::pair;
use super::identity;
use crate::graph::{Domain, Graph, Node, ValueId};

/// What is computed in `f32`.
pub struct Wide {
    /// Places of nodes.
    pub nodes: HashSet<usize>,
    /// Values that stay as these make them; what else they make is shortened.
    pub values: HashSet<ValueId>,
    /// The types of all values as far as they are certain, before anything is shortened.
    pub types: HashMap<ValueId, DType>,
}

/// Finds it in a graph whose nodes are in order.
pub fn find(graph: &Graph) -> Wide {
    let mut wide = Wide {
        nodes: HashSet::new(),
        values: HashSet::new(),
        types: identity::types(graph),
    };
    let summed: HashSet<ValueId> = graph
        .nodes
        .iter()
        .filter(|node| is_sum(node))
        .filter_map(|node| *node.inputs.first()?)
        .collect();
    for (place, node) in graph.nodes.iter().enumerate() {
        let Some(made) = wide.made(node) else {
            continue;
        };
        let begins = is_sum(node)
            || matches!(&node.operator.name[..], "Sqrt" | "Reciprocal")
            || summed.contains(&made) && is_square(node);
        let changing = || {
            let reads = node.inputs.iter().flatten();
            let floats = reads.filter(|id| wide.types.get(id) == Some(&DType::F32));
            floats.filter(|id| !graph.constants.contains_key(id))
        };
        if begins || goes_on(node) && changing().any(|id| wide.values.contains(id)) {
            let stays = begins || changing().all(|id| wide.values.contains(id));
            wide.nodes.insert(place);
            if stays {
                wide.values.insert(made);
            }
        }
    }
    wide
}

impl Wide {
    /// The one value that a node of ONNX makes, if it certainly is of `f32`, and all that it reads of a known type.
    fn made(&self, node: &Node) -> Option<ValueId> {
        let [Some(made)] = node.outputs[..] else {
            return None;
        };
        let reads = node.inputs.iter().flatten();
        let known = reads.into_iter().all(|id| self.types.contains_key(id));
        let floats = self.types.get(&made) == Some(&DType::F32);
        (known && floats && node.operator.domain == Domain::Onnx).then_some(made)
    }
}

fn is_sum(node: &Node) -> bool {
    matches!(
        &node.operator.name[..],
        "ReduceSum"
            | "ReduceMean"
            | "ReduceProd"
            | "ReduceL1"
            | "ReduceL2"
            | "ReduceSumSquare"
            | "ReduceLogSum"
            | "ReduceLogSumExp"
    )
}

fn is_square(node: &Node) -> bool {
    match &node.operator.name[..] {
        "Pow" => true,
        "Mul" => pair(node).is_some_and(|[a, b]| a == b),
        _ => false,
    }
}

/// Whether what a node makes of a sum is still as precise as its inputs are.
fn goes_on(node: &Node) -> bool {
    matches!(
        &node.operator.name[..],
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Pow"
            | "Max"
            | "Min"
            | "Clip"
            | "Neg"
            | "Abs"
            | "Exp"
            | "Log"
            | "Relu"
            | "Where"
            | "ReduceMax"
            | "ReduceMin"
            | "Identity"
            | "Reshape"
            | "Expand"
            | "Squeeze"
            | "Unsqueeze"
            | "Transpose"
            | "Flatten"
            | "Slice"
    )
}
