//! What can be said of a model before it runs.

use std::collections::BTreeMap;

use crate::error::{Error, Result, UnsupportedOperator};
use crate::graph::{Domain, Graph, Operator};
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

/// What to do without an operator that there is not.
fn advice(operator: &Operator) -> Option<String> {
    const SEARCHES: [&str; 4] = [
        "BeamSearch",
        "GreedySearch",
        "Sampling",
        "WhisperBeamSearch",
    ];
    let is_search = operator.domain == Domain::Microsoft && SEARCHES.contains(&&operator.name[..]);
    is_search.then(|| {
        "it chooses tokens inside of the model: export the decoder alone, with its past as inputs and outputs (`optimum-cli export \
         onnx --task text-generation-with-past`), and choose the tokens in a loop around it"
            .to_owned()
    })
}

/// An operator, why it is not supported, and the nodes.
type Places = (Operator, Option<String>, Vec<String>);

fn collect(graph: &Graph, unsupported: &mut BTreeMap<(String, Option<String>), Places>) {
    for node in &graph.nodes {
        let why = nodes::surplus(node).or_else(|| advice(&node.operator));
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
