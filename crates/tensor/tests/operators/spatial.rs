//! Convolution, pooling and interpolation.

use streampool_tensor::{
    Activation, Alignment, ConvOptions, DType, Interpolation, Padding, PoolOptions, ResizeOptions,
    Rounding, Tensor,
};

use crate::{FLOATS, assert_near, assert_refused, common::pool, real, values, whole};

#[test]
fn lines_are_convolved_in_every_float_type() {
    let pool = pool();
    for dtype in FLOATS {
        let (x, weight) = (
            whole(&pool, &[2, 4, 9], 1, dtype),
            whole(&pool, &[6, 2, 3], 2, dtype),
        );
        let bias = whole(&pool, &[6], 3, dtype);
        let bare = ConvOptions {
            stride: &[2],
            dilation: &[2],
            groups: 2,
            ..ConvOptions::default()
        };
        let options = ConvOptions {
            bias: Some(&bias),
            padding: &[(2, 1)],
            activation: Activation::Relu,
            ..bare
        };
        let y = x.conv(&weight, &options).unwrap();
        assert_eq!(y.shape(), [2, 6, 4]);
        let zero = Padding::Constant(0.into());
        let padded = x.pad(&[(0, 0), (0, 0), (2, 1)], zero).unwrap();
        let pieces = padded.conv(&weight, &bare).unwrap();
        let pieces = pieces.add(&bias.unsqueeze(1).unwrap()).unwrap();
        assert_near(&y, &values(&pieces.relu().unwrap()), 0.0);
    }
}

/// A line written as a picture of one column is convolved as the line is; padding beside it counts.
#[test]
fn a_column_is_convolved_as_a_line() {
    let pool = pool();
    let (x, weight) = (
        whole(&pool, &[2, 4, 9], 1, DType::F32),
        whole(&pool, &[6, 4, 3], 2, DType::F32),
    );
    let column = |tensor: &Tensor| tensor.unsqueeze(-1).unwrap();
    let of_line = ConvOptions {
        stride: &[2],
        padding: &[(2, 1)],
        ..ConvOptions::default()
    };
    let of_column = ConvOptions {
        stride: &[2, 3],
        padding: &[(2, 1), (0, 0)],
        ..ConvOptions::default()
    };
    let line = x.conv(&weight, &of_line).unwrap();
    let y = column(&x).conv(&column(&weight), &of_column).unwrap();
    assert_eq!(y.shape(), [2, 6, line.shape()[2], 1]);
    assert_eq!(values(&y), values(&line));
    // The one window sees only what is beside the element.
    let beside = ConvOptions {
        padding: &[(2, 1), (1, 1)],
        ..of_column
    };
    let nothing = column(&x).conv(&column(&weight), &beside).unwrap();
    assert_eq!(nothing.shape(), y.shape());
    assert!(values(&nothing).iter().all(|&value| value == 0.0));
    let back = column(&line)
        .conv_transpose(&column(&weight), &[], &of_column)
        .unwrap();
    let line_back = line.conv_transpose(&weight, &[], &of_line).unwrap();
    assert_eq!(values(&back), values(&line_back));
}

#[test]
fn a_transposed_convolution_turns_a_convolution_around() {
    let pool = pool();
    // <conv(x), y> = <x, transposed(y)>, with the same weight.
    let (x, weight) = (
        whole(&pool, &[1, 4, 7, 8], 4, DType::F64),
        whole(&pool, &[6, 2, 3, 2], 5, DType::F64),
    );
    let options = ConvOptions {
        stride: &[2, 3],
        padding: &[(1, 1), (0, 1)],
        groups: 2,
        ..ConvOptions::default()
    };
    let made = x.conv(&weight, &options).unwrap();
    let y = whole(&pool, made.shape(), 6, DType::F64);
    let back = y.conv_transpose(&weight, &[0, 1], &options).unwrap();
    assert_eq!(back.shape(), x.shape());
    let inner = |a: &Tensor, b: &Tensor| -> f64 {
        values(a).iter().zip(values(b)).map(|(a, b)| a * b).sum()
    };
    assert_eq!(inner(&made, &y), inner(&x, &back));
}

