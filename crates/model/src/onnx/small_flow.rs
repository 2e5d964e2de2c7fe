//! Follows values of types that are smaller than those of tensors through a graph.

use std::collections::HashMap;

use streampool_tensor::DType;

use super::small::Small;
use crate::error::{Error, NodeError, Result};
use crate::graph::{Attribute, Domain, Graph, Node, Operator, ValueId};

/// Values that are held in a wider type than they are of.
pub type Held = HashMap<ValueId, Small>;

/// What moves elements of its first input without looking at them.
const MOVING: &str =
    "Identity Reshape Squeeze Unsqueeze Flatten Transpose Gather Slice Expand Tile";

/// A version of `QuantizeLinear` that knows these types.
const QUANTISATION_OF_ALL: i64 = 25;

/// Before this version, the first input of `Scan` is not one of its body.
const SCAN_OF_STATES: i64 = 9;

/// Follows values of these types through a graph and those inside it: tells nodes what they make, and refuses what would compute
/// with them as if they were of the types that hold them. Gives all such values of the graph.
pub fn settle(graph: &mut Graph, mut held: Held) -> Result<Held> {
    for node in &mut graph.nodes {
        let types: Vec<Option<Small>> = node
            .inputs
            .iter()
            .map(|id| id.as_ref().and_then(|id| held.get(id)).copied())
            .collect();
        let made = if node.graphs().next().is_some() {
            made_inside(node, &types, &held)?
        } else {
            vec![made(node, &types).map_err(|fault| of_node(fault, node))?]
        };
        for (made, output) in made.into_iter().zip(&node.outputs) {
            if let (Some(made), &Some(output)) = (made, output) {
                held.insert(output, made);
            }
        }
    }
    Ok(held)
}

fn of_node(fault: NodeError, node: &Node) -> Error {
    fault.of_node(&node.name, &node.operator)
}

fn refused() -> NodeError {
    NodeError::unsupported(
        "an element type of less than 8 bits, or of 8-bit floats, but in casts, quantisation and nodes that move elements,",
    )
}

/// Of which of these types the outputs of a node with graphs inside are, where its inputs are of `types` and values around those
/// graphs of `around`.
fn made_inside(
    node: &mut Node,
    types: &[Option<Small>],
    around: &Held,
) -> Result<Vec<Option<Small>>> {
    let is_loop = node.is("Loop");
    let is_scan = node.is("Scan");
    if types.iter().any(Option::is_some) && !is_loop && !is_scan {
        return Err(of_node(refused(), node));
    }
    let is_old = is_scan && node.operator.version < SCAN_OF_STATES;
    let given = types.get(usize::from(is_old)..).unwrap_or(&[]);
    // A body of a loop begins with its number and whether to go on, and gives the latter first.
    let (first_state, first_output) = if is_loop { (2, 1) } else { (0, 0) };
    let states = if is_scan {
        let read = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0);
        given.get(..given.len().saturating_sub(read))
    } else if is_loop {
        given.get(first_state..)
    } else {
        None
    };
    let states = states.unwrap_or(&[]);
    let mut all: Option<Vec<Option<Small>>> = None;
    let mut is_clear = true;
    for (_, attribute) in &mut node.attributes {
        let Attribute::Graph(graph) = attribute else {
            continue;
        };
        let captured = graph.captures.iter().map(|one| (one.here, one.around));
        let mut held: Held = captured
            .filter_map(|(here, outside)| Some((here, *around.get(&outside)?)))
            .collect();
        for (&id, given) in graph.inputs.iter().zip(given) {
            held.extend(given.map(|small| (id, small)));
        }
        let held = settle(graph, held)?;
        let outputs = graph.outputs.iter().skip(first_output);
        let made: Vec<Option<Small>> = outputs.map(|id| held.get(id).copied()).collect();
        // A state is of one type in all rounds, and both branches make the same.
        is_clear &= made.starts_with(states) && all.as_ref().is_none_or(|all| *all == made);
        all = Some(made);
    }
    match is_clear {
        true => Ok(all.unwrap_or_default()),
        false => Err(of_node(
            NodeError::malformed(
                "the types of what the graphs inside make",
                "different",
                "the same, and those of the states that go in",
            ),
            node,
        )),
    }
}

/// Of which of these types what a node makes is, where its inputs are of `types`.
fn made(node: &mut Node, types: &[Option<Small>]) -> Result<Option<Small>, NodeError> {
    let at = |place: usize| types.get(place).copied().flatten();
    let only_at = |allowed: &[usize]| {
        let mut given = types.iter().enumerate();
        given.all(|(place, given)| given.is_none() || allowed.contains(&place))
    };
    // Scales may be powers of two, and of no other of these types.
    let scale_fits = at(1).is_none_or(Small::is_exponent);
    let named = |name: &str| i32::try_from(node.int(name, 0)).ok().and_then(Small::of);
    let is_onnx = node.operator.domain == Domain::Onnx;
    if is_onnx && node.is("Cast") {
        return Ok(named("to"));
    }
    if is_onnx && node.is("CastLike") {
        if let Some(to) = at(1) {
            node.operator = Operator::onnx("Cast", node.operator.version);
            node.inputs.truncate(1);
            node.attributes.push(to.attribute("to"));
        }
        return Ok(at(1));
    }
    let is_known = matches!(node.operator.domain, Domain::Onnx | Domain::Microsoft);
    let [quantises, dequantises, gathers] =
        ["QuantizeLinear", "DequantizeLinear", "GatherBlockQuantized"]
            .map(|name| is_known && node.operator.name == name);
    if quantises && only_at(&[1, 2]) && scale_fits {
        let named = named("output_dtype");
        if let (None, Some(to)) = (named, at(2)) {
            // That of `com.microsoft` does the same, but cannot be told.
            node.operator = Operator::onnx("QuantizeLinear", QUANTISATION_OF_ALL);
            node.attributes.push(to.attribute("output_dtype"));
        }
        return Ok(named.or(at(2)));
    }
    if types.iter().all(Option::is_none) {
        return Ok(None);
    }
    if gathers && only_at(&[0, 3]) {
        return as_bytes(node, [at(0), at(3)]).map(|()| None);
    }
    if dequantises && only_at(&[0, 1, 2]) && scale_fits
        || is_onnx && node.is_among("Shape Size") && only_at(&[0])
    {
        return Ok(None);
    }
    if is_onnx && node.is_among(MOVING) && only_at(&[0])
        || is_onnx && node.is("Concat") && types.iter().all(|one| *one == at(0))
    {
        return Ok(at(0));
    }
    Err(refused())
}

/// Tells a choice of rows that what lies in its bytes is a number each, of types of the data and of the zero points.
fn as_bytes(node: &mut Node, types: [Option<Small>; 2]) -> Result<(), NodeError> {
    let [data, zeros] = types;
    let fits = match data.map(Small::dtype) {
        Some(DType::I8) => zeros.is_none() || zeros == data,
        // Without zero points these would be in the middle.
        Some(DType::U8) => zeros == data,
        _ => false,
    };
    if !fits {
        return Err(refused());
    }
    node.attributes.retain(|(name, _)| name != "bits");
    node.attributes.push(("bits".to_owned(), Attribute::Int(8)));
    Ok(())
}
