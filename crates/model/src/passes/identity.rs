//! Nodes whose result is their input, and the types of values as far as they are certain.

use std::collections::HashMap;

use streampool_tensor::DType;

use crate::graph::{Domain, Graph, Node, Operator, ValueId};
use crate::onnx;

/// What makes truth values.
const CONDITIONS: &str = "Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Not IsNaN IsInf";

/// What gives the type of its first input.
const KEEPING: &str = "Add Sub Mul Div Pow Neg Abs Exp Log Sqrt Erf Relu Sigmoid Tanh Clip Softmax MatMul Gemm Conv Slice Gather \
    Squeeze Unsqueeze Reshape Transpose Flatten Expand Tile Concat Split Pad ReduceMean ReduceSum ReduceMax \
    ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp LayerNormalization \
    Reciprocal Max Min Sum Mean Identity LeakyRelu MaxPool AveragePool GlobalMaxPool GlobalAveragePool \
    BatchNormalization Range Sin Cos Floor Ceil Round Mod CumSum Trilu Einsum GatherElements GatherND \
    ScatterElements ScatterND HardSwish HardSigmoid Gelu Softplus";

/// The value that a node hands on as it is.
pub fn source(graph: &Graph, types: &HashMap<ValueId, DType>, node: &Node) -> Option<ValueId> {
    if node.operator.domain != Domain::Onnx {
        return None;
    }
    let input = node.input(0)?;
    let listed = |place: usize| listed(graph, node, place);
    let same = match &node.operator.name[..] {
        "Identity" => true,
        "Dropout" => {
            let training = node.input(2).is_some();
            let kept_wanted = node.output(1).is_some();
            node.operator.version >= 7 && !training && !kept_wanted
        }
        "Cast" => {
            let to = onnx::dtype(node.int("to", 0)).ok()?;
            types.get(&input) == Some(&to)
        }
        "Transpose" => {
            let order = node.ints("perm")?;
            order
                .iter()
                .enumerate()
                .all(|(place, &axis)| axis == place as i64)
        }
        "Concat" | "Sum" | "Max" | "Min" | "Mean" => node.inputs.len() == 1,
        "Slice" if node.operator.version >= 10 => {
            let steps = node.input(4);
            listed(1)?.iter().all(|&start| start == 0)
                && listed(2)?.iter().all(|&end| end >= i64::from(i32::MAX))
                && (steps.is_none() || listed(4)?.iter().all(|&step| step == 1))
        }
        _ => false,
    };
    same.then_some(input)
}

/// The integers of an input that is a constant.
fn listed(graph: &Graph, node: &Node, place: usize) -> Option<Vec<i64>> {
    let tensor = graph.constants.get(&node.input(place)?)?;
    tensor.to_dtype(DType::I64).ok()?.to_vec().ok()
}

/// The types of a graph's constants and inputs.
pub fn given(graph: &Graph) -> HashMap<ValueId, DType> {
    let constants = graph.constants.iter();
    let mut types: HashMap<ValueId, DType> = constants
        .map(|(&id, tensor)| (id, tensor.dtype()))
        .collect();
    for &id in &graph.inputs {
        types.extend(graph.value(id).dtype.map(|dtype| (id, dtype)));
    }
    types
}

/// The types of a graph's values, as far as they are certain; its nodes are in order.
pub fn types(graph: &Graph) -> HashMap<ValueId, DType> {
    let mut types = given(graph);
    for node in &graph.nodes {
        let made = node.output(0);
        types.extend(made.zip(dtype(&types, node)));
    }
    types
}

/// Whether a node is a convolution of bytes, or a product with a matrix of them.
pub fn is_of_bytes(node: &Node) -> bool {
    ["ConvOfBytes", "LinearOfBytes"]
        .iter()
        .any(|name| node.operator == Operator::fused(name))
}

/// The type of a node's first result, if it is certain.
pub fn dtype(types: &HashMap<ValueId, DType>, node: &Node) -> Option<DType> {
    let of_input = |place: usize| types.get(&node.input(place)?).copied();
    match node.operator.domain {
        Domain::Onnx => {}
        // Of bytes it makes what their scale is, or what its result is quantised as.
        Domain::Fused if is_of_bytes(node) => {
            let place = if node.input(7).is_some() { 7 } else { 1 };
            return of_input(place);
        }
        // What is joined gives what it is given.
        Domain::Fused => return of_input(0),
        Domain::Microsoft | Domain::Ml => return None,
    }
    match &node.operator.name[..] {
        "Cast" => onnx::dtype(node.int("to", 0)).ok(),
        "Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero" => Some(DType::I64),
        _ if node.is_among(CONDITIONS) => Some(DType::Bool),
        _ if node.is_among(KEEPING) => of_input(0),
        "Where" => of_input(1),
        _ => None,
    }
}
