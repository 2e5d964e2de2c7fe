//! Pooling and interpolation by the kernels of GPUs, beside the host.

use streampool_device::{
    Along, DType, Dims, Interpolation, Layout, Op, Pool, PoolKind, Resize, Rounding, Slide, Window,
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