#[test]
fn views_are_convolved_as_they_lie() {
    let pool = pool();
    let stored = whole(&pool, &[6, 5, 3, 2], 7, DType::F32);
    let x = stored
        .permute(&[3, 2, 1, 0])
        .unwrap()
        .slice(3, .., -1)
        .unwrap();
    let weight = whole(&pool, &[3, 3, 2, 4], 8, DType::F32)
        .transpose(0, 3)
        .unwrap();
    let options = ConvOptions::default();
    let y = x.conv(&weight, &options).unwrap();
    let copied = x
        .contiguous()
        .unwrap()
        .conv(&weight.contiguous().unwrap(), &options)
        .unwrap();
    assert_eq!(y.shape(), [2, 4, 4, 4]);
    assert_near(&y, &values(&copied), 0.0);
}

#[test]
fn windows_are_pooled() {
    let pool = pool();
    let x = whole(&pool, &[2, 3, 11], 9, DType::F32);
    for (ceil, count) in [(false, 3), (true, 4)] {
        let options = PoolOptions {
            stride: &[3],
            padding: &[(1, 1)],
            dilation: &[2],
            ceil,
        };
        let (y, indices) = x.max_pool_with_indices(&[3], &options).unwrap();
        let found = x.gather(2, &indices).unwrap();
        assert_near(&y, &values(&found), 0.0);
        for y in [
            Ok(y),
            x.max_pool(&[3], &options),
            x.avg_pool(&[3], false, &options),
            x.lp_pool(3.0, &[3], &options),
        ] {
            assert_eq!(y.unwrap().shape(), [2, 3, count]);
        }
    }
    for dtype in [DType::I8, DType::U64, DType::BF16] {
        let x = Tensor::arange(&pool, 0, 16, 1, dtype)
            .unwrap()
            .view(&[1, 1, 4, 4])
            .unwrap();
        let y = x
            .max_pool(
                &[2, 2],
                &PoolOptions {
                    stride: &[2, 2],
                    ..Default::default()
                },
            )
            .unwrap();
        assert_near(&y, &[5.0, 7.0, 13.0, 15.0], 0.0);
    }
}

#[test]
fn not_a_number_wins_a_window() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1.0, f32::NAN, 3.0, f32::INFINITY], &[1, 1, 4]).unwrap();
    let y = x.max_pool(&[2], &PoolOptions::default()).unwrap();
    assert_near(&y, &[f64::NAN, f64::NAN, f64::INFINITY], 0.0);
    // The elements of other windows do not leak in.
    for y in [x.adaptive_avg_pool(&[3]), x.adaptive_max_pool(&[3])] {
        let y = values(&y.unwrap());
        assert!(
            y[0].is_nan() && y[1].is_nan() && y[2] == f64::INFINITY,
            "{y:?}"
        );
    }
    let ends = Tensor::from_slice(&pool, &[1.0, 2.0, 3.0, 4.0, f32::INFINITY], &[1, 1, 5]).unwrap();
    assert_near(
        &ends.adaptive_avg_pool(&[3]).unwrap(),
        &[1.5, 3.0, f64::INFINITY],
        0.0,
    );
}

#[test]
fn sizes_change_and_come_back() {
    let pool = pool();
    let x = whole(&pool, &[1, 2, 3], 11, DType::F32);
    let nearest = ResizeOptions {
        interpolation: Interpolation::Nearest(Rounding::Floor),
        alignment: Alignment::Asymmetric,
        ..ResizeOptions::default()
    };
    for dtype in DType::ALL {
        let x = x.to_dtype(dtype).unwrap();
        let large = x.resize(&[1, 4, 9], &nearest).unwrap();
        assert_eq!(large.shape(), [1, 4, 9]);
        let small = large.resize(&[1, 2, 3], &nearest).unwrap();
        assert_eq!(small.to_bytes().unwrap(), x.to_bytes().unwrap(), "{dtype}");
    }
    let line = Tensor::from_slice(&pool, &[0.0f32, 3.0], &[2]).unwrap();
    let along = |alignment| {
        let options = ResizeOptions {
            alignment,
            ..ResizeOptions::default()
        };
        line.resize(&[4], &options).unwrap()
    };
    assert_near(&along(Alignment::Corners), &[0.0, 1.0, 2.0, 3.0], 1e-6);
    assert_near(&along(Alignment::HalfPixel), &[0.0, 0.75, 2.25, 3.0], 1e-6);
    assert_near(&along(Alignment::Asymmetric), &[0.0, 1.5, 3.0, 3.0], 1e-6);
    let crop = ResizeOptions {
        alignment: Alignment::Crop(0.5, 2.0),
        outside: Some(-1.0),
        ..ResizeOptions::default()
    };
    assert_near(
        &line.resize(&[4], &crop).unwrap(),
        &[1.5, 3.0, -1.0, -1.0],
        1e-6,
    );
    let none = Tensor::ones(&pool, &[0, 2], DType::F32).unwrap();
    assert_eq!(none.resize(&[0, 5], &nearest).unwrap().shape(), [0, 5]);
}

