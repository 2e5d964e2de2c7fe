//! Ops of every kind at each level of instructions.

use std::convert::Infallible;

use streampool_conformance::cases::Case;
use streampool_conformance::rng::Rng;
use streampool_device::{
    Activation, Along, Attention, Axes, Cell, Conv, DType, Dims, Direction, Interpolation, Linalg,
    MatMul, Norm, NormKind, Op, Pool, PoolKind, ReduceKind, Resize, Rnn, Rounding, Slide, ToBytes,
    Window,
};

use super::ops::{FLOATS, Tensor, run};
use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};
use crate::kernels::simd::{Level, has_byte_dots};

#[test]
fn drawn_ops() {
    let rounds = if cfg!(any(sanitize_thread, sanitize_address)) {
        4
    } else {
        40
    };
    at_each_level(|_| {
        for number in 0..Case::KINDS * rounds {
            let case = Case::random(number);
            let operands = case.operands();
            let operands: Vec<Tensor> = operands
                .map(|(dtype, layout, bytes)| Tensor::holding(dtype, layout, bytes))
                .collect();
            let placed = case
                .op()
                .try_map(|_, _, &index| Ok::<_, Infallible>(operands[index].view));
            let Ok(op) = placed;
            run(&op);
        }
    });
}

const PADDED: Slide = Slide {
    before: 1,
    after: 1,
    ..Slide::new(3)
};
const STEPPING: Slide = Slide {
    stride: 2,
    dilation: 2,
    ..PADDED
};

/// A convolution of images, of channels in groups, `read` of them to `made` for each group.
fn convolve(
    rng: &mut Rng,
    dtype: DType,
    [groups, read, made]: [usize; 3],
    size: [usize; 2],
    slide: Slide,
    transposed: bool,
) {
    let kernel = slide.kernel as usize;
    let results = size.map(|size| match transposed {
        false => slide.windows(size),
        true => usize::try_from(slide.spread(size)).unwrap(),
    });
    let channels = match transposed {
        false => [groups * made, read],
        true => [groups * read, made],
    };
    let src = Tensor::small(dtype, &[2, groups * read, size[0], size[1]], rng);
    let weight = Tensor::small(dtype, &[channels[0], channels[1], kernel, kernel], rng);
    let bias = Tensor::small(dtype, &[groups * made], rng);
    let dst = Tensor::zeros(dtype, &[2, groups * made, results[0], results[1]]);
    run(&Op::Conv(Box::new(Conv {
        src: src.view,
        weight: weight.view,
        bias: Some(bias.view),
        dst: dst.view,
        window: Window::new(&[slide; 2]).unwrap(),
        groups,
        transposed,
        activation: Activation::Relu,
        to_bytes: None,
        zero_point: 0,
    })));
}

#[test]
fn convolutions_of_block_sizes() {
    let mut rng = Rng::new(7);
    at_each_level(|_| {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            for transposed in [false, true] {
                // Each number of rows that a block may have.
                for made in [1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 16, 23, 24, 25] {
                    convolve(&mut rng, dtype, [1, 3, made], [5, 23], PADDED, transposed);
                }
                for channels in [[9, 1, 1], [2, 3, 5]] {
                    convolve(&mut rng, dtype, channels, [9, 70], STEPPING, transposed);
                }
            }
        }
        // Cut into bands.
        convolve(&mut rng, DType::F32, [1, 12, 3], [60, 61], PADDED, false);
    });
    on_matrix_unit(|| {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (channels, size) in [
                ([1, 3, 1], [5, 23]),
                ([2, 5, 33], [9, 18]),
                ([1, 70, 20], [4, 9]),
            ] {
                for (slide, transposed) in [(PADDED, false), (PADDED, true), (STEPPING, false)] {
                    convolve(&mut rng, dtype, channels, size, slide, transposed);
                }
            }
        }
    });
}

/// A convolution of pictures with the channels last, of what is read, made or both; of floats, and of bytes where the level has that.
fn convolve_last(
    rng: &mut Rng,
    channels: [usize; 3],
    size: [usize; 2],
    slides: [Slide; 2],
    last: [bool; 2],
) {
    convolve_last_of([DType::F32; 3], rng, channels, size, slides, last);
    if has_byte_dots() {
        for made in [DType::I32, DType::U8] {
            let bytes = [DType::U8, DType::I8, made];
            convolve_last_of(bytes, rng, channels, size, slides, last);
        }
    }
}

