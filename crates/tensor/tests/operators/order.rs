//! Order and running totals along an axis.

use streampool_tensor::{DType, ScanKind, Tensor};

use crate::{assert_near, common::pool, real, refusal, values, whole};

#[test]
fn elements_of_every_type_are_ordered() {
    let pool = pool();
    for dtype in DType::ALL {
        let x = whole(&pool, &[3, 50], 1, dtype);
        for descending in [false, true] {
            let (sorted, indices) = x.sort(-1, descending).unwrap();
            assert_eq!((sorted.dtype(), indices.dtype()), (dtype, DType::I64));
            assert_near(&sorted, &values(&x.gather(1, &indices).unwrap()), 0.0);
        }
    }
}

#[test]
fn not_a_number_is_the_largest() {
    let pool = pool();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = Tensor::from_slice(&pool, &[nan, 1.0, inf, -0.0, 0.0, -inf], &[6]).unwrap();
    let (rising, places) = x.sort(0, false).unwrap();
    assert_near(
        &rising,
        &[f64::NEG_INFINITY, 0.0, 0.0, 1.0, f64::INFINITY, f64::NAN],
        0.0,
    );
    assert_near(&places, &[5.0, 3.0, 4.0, 1.0, 2.0, 0.0], 0.0);
    let (top, places) = x.topk(2, 0, true).unwrap();
    assert_near(&top, &[f64::NAN, f64::INFINITY], 0.0);
    assert_near(&places, &[0.0, 2.0], 0.0);
    assert_near(&x.cummax(0).unwrap(), &[f64::NAN; 6], 0.0);
    let from_end = x.scan(ScanKind::Max, 0, false, true).unwrap();
    assert_near(
        &from_end,
        &[
            f64::NAN,
            f64::INFINITY,
            f64::INFINITY,
            0.0,
            0.0,
            f64::NEG_INFINITY,
        ],
        0.0,
    );
}

#[test]
fn views_are_ordered_along_any_axis() {
    let pool = pool();
    let x = real(&pool, &[4, 5, 6], 2)
        .permute(&[2, 0, 1])
        .unwrap()
        .flip(&[0])
        .unwrap();
    for axis in 0..3 {
        let (values_of_view, places) = x.topk(3, axis, true).unwrap();
        let (values_of_copy, places_of_copy) = x.contiguous().unwrap().topk(3, axis, true).unwrap();
        assert_near(&values_of_view, &values(&values_of_copy), 0.0);
        assert_near(&places, &values(&places_of_copy), 0.0);
        let totals = x.cumsum(axis).unwrap();
        let copied = x.contiguous().unwrap().cumsum(axis).unwrap();
        assert_near(&totals, &values(&copied), 1e-5);
    }
}

#[test]
fn totals_run_both_ways_with_and_without_the_element() {
    let pool = pool();
    for dtype in [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I32,
        DType::U8,
        DType::I64,
    ] {
        let x = Tensor::arange(&pool, 1, 5, 1, dtype).unwrap();
        let run = |kind, exclusive, reverse| x.scan(kind, 0, exclusive, reverse).unwrap();
        assert_near(&x.cumsum(0).unwrap(), &[1.0, 3.0, 6.0, 10.0], 0.0);
        assert_near(&x.cumprod(0).unwrap(), &[1.0, 2.0, 6.0, 24.0], 0.0);
        assert_near(&x.cummin(0).unwrap(), &[1.0; 4], 0.0);
        assert_near(&run(ScanKind::Sum, true, false), &[0.0, 1.0, 3.0, 6.0], 0.0);
        assert_near(&run(ScanKind::Sum, true, true), &[9.0, 7.0, 4.0, 0.0], 0.0);
        assert_near(
            &run(ScanKind::Prod, true, true),
            &[24.0, 12.0, 4.0, 1.0],
            0.0,
        );
        assert_near(
            &run(ScanKind::Sum, false, true),
            &[10.0, 9.0, 7.0, 4.0],
            0.0,
        );
    }
    let wrapped = Tensor::full(&pool, &[3], 100, DType::I8)
        .unwrap()
        .cumsum(0)
        .unwrap();
    assert_eq!(wrapped.to_vec::<i8>().unwrap(), [100, -56, 44]);
}

#[test]
fn nothing_has_an_order() {
    let pool = pool();
    let empty = Tensor::ones(&pool, &[3, 0], DType::F32).unwrap();
    assert_eq!(empty.sort(1, false).unwrap().0.shape(), [3, 0]);
    assert_eq!(empty.sort(0, true).unwrap().1.shape(), [3, 0]);
    assert_eq!(empty.cumsum(1).unwrap().shape(), [3, 0]);
    let x = real(&pool, &[3, 4], 3);
    assert_eq!(x.topk(0, 1, true).unwrap().0.shape(), [3, 0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let x = real(&pool, &[3, 4], 4);
    let truth = x.to_dtype(DType::Bool).unwrap();
    assert_eq!(
        refusal(x.sort(2, true)),
        "sort: axis is 2, expected -2 to 1"
    );
    assert_eq!(
        refusal(x.argsort(-3, true)),
        "argsort: axis is -3, expected -2 to 1"
    );
    assert_eq!(
        refusal(x.topk(5, 1, true)),
        "topk: count is 5, expected at most 4, the size of axis 1"
    );
    assert_eq!(
        refusal(truth.cumsum(0)),
        "cumsum: self is of type bool, expected a number type"
    );
    assert_eq!(
        refusal(truth.cummax(0)),
        "cummax: self is of type bool, expected a number type"
    );
}
