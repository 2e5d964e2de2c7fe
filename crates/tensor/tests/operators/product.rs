//! Matrix products.

use streampool_tensor::{Activation, DType, Tensor};

use crate::{FLOATS, assert_near, common::pool, refusal, values, whole};

/// The product of `[m, k]` and `[k, n]`, which the pool compares with the reference.
fn multiplied(a: &Tensor, b: &Tensor) -> Vec<f64> {
    let [a, b] = [a, b].map(|matrix| matrix.contiguous().unwrap());
    values(&a.matmul(&b).unwrap())
}

#[test]
fn matrices_of_every_float_type_are_multiplied() {
    let pool = pool();
    for dtype in FLOATS {
        for (m, k, n) in [
            (3, 4, 5),
            (1, 6, 1),
            (17, 2, 16),
            (2, 0, 3),
            (0, 3, 2),
            (2, 3, 0),
        ] {
            let (a, b) = (
                whole(&pool, &[m, k], 1, dtype),
                whole(&pool, &[k, n], 2, dtype),
            );
            let product = a.matmul(&b).unwrap();
            assert_eq!((product.shape(), product.dtype()), (&[m, n][..], dtype));
        }
    }
}

#[test]
fn bytes_give_integers() {
    let pool = pool();
    for dtype in [DType::I8, DType::U8] {
        let a = Tensor::full(&pool, &[2, 300], 100, dtype).unwrap();
        let b = Tensor::full(&pool, &[300, 1], 100, dtype).unwrap();
        let product = a.matmul(&b).unwrap();
        assert_eq!(product.to_vec::<i32>().unwrap(), [3_000_000; 2]);
    }
}

#[test]
fn views_are_multiplied_as_they_lie() {
    let pool = pool();
    let (a, b) = (
        whole(&pool, &[4, 6], 3, DType::F32),
        whole(&pool, &[9, 6], 4, DType::F32),
    );
    let turned = b.transpose(0, 1).unwrap();
    let sliced = turned.slice(1, 1..8, 2).unwrap();
    let reversed = a.flip(&[1]).unwrap();
    for (a, b) in [(&a, &turned), (&a, &sliced), (&reversed, &sliced)] {
        assert_near(&a.matmul(b).unwrap(), &multiplied(a, b), 0.0);
    }
    let spread = Tensor::scalar(&pool, 2.0f32)
        .unwrap()
        .broadcast_to(&[6, 3])
        .unwrap();
    assert_near(&a.matmul(&spread).unwrap(), &multiplied(&a, &spread), 0.0);
}

#[test]
fn leading_axes_broadcast_and_vectors_lose_their_axis() {
    let pool = pool();
    let make = |shape: &[usize]| whole(&pool, shape, shape.len() as u64, DType::F32);
    for (a, b, expected) in [
        (&[2, 1, 3, 4][..], &[5, 4, 2][..], &[2, 5, 3, 2][..]),
        (&[7, 3, 4], &[4, 2], &[7, 3, 2]),
        (&[4], &[4], &[]),
        (&[4], &[3, 4, 2], &[3, 2]),
        (&[3, 2, 4], &[4], &[3, 2]),
        (&[0, 3, 4], &[4, 2], &[0, 3, 2]),
    ] {
        assert_eq!(make(a).matmul(&make(b)).unwrap().shape(), expected);
    }
    let (a, b) = (make(&[2, 1, 3, 4]), make(&[5, 4, 2]));
    let product = a.matmul(&b).unwrap();
    for (i, j) in [(0, 0), (1, 4), (0, 3)] {
        let part = product.select(0, i).unwrap().select(0, j).unwrap();
        let (a, b) = (
            a.select(0, i).unwrap().select(0, 0).unwrap(),
            b.select(0, j).unwrap(),
        );
        assert_near(&part, &multiplied(&a, &b), 0.0);
    }
    let (x, y) = (make(&[4]), make(&[3]));
    assert_eq!(x.dot(&x).unwrap().shape(), &[0; 0]);
    let outer = x.outer(&y).unwrap();
    let expected = multiplied(&x.unsqueeze(1).unwrap(), &y.unsqueeze(0).unwrap());
    assert_eq!(outer.shape(), [4, 3]);
    assert_near(&outer, &expected, 0.0);
    let batch = make(&[2, 3, 4]).bmm(&make(&[2, 4, 5])).unwrap();
    assert_eq!(batch.shape(), [2, 3, 5]);
}

