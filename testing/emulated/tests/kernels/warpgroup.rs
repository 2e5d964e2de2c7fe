//! Products and convolutions on Hopper's tensor cores, executed on the CPU.

use streampool_device::{Activation, Conv, DType, Layout, Op, Slide, Window};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host, emulate};
use streampool_kernels::{Limits, warpgroup_conv, warpgroup_product};

use super::split::{compare, emulator, factor, only, product, special_product};

/// With one processor tiles are large, with many they are flat.
const SIZES: [u32; 2] = [1, 132];

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

/// One for each tile of results of a stream alone.
fn of_each_tile() -> impl Iterator<Item = Emulator> {
    let sized = |size| Some(with_warpgroups(emulator(size)?, false));
    SIZES.into_iter().filter_map(sized)
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn products_of_any_sizes_are_as_exact_as_f32() {
    for emulator in of_each_tile() {
        for (number, [m, n, k]) in [[64, 64, 32], [124, 100, 52], [97, 132, 260]]
            .into_iter()
            .enumerate()
        {
            let seed = 10 * number as u64;
            for turned in [false, true] {
                let (a, b) = (
                    factor(DType::F32, seed, &[m, k], false),
                    factor(DType::F32, seed + 1, &[k, n], turned),
                );
                let mut op = product(a, b, &[m, n]);
                op.bias = turned.then(|| factor(DType::F32, seed + 2, &[n], false));
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
fn convolutions() -> Vec<Conv<Tensor>> {
    vec![
        convolution([2, 64, 7, 9], 72, [slide(3, 1, 1, [1, 1]); 2], false),
        convolution(
            [1, 4, 11, 14],
            40,
            [slide(3, 2, 1, [1, 0]), slide(5, 1, 2, [2, 3])],
            true,
        ),
        convolution(
            [3, 36, 5, 8],
            64,
            [slide(1, 1, 1, [0, 0]), slide(1, 2, 1, [0, 0])],
            false,
        ),
        convolution([1, 12, 6, 6], 100, [slide(2, 2, 1, [0, 0]); 2], true),
        // The windows at the edge see padding only.
        convolution(
            [1, 8, 3, 4],
            64,
            [slide(3, 1, 4, [9, 8]), slide(2, 1, 1, [1, 2])],
            false,
        ),
    ]
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn convolutions_are_products_of_what_windows_see() {
    let ops: Vec<_> = convolutions()
        .into_iter()
        .map(|op| Op::Conv(Box::new(op)))
        .collect();
    assert_all_same_as_host(of_each_tile(), &ops, Tolerance::Usual);
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
    let mut ops: Vec<_> = convolutions()
        .into_iter()
        .map(|op| Op::Conv(Box::new(op)))
        .collect();
    for [m, n, k] in [[128, 64, 40], [124, 152, 264]] {
        for turned in [false, true] {
            let (a, b) = (
                factor(DType::F32, 1, &[m, k], false),
                factor(DType::F32, 2, &[k, n], turned),
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
        compared >= 6,
        "{compared} of {} have another tile",
        ops.len()
    );
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
            groups: 2,
            weight: channels_last([64, 4, 3, 3]),
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