fn convolve_last_of(
    [seen, weights, sums]: [DType; 3],
    rng: &mut Rng,
    [groups, read, made]: [usize; 3],
    size: [usize; 2],
    slides: [Slide; 2],
    last: [bool; 2],
) {
    let picture = |dtype, tensor: [usize; 4], last: bool, rng: &mut Rng| {
        let [images, channels, lines, places] = tensor;
        match last {
            true => Tensor::small(dtype, &[images, lines, places, channels], rng)
                .permuted(&[0, 3, 1, 2]),
            false => Tensor::small(dtype, &tensor, rng),
        }
    };
    let results = [0, 1].map(|axis| slides[axis].windows(size[axis]));
    let src = picture(seen, [2, groups * read, size[0], size[1]], last[0], rng);
    let dst = picture(
        sums,
        [2, groups * made, results[0], results[1]],
        last[1],
        rng,
    );
    let kernel = slides.map(|slide| slide.kernel as usize);
    let weight = [groups * made, read, kernel[0], kernel[1]];
    let weight = Tensor::small(weights, &weight, rng);
    let makes_bytes = sums == DType::U8;
    let bias = if makes_bytes { DType::F32 } else { sums };
    let bias = Tensor::small(bias, &[groups * made], rng);
    let scale = Tensor::of(DType::F32, &[groups * made], || rng.real(0.0, 4e-3));
    run(&Op::Conv(Box::new(Conv {
        src: src.view,
        weight: weight.view,
        bias: Some(bias.view),
        dst: dst.view,
        window: Window::new(&slides).unwrap(),
        groups,
        transposed: false,
        activation: match made % 2 {
            _ if !sums.is_float() => Activation::None,
            0 => Activation::Relu,
            _ => Activation::Silu,
        },
        to_bytes: makes_bytes.then_some(ToBytes {
            scale: scale.view,
            zero_point: 90,
        }),
        zero_point: if makes_bytes { 101 } else { 0 },
    })));
}

#[test]
fn convolutions_with_channels_last() {
    let mut rng = Rng::new(11);
    let five = Slide {
        before: 2,
        after: 2,
        stride: 2,
        ..Slide::new(5)
    };
    // Some of its elements see nothing but padding for many results.
    let wide = Slide {
        before: 6,
        after: 6,
        dilation: 6,
        ..Slide::new(3)
    };
    at_each_level(|_| {
        for slides in [
            [Slide::new(1); 2],
            [PADDED; 2],
            [STEPPING, PADDED],
            [five; 2],
            [Slide { stride: 1, ..five }; 2],
            [wide; 2],
        ] {
            for last in [[true, true], [true, false], [false, true], [false, false]] {
                for channels in [[1, 3, 16], [1, 40, 33], [1, 17, 5], [2, 8, 9], [3, 8, 16]] {
                    convolve_last(&mut rng, channels, [9, 14], slides, last);
                }
                for channels in [16, 24, 37, 70] {
                    convolve_last(&mut rng, [channels, 1, 1], [7, 19], slides, last);
                }
            }
        }
        // Several blocks of channels and of lines.
        convolve_last(&mut rng, [600, 1, 1], [16, 16], [PADDED; 2], [true, true]);
        // Several panels of what is summed, and several tiles.
        convolve_last(&mut rng, [1, 70, 130], [24, 20], [PADDED; 2], [true, true]);
    });
    // Those that are products are the matrix unit's.
    on_matrix_unit(|| {
        for slides in [[Slide::new(1); 2], [PADDED; 2]] {
            for last in [[true, true], [true, false], [false, true], [false, false]] {
                for channels in [[1, 40, 33], [1, 70, 130], [2, 33, 48]] {
                    convolve_last(&mut rng, channels, [9, 14], slides, last);
                }
            }
        }
    });
}

#[test]
fn convolutions_of_three_taps_with_channels_last() {
    let mut rng = Rng::new(14);
    let before = Slide {
        before: 2,
        ..Slide::new(3)
    };
    // Tiles of four results and of 16 that end at the edge of a picture, one place before it and more; channels that end in a
    // vector, in a block and in several, and their sums in a chunk and between.
    at_each_level(|_| {
        for slides in [[PADDED; 2], [before, Slide::new(3)]] {
            for size in [[8, 11], [20, 24], [23, 21], [34, 5]] {
                for channels in [[1, 17, 16], [1, 32, 33], [1, 40, 71]] {
                    convolve_last(&mut rng, channels, size, slides, [true, true]);
                }
            }
        }
        // One line that is longer than what tiles are made of at a time.
        convolve_last(&mut rng, [1, 70, 16], [4, 200], [PADDED; 2], [true, true]);
    });
}

