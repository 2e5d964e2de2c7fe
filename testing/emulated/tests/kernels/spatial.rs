//! Pooling and interpolation by the kernels of GPUs, beside the host.

use streampool_device::{
    Along, DType, Dims, Interpolation, Layout, Op, Pool, PoolKind, Regions, Resize, Rounding,
    Slide, Window,
};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

fn check(ops: &[Op<Tensor>]) {
    assert_all_same_as_host(Emulator::of_each_dialect(), ops, Tolerance::Usual);
}

fn pool(
    kind: PoolKind,
    dtype: DType,
    sizes: &[usize],
    slides: &[Slide],
    indexed: bool,
) -> Op<Tensor> {
    let (mut src, mut dst) = (vec![2, 3], vec![2, 3]);
    src.extend(sizes);
    dst.extend(
        sizes
            .iter()
            .zip(slides)
            .map(|(&size, slide)| slide.windows_ceil(size)),
    );
    Op::Pool(Pool {
        kind,
        src: Tensor::new(dtype, &src).random(sizes.len() as u64),
        dst: Tensor::new(dtype, &dst),
        indices: indexed.then(|| Tensor::new(DType::I64, &dst)),
        window: Window::new(slides).expect("a window"),
    })
}

const SLIDES: [Slide; 4] = [
    Slide {
        stride: 2,
        ..Slide::new(2)
    },
    Slide {
        stride: 2,
        before: 1,
        after: 1,
        ..Slide::new(3)
    },
    Slide {
        dilation: 2,
        before: 2,
        after: 3,
        ..Slide::new(3)
    },
    Slide {
        stride: 3,
        before: 5,
        ..Slide::new(40)
    },
];

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn pools() {
    let kinds = [
        (PoolKind::Max, false),
        (PoolKind::Max, true),
        (
            PoolKind::Mean {
                count_padding: false,
            },
            false,
        ),
        (
            PoolKind::Mean {
                count_padding: true,
            },
            false,
        ),
        (PoolKind::Lp(1.0), false),
        (PoolKind::Lp(2.0), false),
        (PoolKind::Lp(3.0), false),
    ];
    let mut ops = Vec::new();
    for (kind, indexed) in kinds {
        for slide in SLIDES {
            for dtype in [DType::F32, DType::F16] {
                ops.push(pool(kind, dtype, &[37, 61], &[slide; 2], indexed));
            }
            ops.push(pool(kind, DType::F64, &[300], &[slide], indexed));
            ops.push(pool(
                kind,
                DType::BF16,
                &[40, 41, 7],
                &[slide, slide, Slide::new(2)],
                indexed,
            ));
        }
    }
    for dtype in [DType::I8, DType::U8, DType::I32, DType::U64] {
        ops.push(pool(PoolKind::Max, dtype, &[9, 30], &[SLIDES[1]; 2], false));
        ops.push(pool(PoolKind::Max, dtype, &[9, 30], &[SLIDES[2]; 2], true));
    }
    check(&ops);
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn pools_of_channels_last() {
    let channels_last = |shape: [usize; 4]| {
        let [n, c, h, w] = shape;
        let layout =
            Layout::contiguous(&[n, h, w, c]).and_then(|layout| layout.permute(&[0, 3, 1, 2]));
        Tensor::laid_out(DType::F32, layout.expect("a layout"))
    };
    check(&[Op::Pool(Pool {
        kind: PoolKind::Mean {
            count_padding: true,
        },
        src: channels_last([2, 5, 17, 30]).random(3),
        dst: channels_last([2, 5, 9, 15]),
        indices: None,
        window: Window::new(&[SLIDES[1]; 2]).expect("a window"),
    })]);
}

fn resize(
    dtype: DType,
    interpolation: Interpolation,
    odd: [bool; 3],
    along: [Along; 2],
) -> Op<Tensor> {
    let still = Along::default();
    let [antialias, exclude_outside, outside] = odd;
    Op::Resize(Resize {
        src: Tensor::new(dtype, &[2, 3, 11, 19]).random(7),
        dst: Tensor::new(dtype, &[2, 3, 22, 13]),
        along: Dims::new(&[still, still, along[0], along[1]]).expect("four dimensions"),
        interpolation,
        antialias,
        exclude_outside,
        outside: outside.then_some(3.0),
    })
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn resizes() {
    use Rounding::{Ceil, Floor, HalfDown, HalfUp};
    let half = Along {
        scale: 0.5,
        shift: -0.25,
    };
    let wide = Along {
        scale: 19.0 / 13.0,
        shift: 3.0 / 13.0,
    };
    let backwards = Along {
        scale: -1.75,
        shift: 20.5,
    };
    let mut ops = Vec::new();
    for along in [[half, wide], [Along { shift: 1.0, ..half }, backwards]] {
        for outside in [false, true] {
            for rounding in [HalfDown, HalfUp, Floor, Ceil] {
                for dtype in [DType::U8, DType::F16, DType::F32, DType::I64] {
                    let nearest = Interpolation::Nearest(rounding);
                    ops.push(resize(dtype, nearest, [false, false, outside], along));
                }
            }
            for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
                for antialias in [false, true] {
                    for exclude in [false, true] {
                        for dtype in [DType::F32, DType::BF16, DType::F64] {
                            let odd = [antialias, exclude, outside];
                            ops.push(resize(dtype, interpolation, odd, along));
                        }
                    }
                }
            }
        }
    }
    check(&ops);
}

/// A window or a filter over all of a long line is one thread's work.
#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn long_sums_stay_accurate() {
    let side = 1100;
    let wide = Slide::new(side as u32);
    let padded = Slide {
        before: 1,
        ..Slide::new(side as u32 + 1)
    };
    let mut ops = Vec::new();
    for kind in [
        PoolKind::Mean {
            count_padding: true,
        },
        PoolKind::Lp(1.0),
        PoolKind::Lp(2.0),
    ] {
        ops.push(Op::Pool(Pool {
            kind,
            src: Tensor::new(DType::F32, &[1, 1, side, side]).uniform(1, 0.9, 1.1),
            dst: Tensor::new(DType::F32, &[1, 1, 1, 1]),
            indices: None,
            window: Window::new(&[padded, wide]).expect("a window"),
        }));
    }
    for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
        let whole = Along {
            scale: side as f64,
            shift: side as f64 / 2.0 - 0.5,
        };
        ops.push(Op::Resize(Resize {
            src: Tensor::new(DType::F32, &[side, side]).uniform(2, 0.9, 1.1),
            dst: Tensor::new(DType::F32, &[1, 1]),
            along: Dims::new(&[whole; 2]).expect("two dimensions"),
            interpolation,
            antialias: true,
            exclude_outside: false,
            outside: None,
        }));
    }
    let near = Tolerance::Within(2e-6, 2e-5);
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, near);
}

