//! Softmax and normalisation.

use streampool_tensor::{DType, Tensor};

use crate::{FLOATS, assert_near, common::pool, real, refusal, values, whole};

fn rows(x: &Tensor, width: usize, each: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    values(x).chunks_exact(width).flat_map(each).collect()
}

fn layer(row: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
    row.iter()
        .map(|x| (x - mean) / (variance + epsilon).sqrt())
        .collect()
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        _ => 1e-5,
    }
}

#[test]
fn softmax_sums_to_one_along_any_axis() {
    let pool = pool();
    for dtype in FLOATS {
        let x = real(&pool, &[3, 5, 4], 1).to_dtype(dtype).unwrap();
        for axis in [0, 1, -1] {
            let last = x.transpose(axis, -1).unwrap();
            let soft = |row: &[f64]| {
                let sum: f64 = row.iter().map(|x| x.exp()).sum();
                row.iter().map(|x| x.exp() / sum).collect()
            };
            let expected = rows(&last, last.shape()[2], soft);
            let y = x.softmax(axis).unwrap();
            assert_near(&y.transpose(axis, -1).unwrap(), &expected, tolerance(dtype));
            let logs: Vec<f64> = expected.iter().map(|x| x.ln()).collect();
            let y = x.log_softmax(axis).unwrap();
            assert_near(&y.transpose(axis, -1).unwrap(), &logs, tolerance(dtype));
        }
    }
    let far = Tensor::from_slice(&pool, &[f32::NEG_INFINITY, 1000.0, 1000.0], &[3]).unwrap();
    assert_near(&far.softmax(0).unwrap(), &[0.0, 0.5, 0.5], 1e-6);
    let nothing = Tensor::ones(&pool, &[0, 3], DType::F32).unwrap();
    assert_eq!(nothing.softmax(0).unwrap().shape(), [0, 3]);
}

#[test]
fn rows_are_normalised_from_an_axis_on() {
    let pool = pool();
    for dtype in FLOATS {
        let x = real(&pool, &[2, 3, 4], 2).to_dtype(dtype).unwrap();
        let scale = whole(&pool, &[3, 4], 3, dtype);
        let bias = whole(&pool, &[3, 4], 4, dtype);
        let (factors, summands) = (values(&scale), values(&bias));
        let finished = |row: &[f64]| {
            let mut row = layer(row, 1e-3);
            for (at, x) in row.iter_mut().enumerate() {
                *x = *x * factors[at] + summands[at];
            }
            row
        };
        let y = x.layer_norm(1, Some(&scale), Some(&bias), 1e-3).unwrap();
        assert_near(&y, &rows(&x, 12, finished), tolerance(dtype));
        // A view: what was the first axis is the last.
        let turned = x.permute(&[1, 2, 0]).unwrap();
        let y = turned.layer_norm(-1, None, None, 1e-3).unwrap();
        assert_near(
            &y,
            &rows(&turned, 2, |row| layer(row, 1e-3)),
            tolerance(dtype),
        );
        let root = |row: &[f64]| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            row.iter().map(|x| x / (square + 1e-3).sqrt()).collect()
        };
        let y = x.rms_norm(2, None, 1e-3).unwrap();
        assert_near(&y, &rows(&x, 4, root), tolerance(dtype));
    }
}

#[test]
fn channels_are_normalised() {
    let pool = pool();
    for dtype in FLOATS {
        let x = real(&pool, &[2, 4, 3], 5).to_dtype(dtype).unwrap();
        let scale = whole(&pool, &[4], 6, dtype);
        // As mixed models have them: what belongs to channels in `f32`.
        let bias = whole(&pool, &[4], 7, DType::F32);
        let (factors, summands) = (values(&scale), values(&bias));
        let finish = |normal: Vec<f64>| -> Vec<f64> {
            let finish = |(at, x): (usize, f64)| x * factors[at / 3 % 4] + summands[at / 3 % 4];
            normal.into_iter().enumerate().map(finish).collect()
        };
        let by = |width| finish(rows(&x, width, |row| layer(row, 1e-3)));
        let y = x.group_norm(2, Some(&scale), Some(&bias), 1e-3).unwrap();
        assert_eq!(y.dtype(), dtype);
        assert_near(&y, &by(6), 3.0 * tolerance(dtype));
        let y = x.instance_norm(Some(&scale), Some(&bias), 1e-3).unwrap();
        assert_near(&y, &by(3), 3.0 * tolerance(dtype));
        let variance = scale.abs().unwrap().add(1.0).unwrap();
        let y = x
            .batch_norm(&bias, &variance, None, Some(&bias), 0.0)
            .unwrap();
        let expected: Vec<f64> = values(&x)
            .iter()
            .enumerate()
            .map(|(at, x)| {
                let channel = at / 3 % 4;
                (x - summands[channel]) / (factors[channel].abs() + 1.0).sqrt() + summands[channel]
            })
            .collect();
        assert_near(&y, &expected, tolerance(dtype));
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
    for (got, expected) in [
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
    ] {
        let got = refusal(got);
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
}
