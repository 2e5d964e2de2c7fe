//! Graphs drawn at random, from what rewrites look for and what is almost that, give the same with all rewrites, with each
//! alone, with none, and in a session.
//!
//! `GRAPHS` says how many are drawn, `GRAPHS_FROM` the first seed, and `GRAPHS_TO` a folder that gets each model with its
//! inputs and what a session makes of them; `bench/graphs/compare.py` sets these and asks ONNX Runtime.

use std::path::Path;

use streampool_tensor::{Array, DType, Pool};

use super::super::editor::Editor;
use super::super::{REWRITES, Report, dead, simplify, simplify_one, sweep};
use super::draw::{Drawn, draw};
use crate::graph::Graph;
use crate::nodes::Value;
use crate::onnx;
use crate::testing::{evaluate_eagerly, save_case};
use crate::{Session, SessionOptions};

/// How many are drawn where nobody says.
const GRAPHS: u64 = 600;

/// What a graph gives, or why it fails.
type Made = Result<Vec<Array>, String>;

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |given| given.parse().expect("a number"))
}

fn eagerly(graph: &Graph, pool: &Pool, inputs: &[(String, Array)]) -> Made {
    let values = inputs
        .iter()
        .map(|(_, array)| Some(Value::Tensor(array.tensor(pool).unwrap())));
    let values: Vec<_> = values.collect();
    let made = evaluate_eagerly(graph, (pool, pool), &values).map_err(|error| error.to_string())?;
    let array = |value: &Value| Array::of(value.tensor().unwrap()).unwrap();
    Ok(made.iter().map(array).collect())
}

fn in_session(pool: &Pool, drawn: &Drawn) -> Made {
    let options = SessionOptions::default();
    let session = Session::from_bytes(pool, drawn.model.clone(), &options);
    let session = session.map_err(|error| error.to_string())?;
    let inputs = drawn.inputs.iter().map(|(name, array)| (&name[..], array));
    let made = session.run(inputs).map_err(|error| error.to_string())?;
    Ok(made.into_arrays())
}

/// The graph with one rewrite alone, or swept alone.
fn with_one(graph: &Graph, pool: &Pool, rewrite: Option<usize>) -> Graph {
    let mut graph = graph.clone();
    match rewrite {
        None => sweep::sweep(&mut graph, pool, &mut Report::default(), simplify_one).unwrap(),
        Some(rewrite) => {
            let mut editor = Editor::new(&mut graph, pool);
            for place in 0..editor.len() {
                let _ = REWRITES[rewrite](&mut editor, place);
            }
            editor.finish();
        }
    }
    graph.sort().unwrap();
    dead::remove(&mut graph);
    graph
}

fn numbers(array: &Array, pool: &Pool) -> Vec<f64> {
    let tensor = array.tensor(pool).unwrap();
    tensor.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

/// How two results differ, if they do by more than rounding.
fn difference(pool: &Pool, want: &Made, got: &Made) -> Option<String> {
    let (want, got) = match (want, got) {
        (Ok(want), Ok(got)) => (want, got),
        (Err(_), Err(_)) => return None,
        (Ok(_), Err(why)) | (Err(why), Ok(_)) => return Some(why.clone()),
    };
    for (want, got) in want.iter().zip(got) {
        if (want.shape(), want.dtype()) != (got.shape(), got.dtype()) {
            return Some(format!("{want:?} became {got:?}"));
        }
        let room = match want.dtype() {
            DType::F16 => 2e-2,
            _ => 1e-3,
        };
        let (want, got) = (numbers(want, pool), numbers(got, pool));
        let finite = want.iter().filter(|value| value.is_finite());
        let most = finite.fold(1.0f64, |most, value| most.max(value.abs()));
        let pairs = want.iter().zip(&got).enumerate();
        for (place, (want, got)) in pairs {
            let near = (want - got).abs() <= room * most;
            if !(near || want == got || want.is_nan() && got.is_nan()) {
                return Some(format!("element {place}: {want} became {got}"));
            }
        }
    }
    None
}

#[test]
fn graphs_drawn_at_random_give_the_same_however_they_are_rewritten() {
    let pool = crate::testing::host_pool();
    let folder = std::env::var_os("GRAPHS_TO");
    let first = number("GRAPHS_FROM", 0);
    let (mut fused, mut failed, mut faults) = (0, 0, Vec::new());
    for seed in first..first + number("GRAPHS", GRAPHS) {
        let drawn = draw(seed);
        let bytes = drawn.model.clone().into();
        let mut graph = onnx::read_bytes(bytes, &pool).unwrap().graph;
        // What nobody reads may fail where it is left.
        dead::remove(&mut graph);
        let plain = eagerly(&graph, &pool, &drawn.inputs);
        failed += usize::from(plain.is_err());
        let mut fault = |what: String, made: &Made| {
            if let Some(apart) = difference(&pool, &plain, made) {
                faults.push(format!("seed {seed}, {what}: {apart}\n{}", drawn.text));
            }
        };
        for rewrite in std::iter::once(None).chain((0..REWRITES.len()).map(Some)) {
            let one = with_one(&graph, &pool, rewrite);
            fault(
                format!("rewrite {rewrite:?} alone"),
                &eagerly(&one, &pool, &drawn.inputs),
            );
        }
        let mut all = graph.clone();
        let report = simplify(&mut all, &pool).unwrap();
        fused += usize::from(!report.fusions.is_empty());
        fault(
            "all rewrites".to_owned(),
            &eagerly(&all, &pool, &drawn.inputs),
        );
        let made = in_session(&pool, &drawn);
        fault("a session".to_owned(), &made);
        if let Some(folder) = &folder {
            let inputs = drawn.inputs.iter().map(|(name, array)| (&name[..], array));
            let made = made.as_deref().map_err(String::as_str);
            save_case(Path::new(folder), seed, &drawn.model, inputs, made);
        }
    }
    println!("{fused} were rewritten, {failed} fail");
    let count = faults.len();
    faults.truncate(5);
    assert!(faults.is_empty(), "{count} differ:\n{}", faults.join("\n"));
    let drawn = number("GRAPHS", GRAPHS) as usize;
    assert!(fused * 3 > drawn && failed * 2 < drawn, "{fused}, {failed}");
}
