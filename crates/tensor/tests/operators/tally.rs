//! Counts, and the places of what is not zero.

use streampool_tensor::{DType, Tensor};

use crate::{assert_near, assert_refused, common::pool, real, values, whole};

#[test]
fn elements_are_counted_by_bins() {
    let pool = pool();
    let given = [0.0, 0.5, 1.0, 2.0, -0.1, 2.1, f32::NAN, f32::INFINITY, 1.9];
    let x = Tensor::from_slice(&pool, &given, &[3, 3]).unwrap();
    for dtype in [DType::F32, DType::F64] {
        let x = x.to_dtype(dtype).unwrap();
        let counts = x.histogram(4, 0.0, 2.0).unwrap();
        assert_eq!(counts.to_vec::<i64>().unwrap(), [1, 1, 1, 2]);
        let turned = x.transpose(0, 1).unwrap().histogram(4, 0.0, 2.0).unwrap();
        assert_eq!(turned.to_vec::<i64>().unwrap(), [1, 1, 1, 2]);
    }
    let weights = Tensor::arange(&pool, 1, 10, 1, DType::F32)
        .unwrap()
        .view(&[3, 3])
        .unwrap();
    let summed = x.weighted_histogram(2, 0.0, 2.0, &weights).unwrap();
    assert_near(&summed, &[1.0 + 2.0, 3.0 + 4.0 + 9.0], 0.0);
    let none = Tensor::ones(&pool, &[0], DType::F32).unwrap();
    assert_eq!(
        none.histogram(2, 0.0, 1.0)
            .unwrap()
            .to_vec::<i64>()
            .unwrap(),
        [0, 0]
    );
}

#[test]
fn integers_are_counted() {
    let pool = pool();
    for dtype in [
        DType::I8,
        DType::U8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
    ] {
        let x = Tensor::from_slice(&pool, &[0i64, 3, 1, 3, 4, 5, 3], &[7])
            .unwrap()
            .to_dtype(dtype)
            .unwrap();
        assert_eq!(
            x.bincount(4).unwrap().to_vec::<i64>().unwrap(),
            [1, 1, 0, 3]
        );
        assert_eq!(x.bincount(0).unwrap().shape(), [0]);
    }
    let below = Tensor::from_slice(&pool, &[-1i64, i64::MIN, 0, i64::MAX], &[4]).unwrap();
    assert_eq!(below.bincount(2).unwrap().to_vec::<i64>().unwrap(), [1, 0]);
}

#[test]
fn places_of_every_type_are_found() {
    let pool = pool();
    for dtype in DType::ALL {
        let x = whole(&pool, &[4, 3, 2], 1, dtype).transpose(0, 2).unwrap();
        let found = x.nonzero().unwrap();
        let mut expected = Vec::new();
        for (at, value) in values(&x).into_iter().enumerate() {
            if value != 0.0 {
                expected.extend([at / 12, at / 4 % 3, at % 4].map(|place| place as f64));
            }
        }
        assert_eq!(found.shape(), [expected.len() / 3, 3]);
        assert_near(&found, &expected, 0.0);
    }
    let nan = Tensor::from_slice(&pool, &[0.0, f32::NAN, -0.0], &[3]).unwrap();
    assert_near(&nan.nonzero().unwrap(), &[1.0], 0.0);
    let one = Tensor::scalar(&pool, 5i32).unwrap();
    assert_eq!(one.nonzero().unwrap().shape(), [1, 0]);
    assert_eq!(one.full_like(0).unwrap().nonzero().unwrap().shape(), [0, 0]);
    let empty = Tensor::ones(&pool, &[0, 3], DType::F32).unwrap();
    assert_eq!(empty.nonzero().unwrap().shape(), [0, 2]);
}

#[test]
fn masks_select() {
    let pool = pool();
    let x = real(&pool, &[3, 4], 2);
    let mask = x.gt(0.0).unwrap();
    let expected: Vec<f64> = values(&x).into_iter().filter(|&x| x > 0.0).collect();
    assert_near(&x.masked_select(&mask).unwrap(), &expected, 0.0);
    let row = Tensor::from_slice(&pool, &[true, false, false, true], &[4]).unwrap();
    let ends = x.slice(1, .., 3).unwrap();
    assert_near(&x.masked_select(&row).unwrap(), &values(&ends), 0.0);
    let none = x.masked_select(&mask.full_like(false).unwrap()).unwrap();
    assert_eq!(none.shape(), [0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let x = real(&pool, &[3, 4], 3);
    let truth = x.to_dtype(DType::Bool).unwrap();
    assert_refused([
        (
            x.histogram(0, 0.0, 1.0),
            "histogram: bins is 0, expected at least 1",
        ),
        (
            x.histogram(2, 1.0, 1.0),
            "histogram: high is 1, expected finite and above low, 1",
        ),
        (x.histogram(2, 0.0, f64::INFINITY), "histogram: high is inf"),
        (
            truth.histogram(2, 0.0, 1.0),
            "histogram: self is of type bool",
        ),
        (
            x.weighted_histogram(2, 0.0, 1.0, &truth),
            "weighted_histogram: weights is of type bool",
        ),
        (
            x.bincount(3),
            "bincount: self is of type f32, expected an integer type",
        ),
        (
            x.masked_select(&x),
            "masked_select: mask is of type f32, expected bool",
        ),
        (
            x.masked_select(&truth.narrow(1, 0, 3).unwrap()),
            "masked_select: mask has shape [3, 3], expected",
        ),
    ]);
}
