//! From the first node to the last: nodes that do nothing go, nodes whose inputs are known are computed, and the branch
//! that is known to be taken takes the place of its node.

use std::collections::{HashMap, HashSet};

use streampool_tensor::{DType, Pool};

use super::report::Report;
use super::{fold, identity, inline};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId, ValueInfo};

/// What is known of values on the way.
struct Known {
    /// What a value is called now.
    names: HashMap<ValueId, ValueId>,
    /// Types that are certain.
    types: HashMap<ValueId, DType>,
    /// What nodes of this graph make.
    made: HashSet<ValueId>,
    outputs: HashSet<ValueId>,
}

impl Known {
    fn new(graph: &Graph) -> Known {
        Known {
            names: HashMap::new(),
            types: identity::given(graph),
            made: HashSet::new(),
            outputs: graph.outputs.iter().copied().collect(),
        }
    }

    /// What a value is called now.
    fn name(&self, mut id: ValueId) -> ValueId {
        while let Some(&next) = self.names.get(&id) {
            id = next;
        }
        id
    }

    /// Makes two values one, if both need not stay.
    fn unite(&mut self, from: ValueId, to: ValueId) -> bool {
        if !self.outputs.contains(&to) {
            self.names.insert(to, from);
            return true;
        }
        // An output keeps its name: the node before is told to make it.
        let free = self.made.contains(&from) && !self.outputs.contains(&from);
        if free {
            self.names.insert(from, to);
            self.made.insert(to);
        }
        free
    }

    fn rename(&self, node: &mut Node) {
        for id in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *id = self.name(*id);
        }
        for (_, attribute) in &mut node.attributes {
            if let Attribute::Graph(graph) = attribute {
                for capture in &mut graph.captures {
                    capture.around = self.name(capture.around);
                }
            }
        }
    }
}

/// Rewrites a graph whose constants are in this pool.
type Rewrite = fn(&mut Graph, &Pool, &mut Report) -> Result<()>;

/// Sweeps one graph; `inside` rewrites those inside its nodes.
pub fn sweep(graph: &mut Graph, pool: &Pool, report: &mut Report, inside: Rewrite) -> Result<()> {
    let mut known = Known::new(graph);
    let mut coming = std::mem::take(&mut graph.nodes);
    coming.reverse();
    while let Some(mut node) = coming.pop() {
        known.rename(&mut node);
        if let Some(branch) = inline::taken(graph, &mut node) {
            report.removed += 1;
            coming.extend(branch.into_iter().rev());
            continue;
        }
        for (_, attribute) in &mut node.attributes {
            if let Attribute::Graph(inner) = attribute {
                hand_constants(graph, inner);
                forget_declared(inner);
                inside(inner, pool, report)?;
            }
        }
        if let (Some(from), Some(&Some(to))) = (
            identity::source(graph, &known.types, &node),
            node.outputs.first(),
        ) {
            let constant = graph.constants.get(&from).cloned();
            if let Some(constant) = constant.filter(|_| known.outputs.contains(&to)) {
                graph.constants.insert(to, constant);
                report.removed += 1;
                continue;
            }
            if known.unite(from, to) {
                report.removed += 1;
                continue;
            }
        }
        if let Some(made) = fold::folded(graph, &node, pool) {
            for (&id, tensor) in node.outputs.iter().zip(made) {
                if let Some(id) = id {
                    known.types.insert(id, tensor.dtype());
                    graph.constants.insert(id, tensor);
                }
            }
            report.folded += 1;
            continue;
        }
        if let (Some(dtype), Some(&Some(id))) =
            (identity::dtype(&known.types, &node), node.outputs.first())
        {
            known.types.insert(id, dtype);
        }
        known.made.extend(node.outputs.iter().flatten());
        graph.nodes.push(node);
    }
    for node in &mut graph.nodes {
        known.rename(node);
    }
    Ok(())
}

/// What a graph inside a node declares of its inputs, nobody compares with what it is given, which may be of another
/// shape in each round.
fn forget_declared(inner: &mut Graph) {
    // Of one that is handed on, it says what there is after no round at all.
    let outputs = &inner.outputs;
    let read = inner.inputs.iter().filter(|id| !outputs.contains(id));
    for id in read.copied().collect::<Vec<_>>() {
        let name = inner.name(id).to_owned();
        inner.declare(id, ValueInfo::named(name));
    }
}

/// Gives a graph inside a node the constants that it captures.
fn hand_constants(graph: &Graph, inner: &mut Graph) {
    let constants = &mut inner.constants;
    inner
        .captures
        .retain(|capture| match graph.constants.get(&capture.around) {
            Some(tensor) => {
                constants.insert(capture.here, tensor.clone());
                false
            }
            None => true,
        });
}