#[test]
fn a_layer_adds_its_bias_and_activates() {
    let pool = pool();
    for dtype in FLOATS {
        let (x, w) = (
            whole(&pool, &[2, 3, 4], 5, dtype),
            whole(&pool, &[6, 4], 6, dtype),
        );
        let bias = whole(&pool, &[6], 7, dtype);
        let flat = x.reshape(&[6, 4]).unwrap();
        let product = multiplied(&flat, &w.transpose(0, 1).unwrap());
        let bias_values = values(&bias);
        let raised: Vec<f64> = product
            .iter()
            .enumerate()
            .map(|(at, x)| x + bias_values[at % 6])
            .collect();
        let y = x.linear(&w, Some(&bias)).unwrap();
        assert_eq!(y.shape(), [2, 3, 6]);
        assert_near(&y, &raised, 0.0);
        let cut: Vec<f64> = raised.iter().map(|x| x.max(0.0)).collect();
        assert_near(
            &x.linear_with(&w, Some(&bias), Activation::Relu).unwrap(),
            &cut,
            0.0,
        );
        let row = x.select(0, 0).unwrap().select(0, 1).unwrap();
        assert_near(&row.linear(&w, None).unwrap(), &product[6..12], 0.0);
    }
}

#[test]
fn a_product_is_added_to_what_there_is() {
    let pool = pool();
    let (a, b) = (
        whole(&pool, &[2, 3], 8, DType::F32),
        whole(&pool, &[3, 4], 9, DType::F32),
    );
    let c = whole(&pool, &[4], 10, DType::F32);
    let (product, there) = (multiplied(&a, &b), values(&c));
    let expected = |beta: f64, alpha: f64| -> Vec<f64> {
        let add = |(at, x): (usize, &f64)| alpha * x + beta * there[at % 4];
        product.iter().enumerate().map(add).collect()
    };
    for (beta, alpha) in [(1.0, 1.0), (0.5, 2.0), (-2.0, 0.0)] {
        assert_near(
            &c.addmm(&a, &b, beta, alpha).unwrap(),
            &expected(beta, alpha),
            0.0,
        );
    }
    let nothing = c
        .full_like(f64::NAN)
        .unwrap()
        .addmm(&a, &b, 0.0, 1.0)
        .unwrap();
    assert_near(&nothing, &product, 0.0);
}

