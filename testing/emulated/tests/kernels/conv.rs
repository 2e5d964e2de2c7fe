//! Convolutions by the kernels of GPUs, beside the host.

use streampool_device::{Activation, Conv, DType, Op, Slide, Window};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

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
