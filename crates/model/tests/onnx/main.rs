//! The operators against references no one here wrote: the node tests of ONNX.
//!
//! Each test is a small graph with inputs and the outputs that are expected. An evaluator walks the graph and computes
//! every node with operators of tensors; eight threads take the tests in turn, on one pool.

mod compare;
mod device;
mod error;
mod exclusions;
mod graph;
mod node;
mod nodes;
mod package;
mod proto;
mod report;
mod tensors;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use package::Case;
use proto::Model;
use report::{Outcome, Report};
use streampool_tensor::{Pool, Tensor};
use tensors::Array;

const THREADS: usize = 8;

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "installs a package, and takes long"
)]
fn operators_agree_with_the_node_tests_of_onnx() {
    let (pool, cases) = match device::pool().and_then(|pool| Ok((pool, package::cases()?))) {
        Ok(found) => found,
        Err(why) => return println!("skipped: {why}"),
    };
    let only = std::env::var("ONNX_ONLY").ok();
    let chosen: Vec<Case> = cases
        .into_iter()
        .filter(|case| only.as_ref().is_none_or(|only| case.name.contains(only)))
        .collect();
    let report = Mutex::new(Report::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let model = case.model();
                    let run = || tested(&pool, case, &model);
                    let result = catch_unwind(AssertUnwindSafe(run))
                        .unwrap_or_else(|_| Err("it panics".to_owned()));
                    let outcome = Outcome::new(&case.name, &model, result);
                    report
                        .lock()
                        .expect("no thread panics with it")
                        .add(outcome);
                }
            });
        }
    });
    let report = report.into_inner().expect("no thread panics with it");
    report.print();
    report.check(only.is_none());
}

/// Whether the model gives what is expected; or why not.
fn tested(pool: &Pool, case: &Case, model: &Model) -> Result<(), String> {
    let graph = model.graph.as_ref().ok_or("the model has no graph")?;
    let inputs = (0..graph.inputs.len())
        .map(|place| match case.input(place) {
            Some(_) if !graph.inputs[place].is_tensor() => {
                Err(format!("input {place} is no tensor"))
            }
            Some(proto) => proto
                .tensor(pool)
                .map(Some)
                .map_err(|error| error.to_string()),
            None => Ok(None),
        })
        .collect::<Result<Vec<Option<Tensor>>, String>>()?;
    let outputs = graph::run(pool, model, inputs).map_err(|error| error.to_string())?;
    for (place, (output, info)) in outputs.iter().zip(&graph.outputs).enumerate() {
        let name = &info.name;
        let expected = case
            .output(place)
            .ok_or(format!("nothing says what {name} is"))?;
        let expected = expected.array().map_err(|error| error.to_string())?;
        let got = Array::read(output).map_err(|error| error.to_string())?;
        if let Some(difference) = compare::difference(&got, &expected) {
            return Err(format!("{name}: {difference}"));
        }
    }
    Ok(())
}
