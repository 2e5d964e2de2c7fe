//! Rewrites of a graph, once, when a model is loaded: what is known already is computed, what nobody needs is dropped,
//! and several nodes that one operator does better become that one.
//!
//! Each rewrite is certain to keep what the graph computes, but for the rounding of the last bits: it is made only if all
//! that it relies on can be seen in the graph.

mod activation;
mod attention;
mod concat;
mod conv;
mod dead;
mod editor;
mod einsum;
mod factors;
mod few_bits;
mod fold;
mod half;
mod identity;
mod inline;
mod linear;
mod norm;
mod pack;
mod quantised;
mod rank;
mod report;
mod rotary;
mod shortened;
mod sizes;
mod stays_f32;
mod sweep;
#[cfg(test)]
mod tests;

use streampool_runtime::Budget;
use streampool_tensor::Pool;

use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use editor::Editor;

pub use half::shorten;
pub use report::{Fusion, Report};

/// Rewrites what a node ends, if it ends something that is known here.
type Rewrite = fn(&mut Editor<'_>, usize) -> Option<()>;

/// In this order: what a later one makes use of comes first.
const REWRITES: [Rewrite; 11] = [
    sizes::keep_sizes,
    concat::fuse,
    einsum::fuse,
    activation::fuse,
    rotary::fuse,
    norm::fuse,
    few_bits::fuse,
    linear::fuse,
    conv::fuse,
    attention::fuse,
    pack::fuse,
];

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
    if graph.nodes.iter().any(|node| node.is("DequantizeLinear")) {
        rewrite(
            graph,
            known,
            report,
            &[quantised::hoist, quantised::fuse, quantised::round],
        )?;
    }
    sweep::sweep(graph, known, report, simplify_one)?;
    report.removed += dead::remove(graph);
    rewrite(graph, known, report, &REWRITES)?;
    dead::remove(graph);
    Ok(())
}

fn rewrite(
    graph: &mut Graph,
    known: &Pool,
    report: &mut Report,
    rewrites: &[Rewrite],
) -> Result<()> {
    let mut editor = Editor::new(graph, known);
    for rewrite in rewrites {
        for place in 0..editor.len() {
            // `None` says that there is nothing to rewrite.
            let _ = rewrite(&mut editor, place);
        }
    }
    report.fusions.extend(editor.finish());
    graph.sort().map_err(Error::Graph)
}

fn count(graph: &Graph) -> usize {
    let inside = |node: &Node| node.graphs().map(count).sum::<usize>();
    graph.nodes.iter().map(|node| 1 + inside(node)).sum()
}