#[test]
fn windows_with_channels_last() {
    let mut rng = Rng::new(12);
    at_each_level(|_| {
        for kind in [
            PoolKind::Max,
            PoolKind::Mean {
                count_padding: true,
            },
            PoolKind::Lp(2.0),
        ] {
            for channels in [8, 16, 27] {
                let size = [9, 14];
                let results = size.map(|size| STEPPING.windows(size));
                let src = Tensor::small(DType::F32, &[2, size[0], size[1], channels], &mut rng);
                let dst = Tensor::zeros(DType::F32, &[2, results[0], results[1], channels]);
                let [src, dst] = [src, dst].map(|tensor| tensor.permuted(&[0, 3, 1, 2]));
                run(&Op::Pool(Pool {
                    kind,
                    src: src.view,
                    dst: dst.view,
                    indices: None,
                    window: Window::new(&[STEPPING; 2]).unwrap(),
                }));
            }
        }
    });
}

#[test]
fn pictures_of_other_sizes_with_channels_last() {
    let mut rng = Rng::new(13);
    let ways = [
        Interpolation::Linear,
        Interpolation::Cubic(-0.75),
        Interpolation::Nearest(Rounding::Floor),
    ];
    at_each_level(|_| {
        for interpolation in ways {
            for ([lines, places], last) in [([9, 31], true), ([9, 31], false), ([3, 5], true)] {
                let mut picture = |[images, channels, lines, places]: [usize; 4]| match last {
                    true => Tensor::small(DType::F32, &[images, lines, places, channels], &mut rng)
                        .permuted(&[0, 3, 1, 2]),
                    false => {
                        Tensor::small(DType::F32, &[images, channels, lines, places], &mut rng)
                    }
                };
                let (src, dst) = (picture([2, 19, 4, 13]), picture([2, 19, lines, places]));
                let along = |from: usize, to: usize| {
                    let scale = from as f64 / to as f64;
                    Along {
                        scale,
                        shift: scale / 2.0 - 0.5,
                    }
                };
                let along = [
                    Along::default(),
                    Along::default(),
                    along(4, lines),
                    along(13, places),
                ];
                run(&Op::Resize(Resize {
                    src: src.view,
                    dst: dst.view,
                    along: Dims::new(&along).unwrap(),
                    interpolation,
                    antialias: false,
                    exclude_outside: false,
                    outside: (lines == 3).then_some(0.5),
                }));
            }
        }
    });
}

#[test]
fn rows_of_several_axes_are_one_product() {
    let mut rng = Rng::new(13);
    at_each_level(|_| {
        for (shape, order) in [
            ([5, 7, 1, 24], [0, 1, 2, 3]),
            ([5, 1, 7, 24], [0, 1, 2, 3]),
            ([7, 5, 3, 24], [1, 0, 2, 3]),
            ([2, 3, 30, 24], [0, 1, 2, 3]),
        ] {
            let a = Tensor::small(DType::F32, &shape, &mut rng).permuted(&order);
            let b = Tensor::small(DType::F32, &[24, 40], &mut rng);
            for bias in [vec![40], vec![a.view.shape()[2], 40]] {
                let bias = Tensor::small(DType::F32, &bias, &mut rng);
                let out = [a.view.shape(), &[40][..]].concat();
                let out = [&out[..3], &out[4..]].concat();
                let out = Tensor::zeros(DType::F32, &out);
                run(&Op::MatMul(MatMul {
                    a: a.view,
                    b: b.view,
                    bias: Some(bias.view),
                    out: out.view,
                    activation: Activation::Relu,
                    alpha: 1.0,
                }));
            }
        }
    });
}

#[test]
fn attention_of_many_keys() {
    let mut rng = Rng::new(8);
    at_each_level(|_| {
        for dtype in FLOATS {
            for [queries, keys, width] in [[3, 251, 6], [9, 9, 40], [4, 255, 33]] {
                let mut of = |heads, rows| Tensor::small(dtype, &[1, heads, rows, width], &mut rng);
                let (query, key, value, out) =
                    (of(4, queries), of(2, keys), of(2, keys), of(4, queries));
                run(&Op::Attention(Box::new(Attention {
                    query: query.view,
                    key: key.view,
                    value: value.view,
                    mask: None,
                    out: out.view,
                    scale: 0.2,
                    causal: None,
                    softcap: 0.0,
                })));
            }
        }
    });
}

