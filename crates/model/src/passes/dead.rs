//! Drops what nobody needs.

use crate::graph::{Domain, Graph, Node};

/// Drops nodes, outputs, constants and captures that nothing reads; says how many nodes it were.
pub fn remove(graph: &mut Graph) -> usize {
    let mut live = vec![false; graph.value_count()];
    for id in &graph.outputs {
        live[id.index()] = true;
    }
    let before = graph.nodes.len();
    let mut kept = Vec::new();
    for mut node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        let outputs = node.outputs.iter().flatten();
        if !outputs.clone().any(|id| live[id.index()]) {
            continue;
        }
        for output in &mut node.outputs {
            *output = output.filter(|id| live[id.index()]);
        }
        trim(&mut node);
        for id in node.reads() {
            live[id.index()] = true;
        }
        kept.push(node);
    }
    kept.reverse();
    graph.nodes = kept;
    graph.constants.retain(|id, _| live[id.index()]);
    graph.captures.retain(|capture| live[capture.here.index()]);
    before - graph.nodes.len()
}

/// Leaves out the last outputs if nobody reads them, so that nobody makes them.
fn trim(node: &mut Node) {
    // By its outputs it knows how many parts to make.
    if node.operator.domain == Domain::Onnx && node.operator.name == "Split" {
        return;
    }
    while node.outputs.last().is_some_and(Option::is_none) {
        node.outputs.pop();
    }
}
