//! Products and convolutions on Hopper's tensor cores, executed on the CPU.

use streampool_device::{Activation, Conv, DType, Layout, Op, Slide, Window};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host, emulate};
use streampool_kernels::{Limits, warpgroup_conv, warpgroup_product};

use super::split::{compare, emulator, factor, only, product, special_product};

/// Processors: with few tiles are large, with many they are flat or small.
const SIZES: [u32; 2] = [2, 132];
const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// With the kernels for one stream alone, or for one of many.
fn with_warpgroups(emulator: Emulator, many: bool) -> Emulator {
    emulator.with_lowering(match many {
        false => |op, limits| lowered(op, limits, false),
        true => |op, limits| lowered(op, limits, true),
    })
}

fn lowered(op: &Op, limits: &Limits, many: bool) -> Option<streampool_kernels::Plan> {
    match op {
        Op::MatMul(op) => warpgroup_product(op, limits, many),
        Op::Conv(op) => warpgroup_conv(op, limits, many),
        _ => None,
    }
}

/// With so many processors, for one stream alone.
fn tiled(size: u32) -> Option<Emulator> {
    Some(with_warpgroups(emulator(size)?, false))
}

/// One for each tile of results of a stream alone.
fn of_each_tile() -> impl Iterator<Item = Emulator> {
    SIZES.into_iter().filter_map(tiled)
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn products_of_any_sizes_are_as_exact_as_f32() {
    // In tiles of each size.
    let sizes: [(u32, [usize; 3]); 6] = [
        (1, [64, 64, 32]),
        (4, [124, 100, 52]),
        (4, [128, 188, 68]),
        (132, [97, 132, 260]),
        // The terms in parts, which are of one length or not.
        (132, [70, 68, 1024]),
        (132, [64, 64, 1544]),
    ];
    for (units, [m, n, k]) in sizes {
        for dtype in DTYPES {
            let Some(emulator) = tiled(units) else {
                return;
            };
            let seed = 10 * k as u64;
            let [m, n, k] = match dtype {
                DType::F32 => [m, n, k],
                _ => [m, n.next_multiple_of(8), k.next_multiple_of(8)],
            };
            for turned in [false, true] {
                let (a, b) = (
                    factor(dtype, seed, &[m, k], false),
                    factor(dtype, seed + 1, &[k, n], turned),
                );
                let mut op = product(a, b, &[m, n]);
                op.bias = turned.then(|| factor(dtype, seed + 2, &[n], false));
                compare(&emulator, k, op);
            }
        }
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_is_not_finite_spoils_only_its_own_results() {
    for emulator in of_each_tile() {
        compare(&emulator, 64, special_product());
        // Beyond the edge, rows of a tile meet what is not finite.
        for special in [f64::INFINITY, f64::NAN] {
            let factor = |columns: usize, special: f64| {
                let mut values: Vec<f64> = (0..72 * columns).map(|at| (at % 5) as f64).collect();
                values[75] = special;
                Tensor::new(DType::BF16, &[72, columns]).values(&values)
            };
            for [in_a, in_b] in [[special, 1.0], [1.0, special]] {
                let (a, b) = (factor(72, in_a), factor(64, in_b));
                compare(&emulator, 72, product(a, b, &[72, 64]));
            }
        }
    }
}

/// A picture, or weights, with the channels last.
fn channels_last(sizes: [usize; 4]) -> Tensor {
    let [images, channels, height, width] = sizes;
    let layout = Layout::contiguous(&[images, height, width, channels])
        .and_then(|layout| layout.permute(&[0, 3, 1, 2]));
    Tensor::laid_out(DType::F32, layout.expect("a layout"))
}

fn convolution(
    read: [usize; 4],
    made: usize,
    slides: [Slide; 2],
    places_last: bool,
) -> Conv<Tensor> {
    let places: Vec<usize> = slides
        .iter()
        .zip(&read[2..])
        .map(|(slide, &size)| slide.windows(size))
        .collect();
    let [images, channels, ..] = read;
    let [down, across] = slides.map(|slide| slide.kernel as usize);
    let dst = [images, made, places[0], places[1]];
    Conv {
        src: channels_last(read).uniform(1, -1.0, 1.0),
        weight: channels_last([made, channels, down, across]).uniform(2, -0.1, 0.1),
        bias: places_last.then(|| Tensor::new(DType::F32, &[made]).random(3)),
        dst: match places_last {
            // One picture's places follow one another.
            true => Tensor::new(DType::F32, &dst),
            false => channels_last(dst),
        },
        window: Window::new(&slides).expect("a window"),
        groups: 1,
        transposed: false,
        activation: match places_last {
            true => Activation::Relu,
            false => Activation::None,
        },
        to_bytes: None,
        zero_point: 0,
    }
}

fn slide(kernel: u32, stride: u32, dilation: u32, [before, after]: [u32; 2]) -> Slide {
    Slide {
        kernel,
        stride,
        dilation,
        before,
        after,
    }
}

/// Of few channels and many, of one place and several, that are padded, and skip places; and beyond the last tile.
fn convolutions() -> Vec<Op<Tensor>> {
    let [none, one] = [[0, 0], [1, 1]];
    [
        ([2, 64, 7, 9], 72, [slide(3, 1, 1, one); 2], false),
        (
            [1, 4, 11, 14],
            40,
            [slide(3, 2, 1, [1, 0]), slide(5, 1, 2, [2, 3])],
            true,
        ),
        (
            [3, 36, 5, 8],
            64,
            [slide(1, 1, 1, none), slide(1, 2, 1, none)],
            false,
        ),
        ([1, 12, 6, 6], 101, [slide(2, 2, 1, none); 2], true),
        // The windows at the edge see padding only.
        (
            [1, 8, 3, 4],
            64,
            [slide(3, 1, 4, [9, 8]), slide(2, 1, 1, [1, 2])],
            false,
        ),
    ]
    .into_iter()
    .map(|(read, made, slides, places_last)| convolution(read, made, slides, places_last))
    .chain([true, false].map(|places_last| Conv {
        groups: 3,
        weight: channels_last([72, 8, 3, 3]).uniform(2, -0.1, 0.1),
        ..convolution([1, 24, 7, 9], 72, [slide(3, 1, 1, one); 2], places_last)
    }))
    .map(|op| Op::Conv(Box::new(op)))
    .collect()
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn convolutions_are_products_of_what_windows_see() {
    assert_all_same_as_host(of_each_tile(), &convolutions(), Tolerance::Usual);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_is_not_finite_in_a_picture_spoils_only_windows_that_see_it() {
    for special in [f64::INFINITY, f64::NAN, f64::from(f32::MAX)] {
        let mut op = convolution([1, 8, 6, 7], 64, [slide(3, 1, 1, [1, 1]); 2], false);
        let mut values = vec![0.5; 8 * 6 * 7];
        values[3 * 42 + 2 * 7 + 4] = special;
        op.src = op.src.values(&values);
        assert_all_same_as_host(
            of_each_tile().take(1),
            &[Op::Conv(Box::new(op))],
            Tolerance::Usual,
        );
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn one_of_many_streams_gets_the_same_bits() {
    let mut ops = convolutions();
    for (dtype, [m, n, k]) in [
        (DType::F32, [128, 64, 40]),
        (DType::F32, [124, 152, 264]),
        // In tiles for many, more rows of one factor would be empty, but not of the other.
        (DType::F32, [70, 128, 264]),
        (DType::BF16, [128, 64, 328]),
        (DType::F16, [97, 2304, 40]),
        (DType::F16, [128, 1024, 1024]),
        (DType::BF16, [190, 128, 72]),
        (DType::F16, [64, 64, 136]),
        (DType::BF16, [70, 64, 1096]),
        (DType::F16, [128, 128, 1544]),
    ] {
        for turned in [false, true] {
            let (a, b) = (
                factor(dtype, 1, &[m, k], false),
                factor(dtype, 2, &[k, n], turned),
            );
            ops.push(Op::MatMul(product(a, b, &[m, n])));
        }
    }
    let emulators = || [false, true].map(|many| Some(with_warpgroups(emulator(SIZES[1])?, many)));
    let [Some(alone), Some(of_many)] = emulators() else {
        return;
    };
    let mut compared = 0;
    for op in &ops {
        let Ok(many) = emulate(&of_many, op) else {
            continue;
        };
        let bits = |written| only(written).into_iter().map(f64::to_bits);
        assert!(bits(emulate(&alone, op)).eq(bits(Ok(many))), "{op:?}");
        compared += 1;
    }
    assert!(
        compared >= 20,
        "{compared} of {} have another tile",
        ops.len()
    );
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn matrices_of_16_bits_share_a_factor_or_have_their_own() {
    let Some(emulator) = tiled(SIZES[1]) else {
        return;
    };
    let of = |shape: &[usize], seed| factor(DType::F16, seed, shape, false);
    let shapes: [[&[usize]; 2]; 3] = [
        [&[3, 70, 72], &[3, 72, 96]],
        [&[70, 72], &[3, 72, 96]],
        // These are one matrix.
        [&[3, 70, 72], &[72, 96]],
    ];
    for [a, b] in shapes {
        compare(&emulator, 72, product(of(a, 1), of(b, 2), &[3, 70, 96]));
    }
    let (a, b) = (of(&[2, 3, 70, 72], 1), of(&[3, 72, 96], 2));
    let in_two_dimensions = Op::MatMul(product(a, b, &[2, 3, 70, 96]));
    let written = emulate(&emulator, &in_two_dimensions);
    assert!(written.is_err_and(|why| why.contains("no kernel")));
}

#[test]
fn what_is_not_laid_out_for_it_is_left_to_others() {
    let Some(emulator) = emulator(SIZES[1]) else {
        return;
    };
    let emulator = with_warpgroups(emulator, false);
    let plain = || convolution([1, 8, 6, 7], 64, [slide(3, 1, 1, [1, 1]); 2], false);
    let refused = [
        Conv {
            src: Tensor::new(DType::F32, &[1, 8, 6, 7]),
            ..plain()
        },
        Conv {
            weight: Tensor::new(DType::F32, &[64, 8, 3, 3]),
            ..plain()
        },
        Conv {
            groups: 4,
            weight: channels_last([64, 2, 3, 3]),
            ..plain()
        },
        convolution([1, 6, 6, 7], 64, [slide(3, 1, 1, [1, 1]); 2], false),
        // Places of two pictures do not follow one another.
        Conv {
            dst: Tensor::new(DType::F32, &[2, 64, 6, 7]),
            ..convolution([2, 8, 6, 7], 64, [slide(3, 1, 1, [1, 1]); 2], false)
        },
    ];
    for op in refused {
        let written = emulate(&emulator, &Op::Conv(Box::new(op)));
        assert!(written.is_err_and(|why| why.contains("no kernel")));
    }
}
