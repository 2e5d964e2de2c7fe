//! Convolutions against the reference.

use streampool_device::{Activation, Conv, DType, Layout, Op, OpKind, Slide, ToBytes, Window};

use crate::execute::{Example, check, refused};
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, operand, read_operand, target};
use crate::rng::Rng;

/// The sizes of a convolution.
struct Sizes {
    images: usize,
    groups: usize,
    /// Channels of a group.
    read: usize,
    made: usize,
    /// Elements along each spatial dimension.
    spatial: Vec<usize>,
    slides: Vec<Slide>,
    transposed: bool,
    /// What the transpose has beyond what the windows spread to.
    extra: usize,
}

impl Sizes {
    fn new(images: usize, read: usize, made: usize, spatial: &[usize], kernel: u32) -> Sizes {
        Sizes {
            images,
            groups: 1,
            read,
            made,
            spatial: spatial.to_vec(),
            slides: vec![Slide::new(kernel); spatial.len()],
            transposed: false,
            extra: 0,
        }
    }

    fn slid(mut self, change: impl Fn(&mut Slide)) -> Sizes {
        self.slides.iter_mut().for_each(change);
        self
    }

    fn src(&self) -> Vec<usize> {
        [&[self.images, self.groups * self.read], &self.spatial[..]].concat()
    }

    fn weight(&self) -> Vec<usize> {
        let (from, to) = match self.transposed {
            false => (self.groups * self.made, self.read),
            true => (self.groups * self.read, self.made),
        };
        let kernel = self.slides.iter().map(|slide| slide.kernel as usize);
        [from, to].into_iter().chain(kernel).collect()
    }

    /// `None` if the transpose is less than nothing.
    fn dst(&self) -> Option<Vec<usize>> {
        let mut shape = vec![self.images, self.groups * self.made];
        for (slide, &size) in self.slides.iter().zip(&self.spatial) {
            shape.push(match self.transposed {
                false => slide.windows(size),
                true => usize::try_from(slide.spread(size)).ok()? + self.extra,
            });
        }
        Some(shape)
    }

    fn op(&self, bias: bool, activation: Activation) -> Op<usize> {
        Op::Conv(Box::new(Conv {
            src: 0,
            weight: 1,
            bias: bias.then_some(3),
            dst: 2,
            window: Window::new(&self.slides).expect("the window is right"),
            groups: self.groups,
            transposed: self.transposed,
            activation,
            to_bytes: None,
            zero_point: 0,
        }))
    }

    /// Operands of any layout.
    fn laid_out(&self, rng: &mut Rng, dtype: DType) -> Option<[Operand; 4]> {
        let dst = self.dst()?;
        Some([
            read_operand(rng, dtype, &self.src(), real),
            read_operand(rng, dtype, &self.weight(), real),
            target(rng, dtype, &dst),
            operand(rng, dtype, &[self.groups * self.made], real),
        ])
    }

    /// Row-major operands.
    fn operands(&self, rng: &mut Rng, dtype: DType) -> Option<[Operand; 4]> {
        let mut plain = |shape: &[usize]| {
            let count = shape.iter().product();
            let values: Vec<Num> = (0..count).map(|_| real(rng)).collect();
            Operand::of(dtype, shape, values)
        };
        Some([
            plain(&self.src()),
            plain(&self.weight()),
            Operand::row_major(dtype, &self.dst()?),
            plain(&[self.groups * self.made]),
        ])
    }
}

fn real(rng: &mut Rng) -> Num {
    Num::Float(rng.real(-2.0, 2.0))
}

fn plain(fixture: &Fixture, rng: &mut Rng, dtype: DType, sizes: &Sizes) {
    let operands = sizes.operands(rng, dtype).expect("there is a result");
    let op = sizes.op(true, Activation::None);
    check(fixture, &mut fixture.lane(), &op, &operands);
}

