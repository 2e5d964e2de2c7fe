//! Random operators: each node and each round has numbers of its own, and each run fresh ones, or those of a seed.

use streampool_model::{Array, RunOptions, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{pool, run};
use crate::onnx::{Graph, Load, graph, ints};

const COUNT: usize = 20_000;

/// How far two lists of numbers from 0 to 1 go together: 0 for those that have nothing in common, 1 for the same.
fn correlation(one: &Array, other: &Array) -> f64 {
    let centred = |array: &Array| -> Vec<f64> {
        let values = array.values::<f32>().unwrap();
        values.iter().map(|value| f64::from(*value) - 0.5).collect()
    };
    let (one, other) = (centred(one), centred(other));
    let products = |one: &[f64], other: &[f64]| -> f64 {
        let each = one.iter().zip(other);
        each.map(|(one, other)| one * other).sum()
    };
    products(&one, &other) / (products(&one, &one) * products(&other, &other)).sqrt()
}

fn two_nodes(pool: &Pool) -> Session {
    two_nodes_graph().session(pool)
}

fn two_nodes_graph() -> Graph {
    Graph::new()
        .input("x", DType::F32, "n")
        .node("RandomUniformLike x = u", &[])
        .node("RandomUniformLike x = v", &[])
        .outputs("u v")
}

#[test]
fn two_nodes_have_nothing_in_common() {
    let Some(pool) = pool() else { return };
    let x = Array::zeros(DType::F32, &[COUNT]).unwrap();
    let session = two_nodes(&pool);
    let got = run(&session, &[&x]).unwrap();
    let (u, v) = (got.at(0).unwrap(), got.at(1).unwrap());
    assert!(correlation(u, v).abs() < 0.05);
    // Two by two they make normal numbers.
    let pairs = u
        .values::<f32>()
        .unwrap()
        .iter()
        .zip(v.values::<f32>().unwrap());
    let squares = pairs.map(|(u, v)| {
        let radius = (-2.0 * (1.0 - f64::from(*u)).ln()).sqrt();
        (radius * (f64::from(*v) * std::f64::consts::TAU).cos()).powi(2)
    });
    let deviation = (squares.sum::<f64>() / COUNT as f64).sqrt();
    assert!((deviation - 1.0).abs() < 0.02, "{deviation}");
}

fn seeded(session: &Session, x: &Array, seed: Option<u64>) -> Array {
    let options = RunOptions {
        seed,
        ..RunOptions::default()
    };
    let got = session.run_with([("x", x)], &options).unwrap();
    got.at(0).unwrap().clone()
}

#[test]
fn each_run_has_its_own_numbers_and_a_seed_has_the_same() {
    let Some(pool) = pool() else { return };
    let x = Array::zeros(DType::F32, &[COUNT]).unwrap();
    let session = two_nodes(&pool);
    let [first, second] = [0, 1].map(|_| seeded(&session, &x, None));
    assert!(correlation(&first, &second).abs() < 0.05);
    let wanted = seeded(&session, &x, Some(7));
    assert!(correlation(&first, &wanted).abs() < 0.05);
    assert!(correlation(&seeded(&session, &x, Some(8)), &wanted).abs() < 0.05);
    // On any thread, in another session, and where the session has the seed.
    let options = SessionOptions {
        seed: Some(7),
        ..SessionOptions::default()
    };
    let other = Session::from_bytes(&pool, two_nodes_graph().model(&[("", 18)]), &options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(seeded(&session, &x, Some(7)), wanted);
                assert_eq!(seeded(&other, &x, None), wanted);
            });
        }
    });
}

#[test]
fn each_round_has_its_own_numbers() {
    let Some(pool) = pool() else { return };
    let body = Graph::new()
        .input("round", DType::I64, "")
        .input("more", DType::Bool, "")
        .node("RandomUniform = u", &[ints("shape", &[COUNT as i64])])
        .node("Identity more = goes_on", &[])
        .outputs("goes_on u");
    let session = Graph::new()
        .input("rounds", DType::I64, "")
        .node("Loop rounds - = all", &[graph("body", body)])
        .outputs("all")
        .session(&pool);
    let got = run(&session, &[&Array::scalar(4i64)]).unwrap();
    let all = got.at(0).unwrap();
    assert_eq!(all.shape(), [4, COUNT]);
    let rounds = [0, 1, 2, 3].map(|round| all.rows(round..round + 1).unwrap());
    for (place, one) in rounds.iter().enumerate() {
        for other in &rounds[place + 1..] {
            assert!(correlation(one, other).abs() < 0.05);
        }
    }
}
