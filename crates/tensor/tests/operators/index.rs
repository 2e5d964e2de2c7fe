//! Picking and putting by index.

use streampool_tensor::{Combine, DType, Tensor};

use crate::{assert_near, assert_refused, common::pool, indices, values, whole};

#[test]
fn elements_of_every_type_are_picked() {
    let pool = pool();
    for dtype in DType::ALL {
        let x = whole(&pool, &[4, 3], 1, dtype);
        let given = values(&x);
        let places = indices(&pool, &[2, -1, 0, 2], &[2, 2]);
        for places in [places.clone(), places.to_dtype(DType::I32).unwrap()] {
            let rows = x.index_select(0, &places).unwrap();
            assert_eq!((rows.shape(), rows.dtype()), (&[2, 2, 3][..], dtype));
            let expected: Vec<f64> = [2, 3, 0, 2]
                .iter()
                .flat_map(|row| given[row * 3..][..3].to_vec())
                .collect();
            assert_near(&rows, &expected, 0.0);
            assert_near(&x.embedding(&places).unwrap(), &expected, 0.0);
        }
        let taken = x.take(&indices(&pool, &[-1, 0, 5], &[3])).unwrap();
        assert_near(&taken, &[given[11], given[0], given[5]], 0.0);
        let picked = x.gather(0, &indices(&pool, &[3, 0, -4], &[1, 3])).unwrap();
        assert_near(&picked, &[given[9], given[1], given[2]], 0.0);
    }
}

#[test]
fn views_are_indexed_as_they_lie() {
    let pool = pool();
    let x = whole(&pool, &[5, 4, 3], 2, DType::F32)
        .permute(&[2, 0, 1])
        .unwrap();
    let x = x.slice(1, .., -2).unwrap();
    let spread = indices(&pool, &[2], &[1]).broadcast_to(&[3, 2, 4]).unwrap();
    let picked = x.gather(1, &spread).unwrap();
    let row = x
        .select(1, 2)
        .unwrap()
        .unsqueeze(1)
        .unwrap()
        .expand(&[3, 2, 4])
        .unwrap();
    assert_near(&picked, &values(&row), 0.0);
    let places = indices(&pool, &[0, 9, 1, 9], &[4]).slice(0, .., 2).unwrap();
    let rows = x.index_select(2, &places).unwrap();
    assert_near(&rows, &values(&x.narrow(2, 0, 2).unwrap()), 0.0);
}

#[test]
fn indices_that_are_repeated_pick_what_their_copies_do() {
    let pool = pool();
    let x = whole(&pool, &[5, 4], 4, DType::F32);
    for shape in [&[3, 2][..], &[1, 2], &[0, 2]] {
        let places = indices(&pool, &[3, -2], &[1, 2])
            .broadcast_to(shape)
            .unwrap();
        let copies = indices(&pool, &[3, -2].repeat(shape[0]), shape);
        type Pick = fn(&Tensor, &Tensor) -> streampool_tensor::Result<Tensor>;
        let ways: [Pick; 3] = [
            |x, at| x.index_select(0, at),
            Tensor::embedding,
            Tensor::take,
        ];
        for pick in ways {
            let picked = pick(&x, &places).unwrap();
            let wanted = pick(&x, &copies).unwrap();
            assert_eq!(picked.shape(), wanted.shape());
            assert_near(&picked, &values(&wanted), 0.0);
        }
    }
}

#[test]
fn slices_are_named_by_several_indices() {
    let pool = pool();
    let x = whole(&pool, &[2, 3, 4], 3, DType::I32);
    let given = values(&x);
    let places = indices(&pool, &[0, 1, 1, 2, 1, -3], &[3, 2]);
    let rows = x.gather_nd(0, &places).unwrap();
    let expected: Vec<f64> = [1, 5, 3]
        .iter()
        .flat_map(|row| given[row * 4..][..4].to_vec())
        .collect();
    assert_near(&rows, &expected, 0.0);
    let each = x.gather_nd(1, &indices(&pool, &[2, 0], &[2, 1])).unwrap();
    assert_near(&each, &[&given[8..12], &given[12..16]].concat(), 0.0);
    let put = x
        .scatter_nd(&places, &rows.add(1).unwrap(), Combine::Replace)
        .unwrap();
    let mut expected = given.clone();
    for row in [1, 5, 3] {
        expected[row * 4..][..4].iter_mut().for_each(|x| *x += 1.0);
    }
    assert_near(&put, &expected, 0.0);
    assert_near(&x, &given, 0.0);
}

