//! What became of the tests, by family of operators.

use std::collections::BTreeMap;

use crate::exclusions::{self, Exclusion};
use crate::nodes;
use crate::proto::{Graph, Model, ValueInfo};
use crate::tensors;

/// At least this share of the tests of ONNX's own operators on types we have has to pass.
const SHARE: f64 = 0.95;

/// What became of one test.
pub struct Outcome {
    name: String,
    family: &'static str,
    /// Whether it asks for nothing but ONNX's own operators on types we have.
    counts: bool,
    result: Result<(), String>,
}

impl Outcome {
    pub fn new(name: &str, model: &Model, result: Result<(), String>) -> Outcome {
        let graph = model.graph.as_ref();
        Outcome {
            name: name.to_owned(),
            family: graph.map_or("none", family),
            counts: graph.is_some_and(counts),
            result,
        }
    }
}

/// The family of a graph's one operator.
fn family(graph: &Graph) -> &'static str {
    match &graph.nodes[..] {
        [node] if node.domain.is_empty() => nodes::family(&node.op).unwrap_or("other"),
        [_] => "other domains",
        _ => "function bodies",
    }
}

fn counts(graph: &Graph) -> bool {
    let values = || graph.inputs.iter().chain(&graph.outputs);
    graph.nodes.iter().all(|node| node.domain.is_empty()) && values().all(ValueInfo::is_known)
}

impl ValueInfo {
    /// Whether it is a tensor.
    pub fn is_tensor(&self) -> bool {
        self.kind.as_ref().is_some_and(|kind| kind.tensor.is_some())
    }

    /// Whether it is a tensor of a type we have.
    fn is_known(&self) -> bool {
        let tensor = self.kind.as_ref().and_then(|kind| kind.tensor.as_ref());
        tensor.is_some_and(|tensor| tensors::dtype(i64::from(tensor.element)).is_ok())
    }
}

/// What became of all tests.
#[derive(Default)]
pub struct Report {
    outcomes: Vec<Outcome>,
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    excluded: usize,
}

impl Report {
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Prints how many passed in each family.
    pub fn print(&self) {
        let exclusions = exclusions::all();
        let mut families: BTreeMap<&str, Count> = BTreeMap::new();
        for outcome in &self.outcomes {
            let count = families.entry(outcome.family).or_default();
            match (excluded(&exclusions, outcome), &outcome.result) {
                (true, _) => count.excluded += 1,
                (false, Ok(())) => count.passed += 1,
                (false, Err(_)) => count.failed += 1,
            }
        }
        println!(
            "{:<16} {:>6} {:>6} {:>8}",
            "family", "passed", "failed", "excluded"
        );
        for (family, count) in families {
            let Count {
                passed,
                failed,
                excluded,
            } = count;
            println!("{family:<16} {passed:>6} {failed:>6} {excluded:>8}");
        }
        let (passed, all) = self.share();
        println!(
            "{passed} of {all} tests of ONNX's own operators on our types pass: {:.1} %",
            100.0 * passed as f64 / all.max(1) as f64
        );
    }

    /// Panics unless all is as it should be; with all tests there are, also if an exclusion fits none.
    pub fn check(&self, complete: bool) {
        let exclusions = exclusions::all();
        let mut wrong = Vec::new();
        for outcome in &self.outcomes {
            match (excluded(&exclusions, outcome), &outcome.result) {
                (false, Err(why)) => wrong.push(format!("{}: {why}", outcome.name)),
                (true, Ok(())) => wrong.push(format!("{}: is excluded, but passes", outcome.name)),
                _ => {}
            }
        }
        for exclusion in exclusions.iter().filter(|_| complete) {
            let used = |outcome: &Outcome| exclusion.matches(&outcome.name);
            if !self.outcomes.iter().any(used) {
                wrong.push(format!("exclusion {} fits no test", exclusion.pattern));
            }
            if exclusion.reason.is_empty() {
                wrong.push(format!("exclusion {} has no reason", exclusion.pattern));
            }
        }
        wrong.sort();
        assert!(
            wrong.is_empty(),
            "{} wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        let (passed, all) = self.share();
        assert!(
            !complete || passed as f64 >= SHARE * all as f64,
            "only {passed} of {all} pass"
        );
    }

    fn share(&self) -> (usize, usize) {
        let ours = self.outcomes.iter().filter(|outcome| outcome.counts);
        let results: Vec<bool> = ours.map(|outcome| outcome.result.is_ok()).collect();
        (
            results.iter().filter(|passed| **passed).count(),
            results.len(),
        )
    }
}

fn excluded(exclusions: &[Exclusion], outcome: &Outcome) -> bool {
    exclusions
        .iter()
        .any(|exclusion| exclusion.matches(&outcome.name))
}
