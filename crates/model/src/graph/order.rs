//! Puts nodes in an order in which each comes after what it reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Graph, Node};
use crate::error::NodeError;

impl Graph {
    /// Sorts the nodes; those that are in order stay so. An error names the nodes of a cycle.
    pub(crate) fn sort(&mut self) -> Result<(), NodeError> {
        let makers = self.makers();
        let maker = |node: &Node| -> Vec<usize> {
            node.reads().filter_map(|id| makers[id.index()]).collect()
        };
        let reads: Vec<Vec<usize>> = self.nodes.iter().map(maker).collect();
        let sorted = reads
            .iter()
            .enumerate()
            .all(|(place, makers)| makers.iter().all(|&maker| maker < place));
        if sorted {
            return Ok(());
        }
        let mut readers = vec![Vec::new(); self.nodes.len()];
        for (node, makers) in reads.iter().enumerate() {
            for &maker in makers {
                readers[maker].push(node);
            }
        }
        let mut missing: Vec<usize> = reads.iter().map(Vec::len).collect();
        let free = (0..missing.len()).filter(|&node| missing[node] == 0);
        let mut ready: BinaryHeap<Reverse<usize>> = free.map(Reverse).collect();
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(Some)
            .collect();
        while let Some(Reverse(place)) = ready.pop() {
            self.nodes.extend(nodes[place].take());
            for &reader in &readers[place] {
                missing[reader] -= 1;
                if missing[reader] == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
        match nodes.iter().position(Option::is_some) {
            None => Ok(()),
            Some(left) => Err(cycle(&nodes, &reads, left)),
        }
    }

    /// The node that makes each value, if one does.
    fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.value_count()];
        for (place, node) in self.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                makers[id.index()] = Some(place);
            }
        }
        makers
    }
}

/// How many nodes of a cycle are told.
const TOLD: usize = 8;

/// The cycle that keeps the node `left` from being sorted.
fn cycle(nodes: &[Option<Node>], reads: &[Vec<usize>], left: usize) -> NodeError {
    let mut seen = vec![None; nodes.len()];
    let mut path = Vec::new();
    let mut at = Some(left);
    while let Some(place) = at.filter(|&place| seen[place].is_none()) {
        seen[place] = Some(path.len());
        path.push(place);
        at = reads[place]
            .iter()
            .copied()
            .find(|&maker| nodes[maker].is_some());
    }
    let first = at.and_then(|place| seen[place]).unwrap_or(0);
    let cycle = &path[first..];
    let names = cycle
        .iter()
        .rev()
        .take(TOLD)
        .filter_map(|&place| nodes[place].as_ref());
    let mut names: Vec<String> = names.map(|node| format!("{:?}", node.name)).collect();
    if cycle.len() > TOLD {
        names.push(format!("and {} more", cycle.len() - TOLD));
    }
    NodeError::malformed(
        "the order of nodes",
        format!("a cycle of {}", names.join(", ")),
        "without cycles",
    )
}
