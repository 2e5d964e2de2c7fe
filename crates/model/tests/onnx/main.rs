//! The operators against references no one here wrote: the tests of ONNX's own backends.
//!
//! Each test is a small graph with inputs and the outputs that are expected. Each is evaluated node by node, once with
//! all values on the tested device, and once with only the first input there and all that does not depend on it on the
//! host. Then a session plans and runs it. Eight threads take the tests in turn, on one pool.

mod compare;
#[path = "../support/device.rs"]
mod device;
mod exclusions;
mod package;
mod report;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use package::{Case, value};
use report::{Outcome, Report};
use streampool_model::onnx::Model;
use streampool_model::testing::{Value, evaluate_eagerly};
use streampool_model::{Array, Input, Session};
use streampool_tensor::Pool;

const THREADS: usize = 8;

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "installs a package, and takes long"
)]
fn operators_agree_with_the_tests_of_onnx() {
    let (pool, cases) = match device::pool().and_then(|pool| Ok((pool, package::cases()?))) {
        Ok(found) => found,
        Err(why) => return println!("skipped: {why}"),
    };
    let host = streampool_model::testing::host_pool();
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
                    let Some(outcome) = outcome(case, &host, &pool) else {
                        continue;
                    };
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

/// What becomes of a test on one pool, and then on two; none, if it is of a version of operators that is not read.
fn outcome(case: &Case, host: &Pool, pool: &Pool) -> Option<Outcome> {
    let run = |model: &Model, known: &Pool| {
        let run = || {
            let mut folders = case.data_sets();
            folders.try_for_each(|folder| tested(&folder, model, known, pool))
        };
        let result = catch_unwind(AssertUnwindSafe(run));
        result.unwrap_or_else(|_| Err("it panics".to_owned()))
    };
    let read = |known| case.model(known).transpose();
    let model = match read(pool)? {
        Ok(model) => model,
        Err(why) => return Some(Outcome::new(&case.name, None, Err(why))),
    };
    if model.graph.words.is_some() {
        // What strings are is known to sessions alone.
        let named = catch_unwind(AssertUnwindSafe(|| named(case, &model, pool)));
        let named = named.unwrap_or_else(|_| Err("it panics".to_owned()));
        return Some(Outcome::new(&case.name, Some(&model), named));
    }
    let together = run(&model, pool);
    let apart = read(host)?.and_then(|model| run(&model, host));
    let apart = apart.map_err(|why| format!("with known values on the host: {why}"));
    let planned = catch_unwind(AssertUnwindSafe(|| planned(case, &model, pool)));
    let planned = planned.unwrap_or_else(|_| Err("it panics".to_owned()));
    let planned = planned.map_err(|why| format!("in a session: {why}"));
    let result = together.and(apart).and(planned);
    Some(Outcome::new(&case.name, Some(&model), result))
}

/// Whether a session gives what is expected, twice, where it can be given what the test has; or why not.
fn planned(case: &Case, model: &Model, pool: &Pool) -> Result<(), String> {
    let session = Session::load(pool, case.file()).map_err(|error| error.to_string())?;
    let graph = &model.graph;
    for folder in case.data_sets() {
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        for (place, &id) in graph.inputs.iter().enumerate() {
            match value(&folder, &format!("input_{place}.pb"), graph.value(id), pool)? {
                Some(Value::Tensor(tensor)) => {
                    inputs.push(Array::of(&tensor).map_err(|error| error.to_string())?);
                }
                // A session is given tensors.
                _ => return Ok(()),
            }
        }
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        for _ in 0..2 {
            let outputs = session
                .run_positional(&inputs)
                .map_err(|error| error.to_string())?;
            for (place, ((name, got), &id)) in outputs.iter().zip(&graph.outputs).enumerate() {
                let info = graph.value(id);
                let Some(expected) = value(&folder, &format!("output_{place}.pb"), info, pool)?
                else {
                    continue;
                };
                let tensors = got
                    .iter()
                    .map(|array| array.tensor(pool))
                    .collect::<Result<Vec<_>, _>>();
                let mut tensors = tensors.map_err(|error| error.to_string())?;
                let got = match expected {
                    Value::Tensor(_) if tensors.len() == 1 => Value::Tensor(tensors.remove(0)),
                    Value::Nothing if tensors.is_empty() => Value::Nothing,
                    _ => Value::Sequence(tensors),
                };
                if let Some(difference) = difference(&got, &expected)? {
                    return Err(format!("{name}: {difference}"));
                }
            }
        }
    }
    Ok(())
}

/// Whether a session gives the strings that are expected; or why not.
fn named(case: &Case, model: &Model, pool: &Pool) -> Result<(), String> {
    let session = Session::load(pool, case.file()).map_err(|error| error.to_string())?;
    let mut compared = 0;
    for folder in case.data_sets() {
        let array = |kind: &str, place: usize| -> Result<Array, String> {
            let file = folder.join(format!("{kind}_{place}.pb"));
            let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
            let array =
                streampool_model::onnx::array(&bytes, pool).map_err(|error| error.to_string())?;
            Ok(array.1)
        };
        let inputs = (0..model.graph.inputs.len()).map(|place| array("input", place));
        let inputs: Vec<Array> = inputs.collect::<Result<_, _>>()?;
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        let outputs = session
            .run_positional(&inputs)
            .map_err(|error| error.to_string())?;
        for place in 0..model.graph.outputs.len() {
            let (got, want) = (outputs.at(place), array("output", place)?);
            compared += 1;
            let same = match want.as_strings() {
                Some(_) => got == Some(&want),
                None => {
                    let got = got.ok_or("no output")?.tensor(pool);
                    let got = got.map_err(|error| error.to_string())?;
                    let want = want.tensor(pool).map_err(|error| error.to_string())?;
                    difference(&Value::Tensor(got), &Value::Tensor(want))?.is_none()
                }
            };
            if !same {
                let got = got.map(Array::as_strings);
                return Err(format!(
                    "output {place}: {got:?}, expected {:?}",
                    want.as_strings()
                ));
            }
        }
    }
    if compared == 0 {
        Err("nothing was compared".to_owned())
    } else {
        Ok(())
    }
}

/// Whether the model gives what is expected; or why not. All inputs but the first are in the pool `known`.
fn tested(folder: &Path, model: &Model, known: &Pool, work: &Pool) -> Result<(), String> {
    let graph = &model.graph;
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    for (place, &id) in graph.inputs.iter().enumerate() {
        let pool = if place == 0 { work } else { known };
        inputs.push(value(
            folder,
            &format!("input_{place}.pb"),
            graph.value(id),
            pool,
        )?);
    }
    let outputs =
        evaluate_eagerly(graph, (known, work), &inputs).map_err(|error| error.to_string())?;
    for (place, (output, &id)) in outputs.iter().zip(&graph.outputs).enumerate() {
        let info = graph.value(id);
        let name = &info.name;
        let expected = value(folder, &format!("output_{place}.pb"), info, work)?;
        let expected = expected.ok_or(format!("nothing says what {name} is"))?;
        if let Some(difference) = difference(output, &expected)? {
            return Err(format!("{name}: {difference}"));
        }
    }
    Ok(())
}

fn difference(got: &Value, expected: &Value) -> Result<Option<String>, String> {
    let kind = |value: &Value| match value {
        Value::Tensor(_) => "a tensor".to_owned(),
        Value::Sequence(tensors) => format!("a sequence of {}", tensors.len()),
        Value::Nothing => "nothing".to_owned(),
    };
    if kind(got) != kind(expected) {
        return Ok(Some(format!("{}, expected {}", kind(got), kind(expected))));
    }
    for (got, expected) in got.tensors().iter().zip(expected.tensors()) {
        let read = |tensor| compare::Array::read(tensor).map_err(|error| error.to_string());
        if let Some(difference) = compare::difference(&read(got)?, &read(expected)?) {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}
