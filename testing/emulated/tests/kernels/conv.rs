//! Convolutions by the kernels of GPUs, beside the host.

use streampool_device::{Activation, Conv, DType, Layout, Op, Slide, Window};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};
use streampool_kernels::{Limits, tensor_core_patches};

/// The sizes of a convolution.
struct Sizes<'a> {
    groups: usize,
    read: usize,
    made: usize,
    spatial: &'a [usize],
    slide: Slide,
    transposed: bool,
}

fn conv(dtype: DType, sizes: &Sizes, bias: bool, activation: Activation) -> Op<Tensor> {
    let Sizes {
        groups,
        read,
        made,
        spatial,
        slide,
        transposed,
    } = *sizes;
    let channels = match transposed {
        false => [groups * made, read],
        true => [groups * read, made],
    };
    let result = |&size: &usize| match transposed {
        false => slide.windows(size),
        true => usize::try_from(slide.spread(size)).expect("there is a result"),
    };
    let results: Vec<usize> = spatial.iter().map(result).collect();
    let kernel = vec![slide.kernel as usize; spatial.len()];
    Op::Conv(Box::new(Conv {
        src: Tensor::new(dtype, &[&[2, groups * read], spatial].concat()).random(1),
        weight: Tensor::new(dtype, &[&channels[..], &kernel].concat()).random(2),
        bias: bias.then(|| Tensor::new(dtype, &[groups * made]).random(3)),
        dst: Tensor::new(dtype, &[&[2, groups * made], &results[..]].concat()),
        window: Window::new(&vec![slide; spatial.len()]).expect("a window"),
        groups,
        transposed,
        activation,
        to_bytes: None,
        zero_point: 0,
    }))
}

fn check(ops: &[Op<Tensor>]) {
    assert_all_same_as_host(Emulator::of_each_dialect(), ops, Tolerance::Usual);
}