fn any_sizes(rng: &mut Rng) -> Sizes {
    let rank = 1 + rng.below(3);
    let most = [40, 14, 7][rank - 1];
    let slides = (0..rank).map(|_| Slide {
        kernel: 1 + rng.below(4) as u32,
        stride: 1 + rng.below(3) as u32,
        dilation: 1 + rng.below(3) as u32,
        before: rng.below(4) as u32,
        after: rng.below(4) as u32,
    });
    let slides: Vec<Slide> = slides.collect();
    Sizes {
        images: rng.below(3).max(1),
        groups: rng.pick(&[1, 1, 2, 3]),
        read: 1 + rng.below(4),
        made: 1 + rng.below(5),
        spatial: (0..rank).map(|_| 1 + rng.below(most)).collect(),
        extra: match slides
            .iter()
            .all(|slide| slide.stride.max(slide.dilation) > 1)
        {
            true => rng.below(2),
            false => 0,
        },
        slides,
        transposed: rng.chance(3),
    }
}

/// A convolution with any window, over any layouts or row-major; `None` if it is of less than nothing.
pub(crate) fn any_convolution(rng: &mut Rng, dtype: DType) -> Option<Example> {
    let sizes = any_sizes(rng);
    let operands = match rng.chance(2) {
        true => sizes.operands(rng, dtype)?.to_vec(),
        false => sizes.laid_out(rng, dtype)?.to_vec(),
    };
    Some((any_ending(rng, &sizes), operands))
}

fn any_ending(rng: &mut Rng, sizes: &Sizes) -> Op<usize> {
    sizes.op(
        rng.chance(2),
        rng.pick(&[Activation::None, Activation::Relu]),
    )
}

