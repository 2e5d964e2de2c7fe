//! Weights that a caller gives, in place of files.

use streampool_model::testing::Random;
use streampool_model::{Array, Session, SessionOptions};
use streampool_tensor::{DType, Pool, Tensor};

use super::{first, pool};
use crate::onnx::{Graph, Load, int, ints};

const SIZE: usize = 512;
const BYTES: usize = SIZE * SIZE * 4;

/// A product with a weight, and one with the weight turned.
fn layers(graph: Graph) -> Graph {
    graph
        .input("x", DType::F32, "n 512")
        .node("MatMul x w = h", &[])
        .node("Tanh h = t", &[])
        .node("Gemm t w = y", &[int("transB", 1)])
        .outputs("y")
}

fn given(pool: &Pool, weights: &[(&str, &Tensor)], precision: Option<DType>) -> Session {
    let weights = weights
        .iter()
        .map(|&(name, weight)| (name.to_owned(), weight.clone()));
    let options = SessionOptions {
        weights: weights.collect(),
        precision,
        ..SessionOptions::default()
    };
    let graph = layers(Graph::new().external("w", DType::F32, &[SIZE, SIZE]));
    Session::from_bytes(pool, graph.file(), &options).unwrap()
}

/// A tensor in memory that no array shares.
fn alone(array: &Array, pool: &Pool) -> Tensor {
    Tensor::from_slice(pool, array.values::<f32>().unwrap(), array.shape()).unwrap()
}

fn in_use(pool: &Pool) -> usize {
    pool.snapshot().unwrap().memory.in_use
}

#[test]
fn weights_stay_where_they_are_as_long_as_the_session_lives() {
    let Some(pool) = pool() else { return };
    let w = Random::new(3).reals(&[SIZE, SIZE]);
    let x = Random::new(4).reals(&[3, SIZE]);
    let expected = first(
        &layers(Graph::new().constant("w", &w)).session(&pool),
        &[&x],
    );
    let weight = alone(&w, &pool);
    let before = in_use(&pool);
    let session = given(&pool, &[("w", &weight)], None);
    assert_eq!(first(&session, &[&x]), expected);
    assert!(in_use(&pool) < before + BYTES / 2);
    let weight = weight
        .into_buffer()
        .map(drop)
        .expect_err("the session has it");
    drop(session);
    weight.into_buffer().map(drop).expect("nobody else has it");
}

#[test]
fn weights_of_another_pool_and_parts_of_others_are_copied() {
    let Some(pool) = pool() else { return };
    let w = Random::new(3).reals(&[2 * SIZE, SIZE]);
    let x = Random::new(4).reals(&[3, SIZE]);
    let other = streampool_model::testing::host_pool();
    for pool_of_weight in [&pool, &other] {
        let whole = w.tensor(pool_of_weight).unwrap();
        let weight = whole.narrow(0, SIZE, SIZE).unwrap();
        let constant = Array::of(&weight).unwrap();
        let expected = first(
            &layers(Graph::new().constant("w", &constant)).session(&pool),
            &[&x],
        );
        let session = given(&pool, &[("w", &weight)], None);
        assert_eq!(first(&session, &[&x]), expected);
    }
}

#[test]
fn what_is_cast_is_no_longer_kept() {
    let Some(pool) = pool() else { return };
    let weight = alone(&Random::new(3).reals(&[SIZE, SIZE]), &pool);
    let session = given(&pool, &[("w", &weight)], Some(DType::F16));
    let x = Random::new(4).reals(&[3, SIZE]);
    assert_eq!(first(&session, &[&x]).shape(), [3, SIZE]);
    weight
        .into_buffer()
        .map(drop)
        .expect("only a copy of another type is of use");
}

#[test]
fn pictures_and_default_inputs_may_have_weights_that_are_given() {
    let Some(pool) = pool() else { return };
    let mut random = Random::new(5);
    let (w, b) = (random.reals(&[8, 4, 3, 3]), random.reals(&[8]));
    let (x, other) = (random.reals(&[2, 4, 9, 9]), random.reals(&[8]));
    let graph = |graph: Graph| {
        graph
            .input("x", DType::F32, "n 4 9 9")
            .input("b", DType::F32, "8")
            .node("Conv x w b = h", &[ints("pads", &[1, 1, 1, 1])])
            .node("Relu h = y", &[])
            .outputs("y")
    };
    let inside = graph(Graph::new().constant("w", &w).constant("b", &b)).session(&pool);
    let outside = Graph::new()
        .external("w", DType::F32, &[8, 4, 3, 3])
        .external("b", DType::F32, &[8]);
    let weights = [("w", &w), ("b", &b)];
    let weights = weights.map(|(name, array)| (name.to_owned(), array.tensor(&pool).unwrap()));
    let options = SessionOptions {
        weights: weights.into(),
        ..SessionOptions::default()
    };
    let outside = graph(outside).load(&pool, &options).unwrap();
    assert_eq!(first(&outside, &[&x]), first(&inside, &[&x]));
    let run = |session: &Session| session.run([("x", &x), ("b", &other)]).unwrap();
    assert_eq!(run(&outside).at(0), run(&inside).at(0));
}