#[test]
fn not_a_number_and_infinity_reach_what_they_touch() {
    let pool = pool();
    let a = Tensor::from_slice(
        &pool,
        &[f32::NAN, 1.0, f32::INFINITY, 1.0, 1.0, 1.0],
        &[3, 2],
    )
    .unwrap();
    let b = Tensor::from_slice(&pool, &[1.0f32, 0.0, 1.0, 1.0], &[2, 2]).unwrap();
    let inf = f64::INFINITY;
    assert_near(
        &a.matmul(&b).unwrap(),
        &[f64::NAN, f64::NAN, inf, f64::NAN, 2.0, 1.0],
        0.0,
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let make = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
    let x = make(&[2, 3]);
    assert_eq!(
        refusal(x.matmul(&make(&[4, 5]))),
        "matmul: other has shape [4, 5], expected 3 rows, as many as self [2, 3] has columns"
    );
    assert_eq!(
        refusal(x.matmul(&make(&[]))),
        "matmul: other has shape [], expected at least one axis"
    );
    assert_eq!(
        refusal(make(&[2, 2, 3]).bmm(&make(&[3, 3, 2]))),
        "bmm: other has shape [3, 3, 2], expected 2 matrices, as in self"
    );
    assert_eq!(
        refusal(x.linear(&make(&[5, 4]), None)),
        "linear: self has shape [2, 3], expected a last axis of 4, as weight [5, 4] reads"
    );
    assert_eq!(
        refusal(x.linear(&make(&[5, 3]), Some(&make(&[3])))),
        "linear: bias has shape [3], expected [5], as weight [5, 3] makes"
    );
    let half = make(&[3, 2]).to_dtype(DType::F16).unwrap();
    assert_eq!(
        refusal(x.matmul(&half)),
        "matmul: other is of type f16, expected f32: convert it with `to_dtype`"
    );
    let whole = x.to_dtype(DType::I64).unwrap();
    assert!(
        refusal(whole.matmul(&whole.transpose(0, 1).unwrap()))
            .starts_with("matmul: self is of type i64")
    );
    assert!(refusal(make(&[2]).dot(&make(&[3]))).starts_with("dot: other has shape [3, 1]"));
    assert!(refusal(x.addmm(&x, &x, 1.0, 1.0)).starts_with("addmm: b has shape [2, 3]"));
    let elsewhere = Tensor::ones(&crate::common::pool(), &[3, 2], DType::F32).unwrap();
    assert!(refusal(x.matmul(&elsewhere)).starts_with("matmul: other is in a pool on"));
}

#[test]
fn products_are_finished_in_the_same_launch() {
    let pool = pool();
    let dtype = DType::F32;
    let (a, b) = (
        whole(&pool, &[2, 3, 4], 1, dtype),
        whole(&pool, &[4, 5], 2, dtype),
    );
    let bias = whole(&pool, &[5], 3, dtype);
    let finished = a
        .matmul_with(&b, Some(&bias), Activation::Relu, 0.5)
        .unwrap();
    let pieces = a.matmul(&b).unwrap().mul(0.5).unwrap().add(&bias).unwrap();
    assert_near(&finished, &values(&pieces.relu().unwrap()), 1e-6);
    // A column's axis is not in the result, nor in the bias.
    let (column, bias) = (whole(&pool, &[4], 2, dtype), whole(&pool, &[3], 3, dtype));
    let finished = a
        .matmul_with(&column, Some(&bias), Activation::None, 1.0)
        .unwrap();
    let pieces = a.matmul(&column).unwrap().add(&bias).unwrap();
    assert_eq!(finished.shape(), [2, 3]);
    assert_near(&finished, &values(&pieces), 1e-6);
}

#[test]
fn a_product_over_a_broadcast_is_not_walked() {
    let pool = pool();
    let steps = 1usize << 46;
    for dtype in FLOATS {
        let of = |values: &[f32], shape: &[usize]| {
            let tensor = Tensor::from_slice(&pool, values, shape).unwrap();
            tensor.to_dtype(dtype).unwrap()
        };
        let a = of(&[1.0, -2.0], &[2, 1]).broadcast_to(&[2, steps]).unwrap();
        let b = of(&[0.5], &[1, 1]).broadcast_to(&[steps, 3]).unwrap();
        if dtype == DType::F16 {
            // More than there are; a few are as good.
            let (a, b) = (a.narrow(1, 0, 4).unwrap(), b.narrow(0, 0, 4).unwrap());
            let product = a.matmul(&b).unwrap();
            assert_eq!(values(&product), [2.0, 2.0, 2.0, -4.0, -4.0, -4.0]);
            continue;
        }
        let half = (steps / 2) as f64;
        let product = a.matmul(&b).unwrap();
        let expected = [[half; 3], [-2.0 * half; 3]];
        assert_eq!(values(&product), expected.as_flattened());
    }
}
