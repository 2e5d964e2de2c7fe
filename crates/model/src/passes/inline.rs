//! The branch of an `If` that is known to be taken.

use std::collections::HashMap;

use streampool_tensor::DType;

use crate::graph::{Attribute, Graph, Node, Operator, ValueId};

/// The nodes of the branch that `node` takes, as nodes of `graph`; `None` if that is not known.
pub fn taken(graph: &mut Graph, node: &mut Node) -> Option<Vec<Node>> {
    if !node.is("If") {
        return None;
    }
    let condition = graph.constants.get(&node.input(0)?)?;
    let condition = condition.to_dtype(DType::Bool).ok()?.item::<bool>().ok()?;
    let name = if condition {
        "then_branch"
    } else {
        "else_branch"
    };
    let (_, branch) = node
        .attributes
        .iter_mut()
        .find(|(other, _)| other == name)?;
    let Attribute::Graph(branch) = branch else {
        return None;
    };
    if !branch.inputs.is_empty() || branch.outputs.len() < node.outputs.len() {
        return None;
    }
    Some(moved(graph, std::mem::take(&mut **branch), &node.outputs))
}

/// The nodes of a graph without inputs, as nodes of the graph around it, where its outputs are `outputs`.
fn moved(graph: &mut Graph, mut branch: Graph, outputs: &[Option<ValueId>]) -> Vec<Node> {
    let captures = branch.captures.iter();
    let mut places: HashMap<ValueId, ValueId> = captures
        .map(|capture| (capture.here, capture.around))
        .collect();
    for id in branch.ids() {
        let info = || branch.value(id).clone();
        places.entry(id).or_insert_with(|| graph.add_value(info()));
    }
    let place = |id: &mut ValueId| {
        if let Some(&around) = places.get(id) {
            *id = around;
        }
    };
    for (mut id, tensor) in branch.constants.drain() {
        place(&mut id);
        graph.constants.insert(id, tensor);
    }
    let mut nodes = std::mem::take(&mut branch.nodes);
    for node in &mut nodes {
        node.inputs
            .iter_mut()
            .chain(&mut node.outputs)
            .flatten()
            .for_each(place);
        for (_, attribute) in &mut node.attributes {
            if let Attribute::Graph(inner) = attribute {
                inner
                    .captures
                    .iter_mut()
                    .for_each(|capture| place(&mut capture.around));
            }
        }
    }
    for (mut from, to) in branch.outputs.into_iter().zip(outputs) {
        let Some(to) = *to else { continue };
        place(&mut from);
        nodes.push(Node {
            name: graph.name(to).to_owned(),
            operator: Operator::onnx("Identity", 1),
            inputs: vec![Some(from)],
            outputs: vec![Some(to)],
            attributes: Vec::new(),
        });
    }
    nodes
}