/// Windows of any kind over one to three dimensions, in groups, transposed too, operands of any layout.
pub fn convolutions_of_any_window(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(60);
    for round in 0..300 {
        let dtype = FLOATS[round % FLOATS.len()];
        let sizes = any_sizes(&mut rng);
        let Some(operands) = sizes.laid_out(&mut rng, dtype) else {
            continue;
        };
        let op = any_ending(&mut rng, &sizes);
        check(fixture, &mut lane, &op, &operands);
        if let Some(operands) = sizes.operands(&mut rng, dtype) {
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Channels and pixels around the blocks that a device may work in.
pub fn convolutions_of_block_sizes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut rng = Rng::new(61);
    let padded = |slide: &mut Slide| (slide.before, slide.after) = (1, 1);
    for block in [4, 8, 12, 16, 32, 64] {
        for made in [block - 1, block, block + 1] {
            let sizes = Sizes::new(1, 3, made, &[5, 6], 3).slid(padded);
            plain(fixture, &mut rng, DType::F32, &sizes);
            let sizes = Sizes::new(1, made, 5, &[4, 3], 3).slid(padded);
            plain(fixture, &mut rng, DType::F16, &sizes);
            let sizes = Sizes::new(1, 2, 3, &[made], 3).slid(padded);
            plain(fixture, &mut rng, DType::F32, &sizes);
            let sizes = Sizes::new(1, 2, 9, &[3, made], 2);
            plain(fixture, &mut rng, DType::BF16, &sizes);
        }
    }
    let large = Sizes::new(2, 19, 65, &[33, 31], 3).slid(padded);
    plain(fixture, &mut rng, DType::F32, &large);
}

/// Windows of one element, which are products of matrices.
pub fn pointwise_convolutions(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut rng = Rng::new(62);
    for dtype in FLOATS {
        for transposed in [false, true] {
            for groups in [1, 3] {
                let sizes = Sizes {
                    groups,
                    transposed,
                    ..Sizes::new(2, 7, 9, &[5, 13], 1)
                };
                plain(fixture, &mut rng, dtype, &sizes);
                let skipping = sizes.slid(|slide| slide.stride = 2);
                plain(fixture, &mut rng, dtype, &skipping);
                // All elements but the one in the middle, or the last, lie beyond the picture.
                for around in [14, 28] {
                    let far = Sizes {
                        groups,
                        transposed,
                        ..Sizes::new(2, 7, 9, &[5, 13], 3)
                    };
                    let far = far.slid(|slide| {
                        slide.dilation = 14;
                        (slide.before, slide.after) = (around, 28 - around);
                    });
                    plain(fixture, &mut rng, dtype, &far);
                }
            }
        }
    }
}

/// As many groups as channels.
pub fn depthwise_convolutions(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(63);
    for dtype in FLOATS {
        for (made, stride) in [(1, 1), (1, 2), (2, 1)] {
            for (kernel, height, width) in [(3, 6, 17), (5, 6, 9), (3, 6, 70), (7, 11, 5)] {
                let sizes = Sizes {
                    groups: 13,
                    ..Sizes::new(2, 1, made, &[height, width], kernel)
                };
                let sizes = sizes.slid(|slide| {
                    slide.stride = stride;
                    (slide.before, slide.after) = (kernel / 2, kernel / 2);
                });
                plain(fixture, &mut rng, dtype, &sizes);
                let operands = sizes.laid_out(&mut rng, dtype);
                let operands = operands.expect("there is a result");
                check(
                    fixture,
                    &mut lane,
                    &sizes.op(true, Activation::Relu),
                    &operands,
                );
            }
        }
    }
}

/// Every activation, with and without a bias.
pub fn convolutions_end_in_every_activation(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    use Activation::*;
    let mut lane = fixture.lane();
    let mut rng = Rng::new(64);
    for dtype in FLOATS {
        for activation in [None, Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, HardSwish] {
            for bias in [false, true] {
                for transposed in [false, true] {
                    let sizes = Sizes {
                        transposed,
                        ..Sizes::new(1, 3, 5, &[4, 9], 2)
                    };
                    let operands = sizes.operands(&mut rng, dtype).expect("there is a result");
                    check(fixture, &mut lane, &sizes.op(bias, activation), &operands);
                }
            }
        }
    }
}

/// Bytes by bytes, exactly, on a device that says that it has that; others refuse it.
pub fn convolutions_of_bytes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(66);
    let is_there = fixture.device().channels_last().dtypes.contains(&DType::U8);
    let plain = |sizes: &Sizes| sizes.spatial.len() == 2 && !sizes.transposed;
    let any = std::iter::repeat_with(|| any_sizes(&mut Rng::new(rng.below(1 << 30) as u64)));
    let wide = [
        (3, 70, 1),
        (4, 33, 3),
        (37, 5, 3),
        (64, 64, 3),
        (130, 12, 2),
        (0, 3, 3),
        (3, 16, 3),
        (12, 130, 1),
    ]
    .map(|(read, made, kernel)| Sizes {
        groups: 1 + kernel as usize % 2,
        ..Sizes::new(2, read, made, &[7, 9], kernel)
    });
    let each = [(16, 3, 1, 1), (40, 5, 2, 2), (39, 2, 1, 3), (7, 3, 1, 1)].map(
        |(groups, kernel, stride, dilation)| {
            let sizes = Sizes {
                groups,
                ..Sizes::new(2, 1, 1, &[9, 17], kernel)
            };
            sizes.slid(|slide| {
                (slide.stride, slide.dilation) = (stride, dilation);
                (slide.before, slide.after) = (kernel / 2, kernel / 2);
            })
        },
    );
    let all: Vec<_> = any.filter(plain).take(80).chain(wide).chain(each).collect();
    for sizes in &all {
        let Some(dst) = sizes.dst() else { continue };
        let byte = |rng: &mut Rng| Num::Int(rng.between(0, 255).into());
        let signed = |rng: &mut Rng| Num::Int(rng.between(-128, 127).into());
        let operands = [
            read_operand(&mut rng, DType::U8, &sizes.src(), byte),
            read_operand(&mut rng, DType::I8, &sizes.weight(), signed),
            target(&mut rng, DType::I32, &dst),
            operand(&mut rng, DType::I32, &[sizes.groups * sizes.made], signed),
        ];
        let Op::Conv(mut conv) = sizes.op(rng.chance(2), Activation::None) else {
            continue;
        };
        conv.zero_point = rng.pick(&[0, 0, 131, 255]);
        let op = Op::Conv(conv.clone());
        bytes(fixture, &mut lane, is_there, &op, &operands);
        let zero_point = rng.pick(&[0, 100, 255]);
        conv.to_bytes = Some(ToBytes {
            scale: 4,
            zero_point,
        });
        let made = [sizes.groups * sizes.made];
        // Some are beyond all bytes, some are halfway between two.
        let steep = |rng: &mut Rng| Num::Float(rng.pick(&[1e9, -0.01, 0.5, 0.001, 0.0, 2e-4]));
        let little = |rng: &mut Rng| Num::Float(rng.pick(&[-40.5, 3.25, 1e12, 0.0, f64::NAN]));
        let [src, weight, ..] = operands;
        let (src, dst) = match rng.chance(2) {
            true => (src, target(&mut rng, DType::U8, &dst)),
            false => {
                let mut seen = Operand::blank(DType::U8, channels_last(src.shape()));
                seen.set_all(src.values());
                (seen, Operand::blank(DType::U8, channels_last(&dst)))
            }
        };
        let operands = [
            src,
            weight,
            dst,
            operand(&mut rng, DType::F32, &made, little),
            operand(&mut rng, DType::F32, &made, steep),
        ];
        bytes(fixture, &mut lane, is_there, &Op::Conv(conv), &operands);
    }
}

/// The layout of pictures with the channels of each place side by side.
fn channels_last(shape: &[usize]) -> Layout {
    let [images, channels, lines, places] = shape[..] else {
        panic!("pictures are of two dimensions")
    };
    let layout = Layout::contiguous(&[images, lines, places, channels]);
    let layout = layout.expect("the shape is small");
    layout
        .permute(&[0, 3, 1, 2])
        .expect("each axis is there once")
}

fn bytes(fixture: &Fixture, lane: &mut Lane, is_there: bool, op: &Op<usize>, operands: &[Operand]) {
    match is_there {
        true => check(fixture, lane, op, operands),
        false => refused(fixture, lane, op, operands),
    }
}

/// No images, no channels, no pixels: nothing is written, or the bias alone.
pub fn empty_convolutions(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut rng = Rng::new(65);
    let sparse = |slide: &mut Slide| (slide.stride, slide.dilation) = (3, 1);
    for transposed in [false, true] {
        for (images, read, made, size) in [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 1)] {
            let sizes = Sizes {
                transposed,
                ..Sizes::new(images, read, made, &[size, 4], 1)
            };
            plain(fixture, &mut rng, DType::F32, &sizes);
            // Between what is spread, nothing is.
            let sizes = Sizes {
                extra: if transposed { 2 } else { 0 },
                ..sizes.slid(sparse)
            };
            plain(fixture, &mut rng, DType::F32, &sizes);
        }
    }
    // Windows that see no element of a picture without rows.
    let around = Sizes {
        groups: 5,
        ..Sizes::new(2, 1, 1, &[0, 6], 3)
    };
    let around = around.slid(|slide| (slide.before, slide.after) = (3, 3));
    plain(fixture, &mut rng, DType::F32, &around);
    let narrow = Sizes::new(1, 2, 3, &[2, 2], 3);
    plain(fixture, &mut rng, DType::F32, &narrow);
}

/// NaN and infinity reach exactly the windows that see them, and what was in the result before is not read.
pub fn nan_stays_in_its_windows(fixture: &Fixture) {
    if !fixture.supports(OpKind::Conv) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(66);
    for dtype in FLOATS {
        for special in [f64::NAN, f64::INFINITY] {
            for transposed in [false, true] {
                let sizes = Sizes {
                    transposed,
                    ..Sizes::new(1, 3, 5, &[9, 21], 3)
                };
                let sizes = sizes.slid(|slide| (slide.before, slide.after) = (1, 1));
                let mut operands = sizes.operands(&mut rng, dtype).expect("there is a result");
                let at = |place: usize| {
                    move |index: usize| Num::Float(if index == place { special } else { 1.0 })
                };
                operands[0].set_all((0..3 * 9 * 21).map(at(200)));
                let results = operands[2].layout.elements();
                operands[2].set_all(std::iter::repeat_n(Num::Float(f64::NAN), results));
                let op = sizes.op(true, Activation::None);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
}
