//! Softmax and normalisation.

use streampool_tensor::{DType, Tensor};

use crate::{assert_near, assert_refused, common::pool, real, values, whole};

#[test]
fn softmax_sums_to_one_along_any_axis() {
    let pool = pool();
    for axis in [0, 1, -1] {
        let x = real(&pool, &[3, 5, 4], 1);
        let y = x.softmax(axis).unwrap();
        let ones = values(&y.sum(&[axis], false).unwrap());
        assert_near(
            &y.sum(&[axis], false).unwrap(),
            &vec![1.0; ones.len()],
            1e-6,
        );
        let logs = values(&y.log().unwrap());
        assert_near(&x.log_softmax(axis).unwrap(), &logs, 1e-5);
    }
    let far = Tensor::from_slice(&pool, &[f32::NEG_INFINITY, 1000.0, 1000.0], &[3]).unwrap();
    assert_near(&far.softmax(0).unwrap(), &[0.0, 0.5, 0.5], 1e-6);
    let nothing = Tensor::ones(&pool, &[0, 3], DType::F32).unwrap();
    assert_eq!(nothing.softmax(0).unwrap().shape(), [0, 3]);
}

#[test]
fn rows_are_scaled_and_raised_once_they_are_normal() {
    let pool = pool();
    let x = real(&pool, &[2, 3, 4], 2);
    let [scale, bias] = [3, 4].map(|seed| whole(&pool, &[3, 4], seed, DType::F32));
    let finished = x.layer_norm(1, Some(&scale), Some(&bias), 1e-3).unwrap();
    let pieces = x.layer_norm(1, None, None, 1e-3).unwrap();
    let pieces = pieces.mul(&scale).unwrap().add(&bias).unwrap();
    assert_near(&finished, &values(&pieces), 1e-5);
    // A view: what was the first axis is the last.
    let turned = x.permute(&[1, 2, 0]).unwrap();
    let y = turned.layer_norm(-1, None, None, 1e-3).unwrap();
    let copied = turned.contiguous().unwrap();
    let copied = copied.layer_norm(-1, None, None, 1e-3).unwrap();
    assert_near(&y, &values(&copied), 0.0);
}

/// As mixed models have them: what belongs to channels in another type.
#[test]
fn channels_are_normalised_in_types_of_their_own() {
    let pool = pool();
    for (dtype, near) in [(DType::F16, 6e-3), (DType::BF16, 4e-2)] {
        let x = real(&pool, &[2, 4, 3], 5).to_dtype(dtype).unwrap();
        let scale = whole(&pool, &[4], 6, dtype);
        let bias = whole(&pool, &[4], 7, DType::F32);
        let variance = scale.abs().unwrap().add(1.0).unwrap();
        let normal = |x: &Tensor, scale: &Tensor, variance: &Tensor| {
            [
                x.group_norm(2, Some(scale), Some(&bias), 1e-3),
                x.instance_norm(Some(scale), Some(&bias), 1e-3),
                x.batch_norm(&bias, variance, None, Some(&bias), 0.0),
                x.scale_shift(scale, &bias),
            ]
        };
        let [wide, wide_scale, wide_variance] =
            [&x, &scale, &variance].map(|x| x.to_dtype(DType::F32).unwrap());
        let expected = normal(&wide, &wide_scale, &wide_variance);
        for (y, expected) in normal(&x, &scale, &variance).into_iter().zip(expected) {
            let (y, expected) = (y.unwrap(), expected.unwrap());
            assert_eq!((y.dtype(), y.shape()), (dtype, x.shape()));
            assert_near(&y, &values(&expected), near);
        }
    }
}

