//! What can be said of a model before it runs.

use std::collections::BTreeMap;

use crate::error::{Error, Result, UnsupportedOperator};
use crate::graph::{Graph, Operator};
use crate::nodes;

/// Refuses a graph with operators that there are not; the error lists every place of each.
pub fn check_operators(graph: &Graph) -> Result<()> {
    let mut unsupported = BTreeMap::new();
    collect(graph, &mut unsupported);
    if unsupported.is_empty() {
        return Ok(());
    }
    let each = unsupported
        .into_values()
        .map(|(operator, nodes)| UnsupportedOperator {
            operator,
            why: None,
            nodes,
        });
    Err(Error::Unsupported(each.collect()))
}

fn collect(graph: &Graph, unsupported: &mut BTreeMap<String, (Operator, Vec<String>)>) {
    for node in &graph.nodes {
        if !nodes::supports(&node.operator) {
            let entry = unsupported.entry(node.operator.to_string());
            let (_, nodes) = entry.or_insert_with(|| (node.operator.clone(), Vec::new()));
            nodes.push(node.name.clone());
        }
        for inner in node.graphs() {
            collect(inner, unsupported);
        }
    }
}