const SLIDES: [Slide; 4] = [
    Slide {
        before: 1,
        after: 1,
        ..Slide::new(3)
    },
    Slide {
        stride: 2,
        before: 1,
        after: 2,
        ..Slide::new(3)
    },
    Slide {
        stride: 3,
        dilation: 2,
        before: 1,
        ..Slide::new(2)
    },
    Slide {
        stride: 2,
        ..Slide::new(1)
    },
];

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn convolutions() {
    let mut ops = Vec::new();
    for transposed in [false, true] {
        for slide in SLIDES {
            for (groups, read, made) in [(1, 5, 33), (2, 3, 8), (7, 1, 1), (3, 2, 4)] {
                for spatial in [&[30][..], &[7, 9], &[4, 3, 6]] {
                    let sizes = Sizes {
                        groups,
                        read,
                        made,
                        spatial,
                        slide,
                        transposed,
                    };
                    ops.push(conv(DType::F32, &sizes, true, Activation::None));
                }
            }
        }
    }
    check(&ops);
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn convolutions_of_every_type_and_ending() {
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (groups, made) in [(1, 17), (3, 2)] {
            for (bias, activation) in [
                (false, Activation::None),
                (true, Activation::Relu),
                (true, Activation::Silu),
            ] {
                let sizes = Sizes {
                    groups,
                    read: 4,
                    made,
                    spatial: &[6, 11],
                    slide: SLIDES[0],
                    transposed: false,
                };
                ops.push(conv(dtype, &sizes, bias, activation));
            }
        }
    }
    check(&ops);
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn tiles_of_every_size() {
    let mut ops = Vec::new();
    for (made, size) in [(8, 5), (33, 8), (64, 30), (65, 24), (130, 40)] {
        let sizes = Sizes {
            groups: 1,
            read: 3,
            made,
            spatial: &[size, size],
            slide: SLIDES[0],
            transposed: false,
        };
        ops.push(conv(DType::F32, &sizes, true, Activation::None));
    }
    check(&ops);
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn each_channel_by_itself() {
    let lies = |sizes: [usize; 4], axes: [usize; 4]| {
        let layout = Layout::contiguous(&sizes).and_then(|layout| layout.permute(&axes));
        layout.expect("a layout")
    };
    let seven = Slide {
        before: 3,
        after: 3,
        ..Slide::new(7)
    };
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for slide in SLIDES.into_iter().chain([seven]) {
            for (channels, is_last) in [(7, true), (10, true), (16, true), (5, false), (10, false)]
            {
                let picture = |[h, w]: [usize; 2]| match is_last {
                    true => Tensor::laid_out(dtype, lies([2, h, w, channels], [0, 3, 1, 2])),
                    false => Tensor::new(dtype, &[2, channels, h, w]),
                };
                let (size, k) = ([9, 14], slide.kernel as usize);
                let weight = match is_last {
                    true => Tensor::laid_out(dtype, lies([k, k, channels, 1], [2, 3, 0, 1])),
                    false => Tensor::new(dtype, &[channels, 1, k, k]),
                };
                ops.push(Op::Conv(Box::new(Conv {
                    src: picture(size).random(1),
                    weight: weight.random(2),
                    bias: (channels == 10).then(|| Tensor::new(dtype, &[channels]).random(3)),
                    dst: picture(size.map(|size| slide.windows(size))),
                    window: Window::new(&[slide; 2]).expect("a window"),
                    groups: channels,
                    transposed: false,
                    activation: match channels {
                        16 => Activation::Relu,
                        _ => Activation::None,
                    },
                    to_bytes: None,
                    zero_point: 0,
                })));
            }
        }
    }
    // On a small GPU there are enough threads though each takes many channels.
    for compute_units in [8, 0] {
        let limits = Limits {
            compute_units,
            shared_bytes: 48 << 10,
            buffers: 480,
        };
        let emulators = Emulator::of_each_dialect().map(|emulator| emulator.with_limits(limits));
        assert_all_same_as_host(emulators, &ops, Tolerance::Usual);
    }
}

#[test]
#[cfg_attr(any(sanitize_address, sanitize_thread), ignore = "runs a compiler")]
fn patches_are_multiplied_on_tensor_cores() {
    let lies = |sizes: &[usize], axes: &[usize]| {
        let layout = Layout::contiguous(sizes).and_then(|layout| layout.permute(axes));
        layout.expect("a layout")
    };
    let mut ops = Vec::new();
    for (dtype, read, stride, is_last) in [
        (DType::F32, 3, 4, false),
        (DType::F32, 12, 2, true),
        (DType::F16, 4, 4, false),
        (DType::BF16, 16, 2, true),
    ] {
        // The last lines are in no window.
        let (size, count) = ([8 * stride as usize + 1, 9 * stride as usize], [8, 9]);
        let picture = |channels: usize, [h, w]: [usize; 2]| match is_last {
            true => Tensor::laid_out(dtype, lies(&[2, h, w, channels], &[0, 3, 1, 2])),
            false => Tensor::new(dtype, &[2, channels, h, w]),
        };
        let k = stride as usize;
        let weight = match is_last {
            true => Tensor::laid_out(dtype, lies(&[64, k, k, read], &[0, 3, 1, 2])),
            false => Tensor::new(dtype, &[64, read, k, k]),
        };
        let slide = Slide {
            stride,
            ..Slide::new(stride)
        };
        ops.push(Op::Conv(Box::new(Conv {
            src: picture(read, size).uniform(1, -1.0, 1.0),
            weight: weight.uniform(2, -0.1, 0.1),
            bias: is_last.then(|| Tensor::new(dtype, &[64]).random(3)),
            dst: picture(64, count),
            window: Window::new(&[slide; 2]).expect("a window"),
            groups: 1,
            transposed: false,
            activation: if is_last {
                Activation::Relu
            } else {
                Activation::None
            },
            to_bytes: None,
            zero_point: 0,
        })));
    }
    // A line of samples.
    let line = Slide {
        stride: 8,
        ..Slide::new(8)
    };
    ops.push(Op::Conv(Box::new(Conv {
        src: Tensor::new(DType::F32, &[1, 4, 70 * 8]).uniform(1, -1.0, 1.0),
        weight: Tensor::new(DType::F32, &[64, 4, 8]).uniform(2, -0.1, 0.1),
        bias: None,
        dst: Tensor::new(DType::F32, &[1, 64, 70]),
        window: Window::new(&[line]).expect("a window"),
        groups: 1,
        transposed: false,
        activation: Activation::None,
        to_bytes: None,
        zero_point: 0,
    })));
    let limits = Limits {
        compute_units: 132,
        shared_bytes: 48 << 10,
        buffers: 480,
    };
    let emulators = Emulator::or_skip().map(|emulator| {
        emulator
            .with_limits(limits)
            .with_lowering(|op, limits| match op {
                Op::Conv(op) => tensor_core_patches(op, limits),
                _ => None,
            })
    });
    assert_all_same_as_host(emulators, &ops, Tolerance::Usual);
}