#[test]
fn neighbouring_channels_dampen_each_other() {
    let pool = pool();
    let x = real(&pool, &[2, 5, 3], 8);
    let given = values(&x);
    for size in [1, 2, 3, 4, 9, 100, usize::MAX] {
        let (before, after) = ((size - 1) / 2, size / 2);
        let expected: Vec<f64> = (0..30)
            .map(|at| {
                let (channel, rest): (usize, usize) = (at / 3 % 5, at % 3 + at / 15 * 15);
                let sum: f64 = (channel.saturating_sub(before)
                    ..=(channel.saturating_add(after)).min(4))
                    .map(|near| given[rest + near * 3].powi(2))
                    .sum();
                given[at] / (1.0 + 0.5 / size as f64 * sum).powf(0.75)
            })
            .collect();
        let y = x.local_response_norm(size, 0.5, 0.75, 1.0).unwrap();
        assert_near(&y, &expected, 1e-5);
    }
}

#[test]
fn norms_of_halves_do_not_overflow() {
    let pool = pool();
    let x = Tensor::full(&pool, &[2, 100], 1000.0, DType::F16).unwrap();
    assert_near(&x.normalize(2.0, 1, 1e-12).unwrap(), &[0.1; 200], 1e-3);
    assert_near(&x.renorm(2.0, 0, 5.0).unwrap(), &[0.5; 200], 1e-3);
    let y = x
        .view(&[2, 100, 1])
        .unwrap()
        .local_response_norm(3, 3.0, 0.5, 0.0)
        .unwrap();
    // Neighbours are three, save at the ends.
    assert_near(&y.select(1, 1).unwrap(), &[0.577; 2], 1e-3);
}

#[test]
fn zero_sizes_give_nothing() {
    let pool = pool();
    let empty = Tensor::ones(&pool, &[0, 4, 3], DType::F32).unwrap();
    let weightless = Tensor::ones(&pool, &[2, 0, 3], DType::F32).unwrap();
    for (x, channels) in [(&empty, 4), (&weightless, 0)] {
        let one = Tensor::ones(&pool, &[channels], DType::F32).unwrap();
        let results = [
            x.group_norm(2, Some(&one), None, 1e-5),
            x.instance_norm(None, Some(&one), 1e-5),
            x.batch_norm(&one, &one, None, None, 1e-5),
            x.normalize(2.0, 1, 1e-5),
            x.normalize(f64::INFINITY, 1, 1e-5),
            x.renorm(2.0, 0, 1.0),
            x.local_response_norm(3, 1.0, 1.0, 1.0),
            x.layer_norm(1, None, None, 1e-5),
        ];
        for y in results {
            assert_eq!(y.unwrap().shape(), x.shape());
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let make = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
    let x = make(&[2, 4, 3]);
    let integers = x.to_dtype(DType::I32).unwrap();
    let four = make(&[4]);
    assert_refused([
        (x.softmax(3), "softmax: axis is 3, expected -3 to 2"),
        (
            integers.softmax(0),
            "softmax: self is of type i32, expected a float type",
        ),
        (
            x.layer_norm(1, Some(&four), None, 1e-5),
            "layer_norm: scale has shape [4], expected [4, 3], as normalised",
        ),
        (
            x.rms_norm(1, None, -1.0),
            "rms_norm: epsilon is -1, expected finite and not negative",
        ),
        (
            x.group_norm(3, None, None, 1e-5),
            "group_norm: groups is 3, expected a divisor of 4, the number of channels",
        ),
        (
            x.instance_norm(Some(&make(&[3])), None, 1e-5),
            "instance_norm: scale has shape [3], expected [4], one for each channel of [2, 4, 3]",
        ),
        (
            x.batch_norm(&four, &integers.select(0, 0).unwrap(), None, None, 1e-5),
            "batch_norm: variance has shape [4, 3], expected [4], one for each channel of [2, 4, 3]",
        ),
        (
            make(&[2]).renorm(2.0, 0, 1.0),
            "renorm: self has shape [2], expected at least two axes",
        ),
        (x.renorm(0.0, 0, 1.0), "renorm: p is 0, expected positive"),
        (
            x.renorm(2.0, 0, f64::NAN),
            "renorm: most is NaN, expected not negative",
        ),
        (
            integers.normalize(2.0, 0, 1.0),
            "normalize: self is of type i32, expected a float type",
        ),
        (
            x.local_response_norm(0, 1.0, 1.0, 1.0),
            "local_response_norm: size is 0, expected at least 1",
        ),
    ]);
}
