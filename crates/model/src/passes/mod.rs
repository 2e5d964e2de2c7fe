//! Rewrites of a graph, once, when a model is loaded: what is known already is computed, what nobody needs is dropped,
//! and several nodes that one operator does better become that one.
//!
//! Each rewrite is certain to keep what the graph computes, but for the rounding of the last bits: it is made only if all
//! that it relies on can be seen in the graph.

mod activation;
mod attention;
mod blocks;
mod conv;
mod dead;
mod editor;
mod factors;
mod fold;
mod half;
mod identity;
mod inline;
mod linear;
mod norm;
mod pack;
mod rank;
mod saturate;
mod sweep;
#[cfg(test)]
mod tests;
mod wide;

use streampool_runtime::Budget;
use streampool_tensor::Pool;

use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node};
use editor::Editor;

/// What was rewritten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Several nodes that became one.
    pub fusions: Vec<Fusion>,
    /// Nodes whose results are known.
    pub folded: usize,
    /// Nodes that did nothing, or that nobody needs.
    pub removed: usize,
    /// How many nodes there were, those of graphs inside nodes included.
    pub before: usize,
    /// How many there are.
    pub after: usize,
}

/// Several nodes that became one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fusion {
    /// What they became.
    pub what: &'static str,
    /// The name of the node that they became.
    pub name: String,
    /// The names that they had.
    pub nodes: Vec<String>,
}

/// Rewrites what a node ends, if it ends something that is known here.
type Rewrite = fn(&mut Editor<'_>, usize) -> Option<()>;

/// In this order: what a later one makes use of comes first.
const REWRITES: [Rewrite; 7] = [
    activation::fuse,
    norm::fuse,
    blocks::fuse,
    linear::fuse,
    conv::fuse,
    attention::fuse,
    pack::fuse,
];

pub use half::shorten;

/// What folding goes over at most, as [`Op::work`](streampool_runtime::Op::work) counts: some seconds. What is left then is
/// computed when the model is run.
const MOST_FOLDED: u64 = 1 << 34;

/// Rewrites a graph whose constants are in the pool `known`, on the host.
pub fn simplify(graph: &mut Graph, known: &Pool) -> Result<Report> {
    simplify_within(graph, known, MOST_FOLDED)
}

fn simplify_within(graph: &mut Graph, known: &Pool, most_folded: u64) -> Result<Report> {
    let mut report = Report {
        before: count(graph),
        ..Report::default()
    };
    let folding = Budget {
        work: most_folded,
        ..Budget::UNLIMITED
    };
    folding.spend(|| simplify_one(graph, known, &mut report))?;
    report.after = count(graph);
    Ok(report)
}

/// One graph, and those inside its nodes.
fn simplify_one(graph: &mut Graph, known: &Pool, report: &mut Report) -> Result<()> {
    sweep::sweep(graph, known, report)?;
    report.removed += dead::remove(graph);
    let mut editor = Editor::new(graph, known);
    for rewrite in REWRITES {
        for place in 0..editor.len() {
            // `None` says that there is nothing to rewrite.
            let _ = rewrite(&mut editor, place);
        }
    }
    report.fusions.extend(editor.finish());
    graph.sort().map_err(Error::Graph)?;
    dead::remove(graph);
    Ok(())
}

fn count(graph: &Graph) -> usize {
    let inside = |node: &Node| node.graphs().map(count).sum::<usize>();
    graph.nodes.iter().map(|node| 1 + inside(node)).sum()
}

/// An integer attribute, or what it is when left out.
fn int(node: &Node, name: &str, default: i64) -> i64 {
    match node.attribute(name) {
        Some(Attribute::Int(value)) => *value,
        _ => default,
    }
}

/// A float attribute, or what it is when left out.
fn float(node: &Node, name: &str, default: f32) -> f32 {
    match node.attribute(name) {
        Some(Attribute::Float(value)) => *value,
        _ => default,
    }
}

/// A string attribute, or what it is when left out.
fn string<'a>(node: &'a Node, name: &str, default: &'a str) -> &'a str {
    match node.attribute(name) {
        Some(Attribute::String(value)) => value,
        _ => default,
    }
}

/// Integers, if they are there.
fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    match node.attribute(name) {
        Some(Attribute::Ints(values)) => Some(values),
        _ => None,
    }
}