#[test]
fn places_half_way_are_what_they_are_by_whole_numbers() {
    let pool = pool();
    for from in 1..=25i64 {
        let numbers: Vec<f32> = (0..from).map(|number| number as f32).collect();
        let line = Tensor::from_slice(&pool, &numbers, &[from as usize]).unwrap();
        for to in (1..=60i64).filter(|&to| to != from) {
            for alignment in [Alignment::HalfPixel, Alignment::Asymmetric] {
                for rounding in [
                    Rounding::HalfDown,
                    Rounding::HalfUp,
                    Rounding::Floor,
                    Rounding::Ceil,
                ] {
                    let options = ResizeOptions {
                        interpolation: Interpolation::Nearest(rounding),
                        alignment,
                        ..ResizeOptions::default()
                    };
                    let made = line.resize(&[to as usize], &options).unwrap();
                    let expected: Vec<f32> = (0..to)
                        .map(|output| {
                            // The place, in parts of which each element has so many.
                            let parts = 2 * to;
                            let place = match alignment {
                                Alignment::HalfPixel => (2 * output + 1) * from - to,
                                _ => 2 * output * from,
                            };
                            let nearest = match rounding {
                                Rounding::HalfDown => -(to - place).div_euclid(parts),
                                Rounding::HalfUp => (place + to).div_euclid(parts),
                                Rounding::Floor => place.div_euclid(parts),
                                Rounding::Ceil => -(-place).div_euclid(parts),
                            };
                            nearest.clamp(0, from - 1) as f32
                        })
                        .collect();
                    let what = format!("{from} to {to}, {alignment:?}, {rounding:?}");
                    assert_eq!(made.to_vec::<f32>().unwrap(), expected, "{what}");
                }
            }
        }
    }
}