#[test]
fn recurrent_layers_of_block_sizes() {
    let mut rng = Rng::new(9);
    let cells = [
        Cell::Tanh,
        Cell::Relu,
        Cell::Gru { reset_after: false },
        Cell::Gru { reset_after: true },
        Cell::Lstm,
    ];
    at_each_level(|_| {
        for dtype in FLOATS {
            for cell in cells {
                for [steps, batch, input, hidden] in [
                    [5, 1, 7, 60],
                    [4, 3, 16, 33],
                    [3, 14, 5, 24],
                    [2, 50, 3, 20],
                ] {
                    let gates = cell.gates() * hidden;
                    let mut of = |shape: &[usize], most: f64| {
                        Tensor::of(dtype, shape, || rng.real(-most, most))
                    };
                    let src = of(&[steps, batch, input], 1.0);
                    let weight = of(&[2, gates, input], 0.3);
                    let recurrent = of(&[2, gates, hidden], 1.0 / hidden as f64);
                    let bias = of(&[2, 2 * gates], 0.5);
                    let dst = of(&[steps, 2, batch, hidden], 1.0);
                    run(&Op::Rnn(Box::new(Rnn {
                        cell,
                        direction: Direction::Both,
                        src: src.view,
                        weight: weight.view,
                        recurrent: recurrent.view,
                        bias: Some(bias.view),
                        peephole: None,
                        lengths: None,
                        hidden: None,
                        cell_state: None,
                        dst: dst.view,
                        last_hidden: None,
                        last_cell: None,
                    })));
                }
            }
        }
    });
}

#[test]
fn inverses_of_several_blocks() {
    let mut rng = Rng::new(10);
    at_each_level(|_| {
        for (dtype, size) in [(DType::F32, 130), (DType::F64, 70)] {
            let (src, dst) = (
                sound(dtype, &[size, size], &mut rng),
                Tensor::zeros(dtype, &[size, size]),
            );
            run(&Op::Linalg(Linalg::Inverse {
                src: src.view,
                dst: dst.view,
            }));
        }
    });
}

/// Matrices with a large element in each row, off the diagonal.
pub(super) fn sound(dtype: DType, shape: &[usize], rng: &mut Rng) -> Tensor {
    let size = shape[shape.len() - 1];
    let mut element = 0;
    Tensor::of(dtype, shape, || {
        let (row, column) = (element / size % size, element % size);
        element += 1;
        let large = (row * 7 + column + 1) % size == 0;
        rng.real(-2.0, 2.0) + if large { 2.0 * size as f64 } else { 0.0 }
    })
}

#[test]
fn every_level_gives_the_same_bits() {
    let mut rng = Rng::new(21);
    for dtype in FLOATS {
        let src = Tensor::small(dtype, &[37, 111], &mut rng);
        let [softmax, sum, norm] =
            [111, 1, 111].map(|columns| Tensor::zeros(dtype, &[37, columns]));
        let ops = [
            Op::Reduce {
                kind: ReduceKind::Sum,
                src: src.view,
                dst: sum.view,
                axes: Axes::new(&[1]).unwrap(),
            },
            Op::Norm(Norm {
                added: None,
                sum: None,
                kind: NormKind::Rms,
                src: src.view,
                dst: norm.view,
                scale: None,
                bias: None,
                axis: 1,
                epsilon: 0.0,
            }),
            // Its exponentials are made of multiplications that are fused where the machine can.
            Op::Softmax {
                src: src.view,
                dst: softmax.view,
                axis: 1,
                log: false,
            },
        ];
        let mut first: Option<Vec<Vec<u8>>> = None;
        at_each_level(|level| {
            ops.iter().for_each(run);
            let mut results: Vec<Vec<u8>> = [&sum, &norm, &softmax]
                .map(|tensor| tensor.bytes().to_vec())
                .into();
            if level == Level::Baseline {
                results.pop();
            }
            let first = first.get_or_insert_with(|| results.clone());
            let both = first.len().min(results.len());
            assert!(first[..both] == results[..both], "{dtype} with {level:?}");
            *first = results;
        });
    }
}
