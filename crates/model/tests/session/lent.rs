//! Large arrays of the host, which a run on the host reads and makes where they are.

use std::time::Duration;

use streampool_model::{Array, Error, Input, RunOptions, Session};
use streampool_tensor::{DType, Pool};

use super::{floats, pool};
use crate::onnx::{Graph, Load};

/// 256 KiB, and one element that few arrays end with.
const LARGE: usize = (1 << 16) + 1;

fn counted(from: usize) -> Array {
    let values: Vec<f32> = (from..from + LARGE).map(|number| number as f32).collect();
    floats(&values, &[LARGE])
}

/// Outputs that are large, small, true or false, and what an input is.
fn session(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .input("y", DType::F32, "m")
        .constant("limit", &Array::scalar(3f32))
        .node("Add x y = sum", &[])
        .node("ReduceMax y = most", &[])
        .node("Less sum limit = few", &[])
        .node("Identity x = same", &[])
        .outputs("sum most few same")
        .session(pool)
}

fn check(outputs: &streampool_model::Outputs, x: &Array, y: &Array) {
    let [x, y] = [x, y].map(|array| array.values::<f32>().unwrap());
    let each = |at: usize| x[at] + y[at % y.len()];
    let sum = outputs.get("sum").unwrap().values::<f32>().unwrap();
    assert!((0..x.len()).all(|at| sum[at] == each(at)));
    let few = outputs.get("few").unwrap().values::<bool>().unwrap();
    assert!((0..x.len()).all(|at| few[at] == (each(at) < 3.0)));
    let most = y.iter().copied().fold(f32::MIN, f32::max);
    assert_eq!(
        outputs.get("most").unwrap().values::<f32>().unwrap(),
        [most]
    );
    assert_eq!(outputs.get("same").unwrap().values::<f32>().unwrap(), x);
}

#[test]
fn large_and_small_arrays_are_taken_and_made_in_one_run() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    for turn in 0..3 {
        let (x, y) = (counted(turn), counted(7 * turn));
        check(&session.run([("x", &x), ("y", &y)]).unwrap(), &x, &y);
        let one = floats(&[turn as f32], &[1]);
        check(&session.run([("x", &x), ("y", &one)]).unwrap(), &x, &one);
        // The same memory, twice.
        check(&session.run([("x", &x), ("y", &x)]).unwrap(), &x, &x);
        let tensor = x.tensor(&pool).unwrap();
        let mixed = session.run_positional(&[Input::from(&tensor), Input::from(&y)]);
        check(&mixed.unwrap(), &x, &y);
        let submitted = session.submit([("x", &x), ("y", &y)]).unwrap();
        check(&submitted.wait().unwrap(), &x, &y);
    }
}

#[test]
fn outputs_stay_as_they_are_when_the_session_and_other_runs_go_on() {
    let Some(pool) = pool() else { return };
    let (x, y) = (counted(1), counted(2));
    let first = session(&pool).run([("x", &x), ("y", &y)]).unwrap();
    let session = session(&pool);
    let clones: Vec<Array> = ["sum", "same"]
        .map(|name| first.get(name).unwrap().clone())
        .into();
    let other = counted(9);
    for _ in 0..4 {
        // An output is an input of the next run.
        let next = session.run([("x", &clones[0]), ("y", &other)]).unwrap();
        check(&next, &clones[0], &other);
    }
    drop(session);
    drop(pool);
    check(&first, &x, &y);
    drop((x, y, first));
    assert_eq!(clones[1].values::<f32>().unwrap()[LARGE - 1], LARGE as f32);
    assert_eq!(clones[0].values::<f32>().unwrap()[0], 3.0);
}

#[test]
fn arrays_may_go_while_a_run_that_came_too_late_still_reads_them() {
    let Some(pool) = pool() else { return };
    let mut graph = Graph::new().input("x", DType::F32, "512 512");
    let mut last = "x".to_owned();
    for layer in 0..64 {
        graph = graph.node(&format!("MatMul {last} x = h{layer}"), &[]);
        last = format!("h{layer}");
    }
    let session = graph.outputs(&last).session(&pool);
    let made = || floats(&vec![1.0 / 512.0; 512 * 512], &[512, 512]);
    let expected = session.run([("x", &made())]).unwrap();
    for _ in 0..8 {
        let x = made();
        let late = session.run_with([("x", &x)], &RunOptions::within(Duration::from_micros(500)));
        drop(x);
        assert!(matches!(late, Err(Error::Deadline) | Ok(_)), "{late:?}");
    }
    let again = session.run([("x", &made())]).unwrap();
    assert_eq!(again.at(0), expected.at(0));
}
