//! Runs shipped code under random interleavings, and checks that what it did is a path of its specification's state graph.
//! `verify-traces SCENARIO GRAPH COUNT [spoil]`, or `verify-traces SCENARIO GRAPH refuses FILE` for traces that were spoiled by hand.

// For `turns.rs`, which takes its locks from there.
extern crate self as streampool_device;

#[allow(dead_code)]
#[path = "../../../crates/batch/src/alarm.rs"]
mod alarm;
mod batch;
#[allow(dead_code, unused_imports)]
#[path = "../../../crates/batch/src/engine/mod.rs"]
mod engine;
mod fake;
mod faults;
#[allow(dead_code)]
#[path = "../../../crates/batch/src/figures.rs"]
mod figures;
mod graph;
#[allow(dead_code)]
#[path = "../../../crates/batch/src/histogram.rs"]
mod histogram;
mod leases;
pub mod lock;
#[allow(dead_code)]
#[path = "../../../crates/batch/src/outcome.rs"]
mod outcome;
mod record;
#[allow(dead_code, unused_imports)]
#[path = "../../../crates/batch/src/schedule/mod.rs"]
mod schedule;
#[allow(dead_code)]
#[path = "../../../crates/runtime/src/slots.rs"]
mod slots;
mod streams;
mod sync;
mod turns;
#[allow(dead_code)]
#[path = "../../../crates/runtime/src/waiters.rs"]
mod waiters;

/// `streampool_device::lock` has ranks, which the debug builds of the crates check.
mod ranks {
    pub const TURNS: () = ();
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// One execution with this seed: what was seen, or `None` if threads slept for ever or an assertion failed.
fn execute(scenario: &'static str, seed: u64) -> Option<Vec<String>> {
    if let Some(ops) = scenario.strip_prefix("streams") {
        let most = ops.parse().expect("how many ops");
        return catch_unwind(|| streams::execution(seed, most)).ok();
    }
    if scenario == "faults" {
        return catch_unwind(|| faults::execution(seed)).ok();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000);
    let scheduler: Box<dyn Scheduler + Send> = match seed % 3 {
        0 => Box::new(PctScheduler::new_from_seed(seed, 3, 1)),
        _ => Box::new(RandomScheduler::new_from_seed(seed, 1)),
    };
    let run = catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(move || {
            match scenario {
                "leases" => leases::execution(1),
                "batch" => batch::execution(1, false, false),
                "closing" => batch::execution(1, true, false),
                "cancelling" => batch::execution(1, false, true),
                "turns" => turns::execution(),
                other => panic!("no scenario {other}"),
            }
            let kept = batch::kept();
            *into.lock().unwrap() = if kept.is_empty() { record::end() } else { kept };
        });
    }));
    record::end();
    run.ok()?;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    Some(seen)
}

/// Spoils a trace: a state is left out, comes twice as another, or two change places.
fn spoil(trace: &mut Vec<String>, seed: u64) {
    let place = 1 + seed as usize % (trace.len() - 2);
    match seed % 3 {
        0 => {
            trace.remove(place);
        }
        1 => trace.swap(place, place + 1),
        _ => trace[place] = trace[(place + 2) % trace.len()].clone(),
    }
    trace.dedup();
}

/// Whether each trace of the file is refused, and no sooner than at the state that is marked with `!`. Empty lines are between traces, and
/// lines with `#` say what is wrong.
fn refuses(graph: &mut graph::Graph, file: &str) -> bool {
    let text = std::fs::read_to_string(file).expect("the traces");
    let (mut count, mut right) = (0, 0);
    for lines in text.trim().split("\n\n") {
        let states = lines.lines().filter(|line| !line.starts_with('#'));
        let marked: Vec<&str> = states.collect();
        let wrong = marked.iter().position(|line| line.starts_with('!'));
        let wrong = wrong.expect("the state that is wrong");
        let trace: Vec<String> = marked
            .iter()
            .map(|line| line.trim_start_matches('!').to_owned())
            .collect();
        let verdict = graph.accepts(&trace);
        count += 1;
        match verdict == Err(wrong) {
            true => right += 1,
            false => println!("{file}: {verdict:?}, and not at {wrong}:\n{lines}"),
        }
    }
    println!("{file}: {right} of {count} refused");
    right == count
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, scenario, graph, count, rest @ ..] = &arguments[..] else {
        panic!("verify-traces SCENARIO GRAPH COUNT [spoil]");
    };
    let scenario: &'static str = Box::leak(scenario.clone().into_boxed_str());
    let mut graph = graph::Graph::read(&std::fs::read_to_string(graph).expect("the graph"));
    if count == "refuses" {
        std::process::exit(i32::from(!refuses(&mut graph, &rest[0])));
    }
    let count: u64 = count.parse().expect("how many");
    let spoils = rest.iter().any(|word| word == "spoil");
    std::panic::set_hook(Box::new(|_| {}));
    let (mut accepted, mut refused, mut stuck, mut states, mut told) = (0, 0, 0, 0, 0);
    let mut distinct = std::collections::HashSet::new();
    let begun = std::time::Instant::now();
    for seed in 0..count {
        let Some(mut trace) = execute(scenario, seed) else {
            stuck += 1;
            continue;
        };
        if spoils {
            if trace.len() < 4 {
                continue;
            }
            let before = trace.clone();
            spoil(&mut trace, seed);
            if trace == before {
                continue;
            }
        }
        states += trace.len();
        distinct.insert(trace.join("|"));
        match graph.accepts(&trace) {
            Ok(()) => accepted += 1,
            Err(place) => {
                refused += 1;
                if told < 2 && !spoils {
                    told += 1;
                    println!("seed {seed}: refused at {place} of {}:", trace.len());
                    for look in &trace[place.saturating_sub(6)..(place + 2).min(trace.len())] {
                        println!("    {look}");
                    }
                }
            }
        }
    }
    let (nodes, edges) = graph.size();
    println!(
        "{scenario}: {accepted} accepted, {refused} refused, {stuck} stuck; {} distinct, {states} states; graph of {nodes} states, {edges} edges; {:.0} s",
        distinct.len(),
        begun.elapsed().as_secs_f64()
    );
}
