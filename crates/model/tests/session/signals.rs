//! Transforms in plans: what they need is made once, and takes memory in proportion to their length.

use streampool_model::Array;
use streampool_tensor::DType;

use super::budgets::limited;
use super::{first, pool};
use crate::onnx::{Graph, Load, int};

#[test]
fn a_long_transform_takes_little_memory() {
    // With the matrix of its waves it would take 2 GB.
    let length = 16_000;
    let session = Graph::new()
        .input("x", DType::F32, "1 n 1")
        .node("DFT x = y", &[int("axis", 1)])
        .outputs("y")
        .model(&[("", 17)]);
    let pool = limited(64);
    let session =
        streampool_model::Session::from_bytes(&pool, session, &Default::default()).unwrap();
    let x: Vec<f32> = (0..length).map(|place| (place % 7) as f32).collect();
    let y = first(&session, &[&Array::new(&x, &[1, length, 1]).unwrap()]);
    let sum: f32 = x.iter().sum();
    let got = y.values::<f32>().unwrap();
    assert!((got[0] - sum).abs() < 1e-5 * sum, "{} is not {sum}", got[0]);
    assert_eq!(y.shape(), [1, length, 2]);
}

#[test]
fn signals_need_no_axis_of_parts() {
    let Some(pool) = pool() else { return };
    let constants = |graph: Graph| {
        graph
            .constant("step", &Array::scalar(4i64))
            .constant("length", &Array::scalar(8i64))
    };
    let x: Vec<f32> = (0..40).map(|place| (place * place % 11) as f32).collect();
    let [flat, deep] = ["2 20", "2 20 1"].map(|sizes| {
        constants(Graph::new().input("x", DType::F32, sizes))
            .node("STFT x step - length = y", &[int("onesided", 1)])
            .outputs("y")
            .session(&pool)
    });
    let flat = first(&flat, &[&Array::new(&x, &[2, 20]).unwrap()]);
    let deep = first(&deep, &[&Array::new(&x, &[2, 20, 1]).unwrap()]);
    assert_eq!(flat.shape(), [2, 4, 5, 2]);
    assert_eq!(flat, deep);
    let got = flat.values::<f32>().unwrap();
    assert!((got[0] - x[..8].iter().sum::<f32>()).abs() < 1e-4);
}
