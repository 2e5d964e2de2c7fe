//! Factorisations and solves.

use streampool_tensor::{DType, Tensor};

use crate::{assert_near, assert_refused, common::pool, real, values};

/// Matrices that are far from having no inverse.
fn matrices(pool: &streampool_tensor::Pool, batch: usize, size: usize, dtype: DType) -> Tensor {
    let ones = Tensor::eye(pool, size, size, dtype)
        .unwrap()
        .mul(5.0)
        .unwrap();
    let x = real(pool, &[batch, size, size], size as u64)
        .to_dtype(dtype)
        .unwrap();
    x.add(&ones).unwrap()
}

fn near(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-10 } else { 1e-3 }
}

#[test]
fn factors_have_the_shape_of_the_matrix() {
    let pool = pool();
    for (rows, columns) in [(1, 1), (3, 6), (6, 3), (40, 40), (0, 3)] {
        let lu = real(&pool, &[2, rows, columns], 1).lu().unwrap();
        assert_eq!(lu.factors.shape(), [2, rows, columns]);
        assert_eq!(lu.pivots.shape(), [2, rows.min(columns)]);
        assert_eq!(lu.pivots.dtype(), DType::I32);
    }
}

#[test]
fn systems_are_solved_from_views() {
    let pool = pool();
    for dtype in [DType::F32, DType::F64] {
        for size in [1, 4, 33] {
            let x = matrices(&pool, 3, size, dtype).transpose(1, 2).unwrap();
            let rhs = real(&pool, &[size, 2, 3], 2)
                .to_dtype(dtype)
                .unwrap()
                .permute(&[2, 0, 1])
                .unwrap();
            let solved = x.solve(&rhs).unwrap();
            assert_near(&x.matmul(&solved).unwrap(), &values(&rhs), near(dtype));
            let again = x.lu().unwrap().solve(&rhs).unwrap();
            assert_near(&again, &values(&solved), 0.0);
            let inverse = x.inverse().unwrap();
            assert_near(
                &inverse.matmul(&rhs).unwrap(),
                &values(&solved),
                near(dtype),
            );
            let positive = x.matmul(&x.transpose(1, 2).unwrap()).unwrap();
            let root = positive.cholesky().unwrap();
            let half = root.triangular_solve(&rhs, false, false).unwrap();
            let turned = root.transpose(1, 2).unwrap();
            let whole = turned.triangular_solve(&half, true, false).unwrap();
            let expected = values(&positive.solve(&rhs).unwrap());
            assert_near(&whole, &expected, 10.0 * near(dtype));
        }
    }
}

#[test]
fn determinants_have_the_sign_of_their_exchanges() {
    let pool = pool();
    let x = Tensor::from_slice(
        &pool,
        &[
            0.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 3.0, 1.0, 2.0, 2.0, 4.0f64,
        ],
        &[3, 2, 2],
    )
    .unwrap();
    assert_near(&x.det().unwrap(), &[-1.0, 5.0, 0.0], 1e-12);
    let none = Tensor::ones(&pool, &[2, 0, 0], DType::F32).unwrap();
    assert_near(&none.det().unwrap(), &[1.0, 1.0], 0.0);
    let one = Tensor::eye(&pool, 3, 3, DType::F32).unwrap();
    assert_eq!(one.det().unwrap().shape(), &[0; 0]);
}

#[test]
fn a_matrix_without_inverse_gives_no_numbers() {
    let pool = pool();
    let x = Tensor::ones(&pool, &[3, 3], DType::F32).unwrap();
    assert!(values(&x.inverse().unwrap()).iter().all(|x| !x.is_finite()));
    let negative = Tensor::full(&pool, &[1, 1], -1.0, DType::F64).unwrap();
    assert!(values(&negative.cholesky().unwrap())[0].is_nan());
}

#[test]
fn a_diagonal_is_a_view() {
    let pool = pool();
    let x = real(&pool, &[2, 3, 4], 3);
    let given = values(&x);
    let diagonal = x.diagonal().unwrap();
    assert_eq!(diagonal.shape(), [2, 3]);
    assert_near(&diagonal, &[0, 5, 10, 12, 17, 22].map(|at| given[at]), 0.0);
    let turned = x.transpose(1, 2).unwrap().diagonal().unwrap();
    assert_near(&turned, &values(&diagonal), 0.0);
    assert_eq!(
        x.narrow(1, 0, 0).unwrap().diagonal().unwrap().shape(),
        [2, 0]
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let x = matrices(&pool, 2, 3, DType::F32);
    let wide = real(&pool, &[2, 3, 4], 4);
    let (whole, half) = (
        x.to_dtype(DType::I32).unwrap(),
        x.to_dtype(DType::F16).unwrap(),
    );
    assert_refused([
        (
            x.select(0, 0)
                .unwrap()
                .select(0, 0)
                .unwrap()
                .lu()
                .map(|lu| lu.factors),
            "lu: self has shape [3], expected matrices",
        ),
        (
            whole.lu().map(|lu| lu.factors),
            "lu: self is of type i32, expected f32 or f64",
        ),
        (
            half.inverse(),
            "inverse: self is of type f16, expected f32 or f64",
        ),
        (
            wide.inverse(),
            "inverse: self has shape [2, 3, 4], expected square matrices",
        ),
        (
            wide.cholesky(),
            "cholesky: self has shape [2, 3, 4], expected square matrices",
        ),
        (
            wide.det(),
            "det: self has shape [2, 3, 4], expected square matrices",
        ),
        (whole.det(), "det: self is of type i32, expected f32 or f64"),
        (
            x.solve(&wide.transpose(1, 2).unwrap()),
            "solve: rhs has shape [2, 4, 3], expected [2, 3] and an axis of columns",
        ),
        (x.solve(&half), "solve: rhs is of type f16, expected f32"),
        (
            x.triangular_solve(&wide.select(0, 0).unwrap(), true, true),
            "triangular_solve: rhs has shape [3, 4], expected [2, 3]",
        ),
        (
            x.lu().unwrap().solve(&wide.narrow(0, 0, 1).unwrap()),
            "lu_solve: rhs has shape [1, 3, 4], expected [2, 3]",
        ),
        (
            wide.lu().unwrap().solve(&x),
            "lu_solve: self has shape [2, 3, 4], expected square matrices",
        ),
    ]);
}