/// Most of the window, and of the filter, lies beyond the picture. Walking it would take years.
#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn what_lies_beyond_the_picture_is_not_walked() {
    let wide = Slide {
        before: 8_000_000,
        after: 7_999_996,
        ..Slide::new(16_000_000)
    };
    let mut ops = Vec::new();
    for kind in [
        PoolKind::Max,
        PoolKind::Mean {
            count_padding: false,
        },
        PoolKind::Mean {
            count_padding: true,
        },
        PoolKind::Lp(3.0),
    ] {
        ops.push(Op::Pool(Pool {
            kind,
            src: Tensor::new(DType::F32, &[1, 1, 4, 4]).uniform(1, 1.0, 2.0),
            dst: Tensor::new(DType::F32, &[1, 1, 1, 1]),
            indices: None,
            window: Window::new(&[wide; 2]).expect("a window"),
        }));
    }
    for scale in [3.0, 700.0, 1e6, 1e12, 1e15] {
        for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
            for exclude_outside in [false, true] {
                let far = Along { scale, shift: -2.5 };
                // Kernels tell places apart up to 10⁹. Without what lies outside, far ones are made of a filter's very
                // ends, of digits that are lost.
                let near = scale < if exclude_outside { 1e4 } else { 1e8 };
                let places = if near { 3 } else { 1 };
                ops.push(Op::Resize(Resize {
                    src: Tensor::new(DType::F32, &[2, 9]).uniform(2, 1.0, 2.0),
                    dst: Tensor::new(DType::F32, &[2, places]),
                    along: Dims::new(&[Along::default(), far]).expect("two dimensions"),
                    interpolation,
                    antialias: true,
                    exclude_outside,
                    outside: None,
                }));
            }
        }
    }
    // Where a cubic filter ends, single floats lose digits.
    let near = Tolerance::Within(1e-3, 1e-3);
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, near);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn regions_anywhere() {
    let mut ops = Vec::new();
    // Odd parts of an element: no rounding takes a sample over an edge.
    let corners = [
        [0.3125, 1.1875, 9.6875, 7.4375],
        [-3.1875, -2.3125, 3.8125, 20.6875],
        [5.4375, 4.3125, 5.6875, 4.5625],
        [-40.3125, 50.1875, -20.6875, 70.4375],
    ];
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let of_sums = match dtype {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        for samples in [0, 1, 2, 3] {
            for (aligned, largest) in [(false, false), (false, true), (true, false), (true, true)] {
                ops.push(Op::Regions(Regions {
                    src: Tensor::new(dtype, &[2, 3, 9, 12]).random(7),
                    corners: Tensor::new(of_sums, &[4, 4]).values(corners.as_flattened()),
                    batches: Tensor::new(DType::I64, &[4]).values(&[0.0, 1.0, 1.0, 0.0]),
                    dst: Tensor::new(dtype, &[4, 3, 3, 5]),
                    scale: 1.0,
                    samples,
                    aligned,
                    largest,
                }));
            }
        }
    }
    check(&ops);
}
