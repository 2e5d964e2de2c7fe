//! How tensors look.

use crate::common::pool;
use half::f16;
use streampool_tensor::{DType, Tensor};

#[track_caller]
fn looks(tensor: &Tensor, expected: &str) {
    // Several host devices of one process have numbers.
    let expected = expected.replace("on host", &format!("on {}", tensor.device()));
    let shown = tensor.to_string();
    assert_eq!(shown, expected, "\n{shown}\n");
}

#[test]
fn small_ones_show_all() {
    let pool = pool();
    looks(
        &Tensor::scalar(&pool, 3.5f32).unwrap(),
        "3.5\nf32 of shape [] on host",
    );
    let x = Tensor::from_slice(&pool, &[1.5f32, 2.0, f32::NAN, f32::INFINITY], &[2, 2]).unwrap();
    looks(&x, "[[1.5 2. ]\n [nan inf]]\nf32 of shape [2, 2] on host");
    let x = Tensor::from_slice(&pool, &[-1i64, 200, 3, 40], &[2, 2]).unwrap();
    looks(&x, "[[ -1 200]\n [  3  40]]\ni64 of shape [2, 2] on host");
    let x = Tensor::from_slice(&pool, &[true, false], &[2]).unwrap();
    looks(&x, "[ true false]\nbool of shape [2] on host");
    let x = Tensor::from_slice(&pool, &[u64::MAX, 0], &[2]).unwrap();
    looks(
        &x,
        "[18446744073709551615                    0]\nu64 of shape [2] on host",
    );
    let x = Tensor::from_slice(&pool, &[0.1, 100.0].map(f16::from_f32), &[2]).unwrap();
    looks(&x, "[  0.1 100. ]\nf16 of shape [2] on host");
}

#[test]
fn matrices_of_matrices_stand_apart() {
    let pool = pool();
    let x = Tensor::arange(&pool, 0, 8, 1, DType::I32).unwrap();
    looks(
        &x.reshape(&[2, 2, 2]).unwrap(),
        "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]\ni32 of shape [2, 2, 2] on host",
    );
    looks(
        &x.narrow(0, 5, 1).unwrap().reshape(&[1; 8]).unwrap(),
        "[[[[[[[[5]]]]]]]]\ni32 of shape [1, 1, 1, 1, 1, 1, 1, 1] on host",
    );
}

#[test]
fn empty_ones_show_their_shape() {
    let pool = pool();
    let x = Tensor::zeros(&pool, &[2, 0, 3], DType::BF16).unwrap();
    looks(&x, "[]\nbf16 of shape [2, 0, 3] on host");
}

#[test]
fn large_ones_show_their_corners() {
    let pool = pool();
    let x = Tensor::arange(&pool, 0, 2000, 1, DType::I32).unwrap();
    looks(
        &x,
        "[   0    1    2 ... 1997 1998 1999]\ni32 of shape [2000] on host",
    );
    let square = Tensor::arange(&pool, 0, 10_000, 1, DType::F32).unwrap();
    let square = square
        .reshape(&[100, 100])
        .unwrap()
        .transpose(0, 1)
        .unwrap();
    looks(
        &square,
        "[[   0.  100.  200. ... 9700. 9800. 9900.]\n \
          [   1.  101.  201. ... 9701. 9801. 9901.]\n \
          [   2.  102.  202. ... 9702. 9802. 9902.]\n \
          ...\n \
          [  97.  197.  297. ... 9797. 9897. 9997.]\n \
          [  98.  198.  298. ... 9798. 9898. 9998.]\n \
          [  99.  199.  299. ... 9799. 9899. 9999.]]\n\
         f32 of shape [100, 100] on host",
    );
}

#[test]
fn long_rows_are_broken() {
    let pool = pool();
    let x = Tensor::full(&pool, &[2, 40], 1234, DType::I32).unwrap();
    let shown = x.to_string();
    assert!(shown.lines().all(|line| line.len() <= 100), "{shown}");
    assert_eq!(shown.matches("1234").count(), 80);
    assert_eq!(shown.lines().nth(1).map(|line| &line[..6]), Some("  1234"));
}

#[test]
fn debug_says_what_it_is_without_values() {
    let pool = pool();
    let x = Tensor::zeros(&pool, &[2, 3], DType::F32).unwrap();
    let device = x.device();
    assert_eq!(
        format!("{x:?}"),
        format!("Tensor(f32, shape [2, 3], on {device})")
    );
    let turned = x.transpose(0, 1).unwrap();
    assert_eq!(
        format!("{turned:?}"),
        format!("Tensor(f32, shape [3, 2], on {device}, strides [1, 3] from 0)")
    );
}
