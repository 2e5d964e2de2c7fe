//! What a session answers is for the values it was given, whatever it was given before.

use streampool_model::{Array, Input, Session};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load, graph};
use streampool_model::testing::Random;

/// The first rows of a table, as many as `x` has, summed after a node that asks for values.
fn rows_of_a_table(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .constant("table", &Random::new(1).reals(&[512, 16]))
        .constant("zero", &longs(&[0], &[1]))
        .node("Shape x = length", &[])
        .node("Slice table zero length zero = rows", &[])
        .node("NonZero x = places", &[])
        .node("Gather rows places = found", &[])
        .node("ReduceSum rows = sum", &[])
        .outputs("rows sum found")
        .session(pool)
}

#[test]
fn views_of_one_weight_are_told_apart() {
    let Some(pool) = pool() else { return };
    let session = rows_of_a_table(&pool);
    for length in [100, 37, 300, 100] {
        let mut x = vec![0.0f32; length];
        x[length - 1] = 1.0;
        let x = floats(&x, &[length]);
        let got = run(&session, &[&x]).unwrap();
        let expected = run(&rows_of_a_table(&pool), &[&x]).unwrap();
        assert_eq!(got.at(0).unwrap().shape(), [length, 16]);
        for place in 0..3 {
            assert_eq!(got.at(place), expected.at(place), "{length}, {place}");
        }
    }
}

#[test]
fn values_of_different_types_in_one_memory_are_told_apart() {
    let Some(pool) = pool() else { return };
    // The shape decides how the table is read.
    let session = || {
        Graph::new()
            .input("x", DType::F32, "n")
            .input("turned", DType::I64, "2")
            .constant("table", &Random::new(2).reals(&[48, 64]))
            .node("Reshape table turned = view", &[])
            .node("NonZero x = places", &[])
            .node("Gather view places = found", &[])
            .outputs("found")
            .session(&pool)
    };
    let long_lived = session();
    let x = floats(&[0.0, 1.0], &[2]);
    for shape in [[48, 64], [64, 48], [32, 96], [48, 64]] {
        let shape = longs(&shape, &[2]);
        let expected = first(&session(), &[&x, &shape]);
        assert_eq!(first(&long_lived, &[&x, &shape]), expected);
    }
}

#[test]
fn rows_that_nobody_can_have_are_refused() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 2")
        .node("Neg x = y", &[])
        .outputs("y")
        .session(&pool);
    let x = floats(&[1.0; 8], &[4, 2]);
    for rows in [&[usize::MAX, 2][..], &[5], &[usize::MAX, usize::MAX, 4]] {
        let error = session.run_batch(&[Input::from(&x)], rows).unwrap_err();
        assert!(error.to_string().contains("rows"), "{error}");
    }
    let shares = session.run_batch(&[Input::from(&x)], &[1, 2]).unwrap();
    assert_eq!(shares[1], [floats(&[-1.0; 4], &[2, 2])]);
}

#[test]
fn an_output_that_is_the_same_for_all_is_not_divided() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 2")
        .constant("c", &floats(&[1.0, 2.0, 3.0, 4.0], &[4]))
        .node("Neg x = y", &[])
        .node("Identity c = same", &[])
        .outputs("y same")
        .session(&pool);
    for rows in [4, 5] {
        let x = Random::new(1).reals(&[rows, 2]);
        let shares = session.run_batch(&[Input::from(&x)], &[1, 3]);
        let error = shares.unwrap_err().to_string();
        assert!(error.contains("\"same\" is the same whatever"), "{error}");
    }
    // What only depends on how many there are is divided.
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("Shape x = s", &[])
        .node("ConstantOfShape s = zeros", &[])
        .outputs("zeros")
        .session(&pool);
    let x = Random::new(1).reals(&[4]);
    let shares = session.run_batch(&[Input::from(&x)], &[1, 3]).unwrap();
    assert_eq!(shares[1], [floats(&[0.0; 3], &[3])]);
}

#[test]
fn what_the_body_of_a_loop_declares_is_not_believed() {
    let Some(pool) = pool() else { return };
    // It says that what it is given has an axis; without, this product gives it one.
    let body = Graph::new()
        .input("turn", DType::I64, "")
        .input("go", DType::Bool, "")
        .input("before", DType::F32, "n")
        .constant("one", &floats(&[1.0], &[1]))
        .node("Mul before one = after", &[])
        .node("Identity go = on", &[])
        .outputs("on after");
    let session = Graph::new()
        .input("x", DType::F32, "")
        .constant("turns", &longs(&[2], &[]))
        .constant("yes", &Array::scalar(true))
        .node("Loop turns yes x = y", &[graph("body", body)])
        .outputs("y")
        .session(&pool);
    assert_eq!(
        first(&session, &[&Array::scalar(3f32)]),
        floats(&[3.0], &[1])
    );
}