#[test]
fn what_is_put_twice_is_combined() {
    let pool = pool();
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U16,
        DType::I64,
    ] {
        let x = Tensor::full(&pool, &[4], 3, dtype).unwrap();
        let places = indices(&pool, &[1, 1, -1], &[3]);
        let updates = Tensor::arange(&pool, 2, 5, 1, dtype).unwrap();
        for (combine, expected) in [
            (Combine::Replace, [3.0, 3.0, 3.0, 4.0]),
            (Combine::Add, [3.0, 8.0, 3.0, 7.0]),
            (Combine::Mul, [3.0, 18.0, 3.0, 12.0]),
            (Combine::Min, [3.0, 2.0, 3.0, 3.0]),
            (Combine::Max, [3.0, 3.0, 3.0, 4.0]),
        ] {
            assert_near(
                &x.scatter_reduce(0, &places, &updates, combine).unwrap(),
                &expected,
                0.0,
            );
            assert_near(
                &x.index_reduce(0, &places, &updates, combine).unwrap(),
                &expected,
                0.0,
            );
        }
        assert_near(
            &x.scatter(0, &places, &updates).unwrap(),
            &[3.0, 3.0, 3.0, 4.0],
            0.0,
        );
        assert_near(
            &x.index_copy(0, &places, &updates).unwrap(),
            &[3.0, 3.0, 3.0, 4.0],
            0.0,
        );
        assert_near(
            &x.index_add(0, &places, &updates).unwrap(),
            &[3.0, 8.0, 3.0, 7.0],
            0.0,
        );
    }
    let truth = Tensor::zeros(&pool, &[3], DType::Bool).unwrap();
    let one = Tensor::ones(&pool, &[1], DType::Bool).unwrap();
    assert_near(
        &truth.scatter(0, &indices(&pool, &[1], &[1]), &one).unwrap(),
        &[0.0, 1.0, 0.0],
        0.0,
    );
}

#[test]
fn nothing_is_picked_and_put() {
    let pool = pool();
    let (x, none) = (
        whole(&pool, &[3, 2], 4, DType::F32),
        indices(&pool, &[], &[0]),
    );
    let rows = x.index_select(0, &none).unwrap();
    assert_eq!(rows.shape(), [0, 2]);
    assert_near(&x.index_add(0, &none, &rows).unwrap(), &values(&x), 0.0);
    let empty = Tensor::ones(&pool, &[0, 2], DType::F32).unwrap();
    assert_eq!(empty.index_select(0, &none).unwrap().shape(), [0, 2]);
    assert_eq!(empty.take(&none).unwrap().shape(), [0]);
    let nowhere = indices(&pool, &[], &[2, 0]);
    let both = x.gather_nd(0, &nowhere).unwrap();
    assert_eq!(both.shape(), [2, 3, 2]);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let x = whole(&pool, &[4, 3], 5, DType::F32);
    let (places, floats) = (
        indices(&pool, &[0, 1], &[2]),
        whole(&pool, &[2], 6, DType::F32),
    );
    let deep = indices(&pool, &[0; 3], &[1, 3]);
    assert_refused([
        (
            x.index_select(2, &places),
            "index_select: axis is 2, expected -2 to 1",
        ),
        (
            x.index_select(0, &floats),
            "index_select: indices is of type f32, expected i64",
        ),
        (
            x.gather(0, &places),
            "gather: indices is of shape [2], expected at most [4, 3] in all axes but 0",
        ),
        (x.take(&floats), "take: indices is of type f32"),
        (
            floats.embedding(&places),
            "embedding: self has shape [2], expected [entries, features]",
        ),
        (
            x.gather_nd(0, &deep),
            "gather_nd: indices has shape [1, 3], expected a last axis of at most 2 indices",
        ),
        (
            x.gather_nd(usize::MAX, &deep),
            "gather_nd: indices has shape [1, 3]",
        ),
        (
            x.scatter(0, &places, &floats),
            "scatter: indices is of shape [2]",
        ),
        (
            x.scatter_add(0, &deep, &floats),
            "scatter_add: updates is of shape [2], expected [1, 3]",
        ),
        (
            x.index_add(1, &places, &floats),
            "index_add: updates is of shape [2], expected [4, 2]",
        ),
        (
            x.index_copy(0, &places, &x.to_dtype(DType::F64).unwrap()),
            "index_copy: updates is",
        ),
        (
            x.scatter_nd(&deep, &floats, Combine::Add),
            "scatter_nd: indices has shape [1, 3]",
        ),
        (
            x.to_dtype(DType::Bool).unwrap().index_reduce(
                0,
                &places,
                &x.narrow(0, 0, 2).unwrap().to_dtype(DType::Bool).unwrap(),
                Combine::Add,
            ),
            "index_reduce: self is of type bool",
        ),
    ]);
}
