//! What can be said of a model before it runs.

use std::collections::BTreeMap;

use crate::error::{Error, Result, UnsupportedOperator};
use crate::graph::{Graph, Operator};
use crate::nodes;

/// Refuses a graph with operators that there are not, or with inputs or attributes that these do not have; the error lists
/// every place of each.
pub fn check_operators(graph: &Graph) -> Result<()> {
    let mut unsupported = BTreeMap::new();
    collect(graph, &mut unsupported);
    if unsupported.is_empty() {
        return Ok(());
    }
    let each = unsupported
        .into_values()
        .map(|(operator, why, nodes)| UnsupportedOperator {
            operator,
            why,
            nodes,
        });
    Err(Error::Unsupported(each.collect()))
}

/// An operator, why it is not supported, and the nodes.
type Places = (Operator, Option<String>, Vec<String>);

fn collect(graph: &Graph, unsupported: &mut BTreeMap<(String, Option<String>), Places>) {
    for node in &graph.nodes {
        let why = nodes::surplus(node);
        if why.is_some() || !nodes::supports(&node.operator) {
            let entry = unsupported.entry((node.operator.to_string(), why.clone()));
            let (.., nodes) = entry.or_insert_with(|| (node.operator.clone(), why, Vec::new()));
            nodes.push(node.name.clone());
        }
        for inner in node.graphs() {
            collect(inner, unsupported);
        }
    }
}