#[test]
fn batches_and_channels_may_be_empty() {
    let pool = pool();
    let weight = real(&pool, &[4, 3, 2], 12);
    let x = Tensor::ones(&pool, &[0, 3, 5], DType::F32).unwrap();
    let options = ConvOptions::default();
    assert_eq!(x.conv(&weight, &options).unwrap().shape(), [0, 4, 4]);
    let turned = weight.transpose(0, 1).unwrap();
    assert_eq!(
        x.conv_transpose(&turned, &[], &options).unwrap().shape(),
        [0, 4, 6]
    );
    assert_eq!(
        x.max_pool(&[2], &PoolOptions::default()).unwrap().shape(),
        [0, 3, 4]
    );
    assert_eq!(x.adaptive_avg_pool(&[3]).unwrap().shape(), [0, 3, 3]);
    let blind = Tensor::ones(&pool, &[2, 0, 5], DType::F32).unwrap();
    let nothing = blind
        .conv(&weight.narrow(1, 0, 0).unwrap(), &options)
        .unwrap();
    assert_near(&nothing, &[0.0; 32], 0.0);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let make = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
    let (x, weight) = (make(&[1, 4, 5, 5]), make(&[6, 4, 3, 3]));
    let plain = ConvOptions::default();
    let pooling = PoolOptions::default();
    let integers = x.to_dtype(DType::I32).unwrap();
    let index = Tensor::zeros(&pool, &[1, 4, 5, 5], DType::I64).unwrap();
    assert_refused([
        (
            make(&[4, 5]).conv(&weight, &plain),
            "conv: self has shape [4, 5], expected [batch, channels, spatial ...]",
        ),
        (
            x.conv(&make(&[6, 4, 3]), &plain),
            "conv: weight has shape [6, 4, 3], expected 4 axes, as self has",
        ),
        (
            x.conv(&make(&[6, 3, 3, 3]), &plain),
            "conv: weight is of shape [6, 3, 3, 3], expected one for 4 channels",
        ),
        (
            x.conv(&weight, &ConvOptions { groups: 3, ..plain }),
            "conv: groups is 3, expected a divisor of 4",
        ),
        (
            x.conv_transpose(
                &weight,
                &[],
                &ConvOptions {
                    groups: usize::MAX,
                    ..plain
                },
            ),
            "conv_transpose: groups is",
        ),
        (
            x.conv(
                &weight,
                &ConvOptions {
                    stride: &[1],
                    ..plain
                },
            ),
            "conv: stride is [1], expected 2 values",
        ),
        (
            x.conv(
                &weight,
                &ConvOptions {
                    dilation: &[1, 0],
                    ..plain
                },
            ),
            "conv: dilation is 0, expected at least 1",
        ),
        (
            x.conv(
                &weight,
                &ConvOptions {
                    dilation: &[1, 9],
                    ..plain
                },
            ),
            "conv: self has shape [1, 4, 5, 5], expected at least 19 elements in axis 3",
        ),
        (
            x.conv(
                &weight,
                &ConvOptions {
                    bias: Some(&make(&[5])),
                    ..plain
                },
            ),
            "conv: bias is of shape [5], expected",
        ),
        (
            integers.conv(&weight, &plain),
            "conv: self is of type i32, expected a float type",
        ),
        (
            make(&[1, 4, 1, 1]).conv_transpose(
                &make(&[4, 2, 1, 1]),
                &[],
                &ConvOptions {
                    padding: &[(2, 2), (0, 0)],
                    ..plain
                },
            ),
            "conv_transpose: padding is [(2, 2), (0, 0)], expected less",
        ),
        (
            x.conv_transpose(&make(&[4, 2, 3, 3]), &[1, 0], &plain),
            "conv_transpose: extra is 1, expected at most 0 for axis 2",
        ),
        (
            x.max_pool(&[2], &pooling),
            "max_pool: kernel is [2], expected 2 sizes",
        ),
        (
            x.max_pool(&[2, 6], &pooling),
            "max_pool: self has shape [1, 4, 5, 5], expected at least 6",
        ),
        (
            x.max_pool(&[0, 2], &pooling),
            "max_pool: kernel is 0, expected at least 1",
        ),
        (
            x.avg_pool(&[2, usize::MAX], true, &pooling),
            "avg_pool: kernel is 18446744073709551615, expected at most",
        ),
        (
            integers.avg_pool(&[2, 2], true, &pooling),
            "avg_pool: self is of type i32",
        ),
        (x.lp_pool(-1.0, &[2, 2], &pooling), "lp_pool: p is -1"),
        (
            x.adaptive_avg_pool(&[2]),
            "adaptive_avg_pool: sizes is [2], expected 2 sizes",
        ),
        (
            x.adaptive_max_pool(&[2, 0]),
            "adaptive_max_pool: sizes is [2, 0], expected at least 1 for each axis",
        ),
        (
            x.max_unpool(&index, &[7]),
            "max_unpool: sizes is [7], expected 2 sizes",
        ),
        (
            x.max_unpool(&make(&[1, 4, 5, 5]), &[7, 7]),
            "max_unpool: indices is of type f32",
        ),
        (
            x.max_unpool(&index, &[usize::MAX, 7]),
            "max_unpool: shape has shape",
        ),
        (
            x.resize(&[1, 4], &ResizeOptions::default()),
            "resize: shape is 2 values, expected 4",
        ),
        (
            integers.resize(&[1, 4, 9, 9], &ResizeOptions::default()),
            "resize: self is of type i32",
        ),
        (
            x.narrow(2, 0, 0)
                .unwrap()
                .resize(&[1, 4, 9, 9], &ResizeOptions::default()),
            "resize: self is of shape [1, 4, 0, 5]",
        ),
    ]);
}
