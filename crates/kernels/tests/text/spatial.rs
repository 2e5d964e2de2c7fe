//! Ops that go over windows and places.

use streampool_device::{
    Activation, Along, Conv, DType, Dims, Interpolation, Op, Pool, PoolKind, Regions, Resize,
    Rounding, Slide, Window,
};

use super::{FLOATS, Memory};

/// One op for each kernel text there is.
pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        convolutions(dtype, &mut ops);
        regions(dtype, &mut ops);
    }
    for dtype in DType::ALL {
        pools(dtype, &mut ops);
        resizes(dtype, &mut ops);
    }
    ops
}

fn conv(
    dtype: DType,
    [read, made, groups, size]: [usize; 4],
    rank: usize,
    slide: Slide,
    ending: (bool, Activation),
) -> [Op; 2] {
    [false, true].map(|transposed| {
        let mut memory = Memory::default();
        let made_size = match transposed {
            false => slide.windows(size),
            true => slide.spread(size) as usize,
        };
        let shape = |channels, size| [&[2, groups * channels][..], &vec![size; rank]].concat();
        let channels = match transposed {
            false => [groups * made, read],
            true => [groups * read, made],
        };
        let weight = [&channels[..], &vec![slide.kernel as usize; rank]].concat();
        Op::Conv(Box::new(Conv {
            src: memory.row_major(dtype, &shape(read, size)),
            weight: memory.row_major(dtype, &weight),
            bias: ending.0.then(|| memory.row_major(dtype, &[groups * made])),
            dst: memory.row_major(dtype, &shape(made, made_size)),
            window: Window::new(&vec![slide; rank]).expect("a window"),
            groups,
            transposed,
            activation: ending.1,
            to_bytes: None,
            zero_point: 0,
        }))
    })
}

fn convolutions(dtype: DType, ops: &mut Vec<Op>) {
    use Activation::*;
    let padded = Slide {
        before: 1,
        after: 1,
        ..Slide::new(3)
    };
    let large = Slide {
        stride: 2,
        ..Slide::new(7)
    };
    for activation in [None, Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, HardSwish] {
        ops.extend(conv(dtype, [3, 16, 1, 9], 2, padded, (true, activation)));
    }
    ops.extend(conv(dtype, [64, 256, 1, 200], 2, padded, (false, None)));
    ops.extend(conv(dtype, [64, 64, 1, 60], 2, padded, (false, Relu)));
    ops.extend(conv(dtype, [1, 1, 32, 60], 2, padded, (true, None)));
    ops.extend(conv(dtype, [1, 2, 3, 20], 3, large, (false, None)));
    ops.extend(conv(dtype, [4, 12, 3, 20], 1, large, (true, None)));
    // So many elements that they are not counted in 32 bits.
    ops.extend(conv(dtype, [1, 1, 1 << 18, 100], 2, padded, (true, None)));
    for size in [4, 60] {
        ops.push(with_channels_last(dtype, size, padded));
    }
}

fn with_channels_last(dtype: DType, size: usize, slide: Slide) -> Op {
    let mut memory = Memory::default();
    let mut view = |[number, channels, height, width]: [usize; 4]| {
        let strides = [height * width * channels, 1, width * channels, channels];
        let shape = [number, channels, height, width];
        memory.strided(dtype, &shape, &strides.map(|stride| stride as isize), 0)
    };
    Op::Conv(Box::new(Conv {
        src: view([2, 64, size, size]),
        weight: view([64, 64, 3, 3]),
        bias: None,
        dst: view([2, 64, size, size]),
        window: Window::new(&[slide; 2]).expect("a window"),
        groups: 1,
        transposed: false,
        activation: Activation::Relu,
        to_bytes: None,
        zero_point: 0,
    }))
}

fn pools(dtype: DType, ops: &mut Vec<Op>) {
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
    for (kind, indexed) in kinds {
        let fits = match kind {
            PoolKind::Max => dtype != DType::Bool,
            _ => dtype.is_float(),
        };
        for (images, kernel) in [(2, 2), (2, 9), (1 << 24, 2)].into_iter().filter(|_| fits) {
            let mut memory = Memory::default();
            let slide = Slide {
                before: 1,
                ..Slide::new(kernel)
            };
            let made = slide.windows(20);
            ops.push(Op::Pool(Pool {
                kind,
                src: memory.row_major(dtype, &[images, 1, 20, 20]),
                dst: memory.row_major(dtype, &[images, 1, made, made]),
                indices: indexed.then(|| memory.row_major(DType::I64, &[images, 1, made, made])),
                window: Window::new(&[slide; 2]).expect("a window"),
            }));
        }
    }
}

fn resizes(dtype: DType, ops: &mut Vec<Op>) {
    use Rounding::{Ceil, Floor, HalfDown, HalfUp};
    let twice = Along {
        scale: 0.5,
        shift: -0.25,
    };
    let mut resize = |interpolation, antialias, exclude_outside, outside, images: usize| {
        let mut memory = Memory::default();
        let still = Along::default();
        ops.push(Op::Resize(Resize {
            src: memory.row_major(dtype, &[images, 3, 20, 30]),
            dst: memory.row_major(dtype, &[images, 3, 40, 60]),
            along: Dims::new(&[still, still, twice, twice]).expect("four dimensions"),
            interpolation,
            antialias,
            exclude_outside,
            outside,
        }));
    };
    for rounding in [HalfDown, HalfUp, Floor, Ceil] {
        let nearest = Interpolation::Nearest(rounding);
        resize(nearest, false, false, None, 2);
        resize(nearest, false, false, Some(1.5), 2);
    }
    resize(Interpolation::Nearest(HalfUp), false, false, None, 1 << 22);
    for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
        for antialias in [false, true] {
            for exclude in [false, true] {
                for outside in [None, Some(0.5)] {
                    if dtype.is_float() {
                        resize(interpolation, antialias, exclude, outside, 2);
                    }
                }
            }
        }
    }
    if dtype.is_float() {
        resize(Interpolation::Linear, false, false, None, 1 << 22);
    }
}

fn regions(dtype: DType, ops: &mut Vec<Op>) {
    let of_sums = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    for samples in [0, 2] {
        for (aligned, largest) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut memory = Memory::default();
            ops.push(Op::Regions(Regions {
                src: memory.row_major(dtype, &[2, 3, 20, 30]),
                corners: memory.row_major(of_sums, &[5, 4]),
                batches: memory.row_major(DType::I64, &[5]),
                dst: memory.row_major(dtype, &[5, 3, 7, 7]),
                scale: 0.25,
                samples,
                aligned,
                largest,
            }));
        }
    }
}
