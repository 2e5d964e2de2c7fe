//! What became of the tests, by family of operators.

use std::collections::BTreeMap;

use streampool_model::graph::{Domain, Graph, Node};
use streampool_model::onnx::Model;
use streampool_model::testing;

use crate::exclusions::{self, Exclusion};

/// At least this share of the tests of ONNX's own operators on types we have has to pass.
const SHARE: f64 = 0.95;

/// What became of one test.
pub struct Outcome {
    name: String,
    family: &'static str,
    /// Whether it can be read, and asks for nothing but ONNX's own operators.
    counts: bool,
    result: Result<(), String>,
}

impl Outcome {
    /// `model` is the test's, if it can be read.
    pub fn new(name: &str, model: Option<&Model>, result: Result<(), String>) -> Outcome {
        Outcome {
            name: name.to_owned(),
            family: model.map_or("unreadable", |model| family(&model.graph)),
            counts: model.is_some_and(|model| counts(&model.graph)),
            result,
        }
    }
}

/// The family of a graph's one operator.
fn family(graph: &Graph) -> &'static str {
    match &graph.nodes[..] {
        [node] => testing::family(&node.operator).unwrap_or("other"),
        _ => "several nodes",
    }
}

fn counts(graph: &Graph) -> bool {
    let own = |node: &Node| node.operator.domain == Domain::Onnx;
    graph.nodes.iter().all(own)
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
