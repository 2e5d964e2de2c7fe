//! Convolutions at every level of instructions and on any number of threads. What they mean is tested for all
//! devices alike, in the conformance suite.

use streampool_device::{Activation, Conv, DType, Op, Slide, Window};

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};
use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};

struct Case {
    src: Tensor,
    weight: Tensor,
    bias: Tensor,
    dst: Tensor,
    groups: usize,
    slide: Slide,
    transposed: bool,
}

impl Case {
    /// Channels in groups, and an image of two dimensions.
    fn new(
        random: &mut Random,
        dtype: DType,
        [groups, read, made]: [usize; 3],
        size: [usize; 2],
        slide: Slide,
        transposed: bool,
    ) -> Case {
        let kernel = slide.kernel as usize;
        let results = size.map(|size| match transposed {
            false => slide.windows(size),
            true => usize::try_from(slide.spread(size)).unwrap(),
        });
        let channels = match transposed {
            false => [groups * made, read],
            true => [groups * read, made],
        };
        let weight = [channels[0], channels[1], kernel, kernel];
        Case {
            src: Tensor::plain(dtype, &[2, groups * read, size[0], size[1]]).small(random),
            weight: Tensor::plain(dtype, &weight).small(random),
            bias: Tensor::plain(dtype, &[groups * made]).small(random),
            dst: Tensor::plain(dtype, &[2, groups * made, results[0], results[1]]),
            groups,
            slide,
            transposed,
        }
    }

    fn op(&self) -> Op {
        Op::Conv(Box::new(Conv {
            src: self.src.view,
            weight: self.weight.view,
            bias: Some(self.bias.view),
            dst: self.dst.view,
            window: Window::new(&[self.slide; 2]).unwrap(),
            groups: self.groups,
            transposed: self.transposed,
            activation: Activation::Relu,
        }))
    }

    /// The element of the result by definition, and the magnitude of what it was summed from.
    fn element(&self, index: &[usize]) -> (f64, f64) {
        let read = self.src.view.shape()[1] / self.groups;
        let made = self.dst.view.shape()[1] / self.groups;
        let (group, channel) = (index[1] / made, index[1] % made);
        let (mut sum, mut magnitude) = (self.bias.get(&[index[1]]).float(), 0.0);
        let kernel = self.slide.kernel as usize;
        for other in 0..read {
            for y in 0..kernel {
                for x in 0..kernel {
                    let (Some(at_y), Some(at_x)) = (
                        self.seen(index[2], y, self.src.view.shape()[2]),
                        self.seen(index[3], x, self.src.view.shape()[3]),
                    ) else {
                        continue;
                    };
                    let from = group * read + other;
                    let weight = match self.transposed {
                        false => [index[1], other, y, x],
                        true => [from, channel, y, x],
                    };
                    let product = self.src.get(&[index[0], from, at_y, at_x]).float()
                        * self.weight.get(&weight).float();
                    sum += product;
                    magnitude += product.abs();
                }
            }
        }
        (sum.max(0.0), magnitude + 1.0)
    }

    fn seen(&self, output: usize, tap: usize, size: usize) -> Option<usize> {
        let [stride, dilation, before] =
            [self.slide.stride, self.slide.dilation, self.slide.before].map(|part| part as usize);
        let place = match self.transposed {
            false => (output * stride + tap * dilation).checked_sub(before)?,
            true => {
                let spread = (output + before).checked_sub(tap * dilation)?;
                if spread % stride != 0 {
                    return None;
                }
                spread / stride
            }
        };
        (place < size).then_some(place)
    }

    fn check(&self) {
        for index in self.dst.indices() {
            let (wanted, magnitude) = self.element(&index);
            let got = self.dst.get(&index).float();
            assert!(
                near(self.dst.view.dtype(), got, wanted, magnitude, 8.0),
                "{got} for {wanted} at {index:?} of {:?}",
                self.op()
            );
        }
    }
}

const PADDED: Slide = Slide {
    before: 1,
    after: 1,
    ..Slide::new(3)
};

#[test]
fn every_instruction_set_is_right() {
    at_each_level(|_| {
        let random = &mut Random(7);
        for dtype in [DType::F32, DType::F16, DType::F64] {
            // Each number of rows that a block may have.
            for made in [1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 16, 23, 24, 25] {
                for transposed in [false, true] {
                    let case = Case::new(random, dtype, [1, 3, made], [5, 23], PADDED, transposed);
                    run(&case.op());
                    case.check();
                }
            }
            let stepping = Slide {
                stride: 2,
                dilation: 2,
                ..PADDED
            };
            for sizes in [[9, 1, 1], [2, 3, 5]] {
                for transposed in [false, true] {
                    let case = Case::new(random, dtype, sizes, [9, 70], stepping, transposed);
                    run(&case.op());
                    case.check();
                }
            }
        }
    });
}

#[test]
fn the_matrix_unit_is_right() {
    on_matrix_unit(|| {
        let random = &mut Random(11);
        let stepping = Slide {
            stride: 2,
            dilation: 2,
            ..PADDED
        };
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (sizes, image) in [
                ([1, 3, 1], [5, 23]),
                ([2, 5, 33], [9, 40]),
                ([1, 70, 70], [4, 9]),
            ] {
                for (slide, transposed) in [(PADDED, false), (PADDED, true), (stepping, false)] {
                    let case = Case::new(random, dtype, sizes, image, slide, transposed);
                    run(&case.op());
                    case.check();
                }
            }
        }
    });
}

#[test]
fn what_is_not_finite_stays_in_its_windows() {
    let random = &mut Random(12);
    let mut case = Case::new(random, DType::F32, [1, 40, 40], [20, 30], PADDED, false);
    for special in [f64::INFINITY, f64::NAN, f64::from(f32::MAX)] {
        for tensor in [&mut case.src, &mut case.weight] {
            let indices = tensor.indices();
            tensor.set(
                &indices[random.below(indices.len())],
                Number::Float(special),
            );
        }
    }
    let results = |case: &Case| -> Vec<f64> {
        run(&case.op());
        let indices = case.dst.indices();
        indices.iter().map(|at| case.dst.get(at).float()).collect()
    };
    let mut by_vectors = Vec::new();
    at_each_level(|_| by_vectors = results(&case));
    on_matrix_unit(|| {
        for (got, wanted) in results(&case).into_iter().zip(by_vectors) {
            let near = (got - wanted).abs() <= 1e-4 + 1e-5 * wanted.abs();
            assert!(got == wanted || got.is_nan() && wanted.is_nan() || near);
        }
    });
}

#[test]
fn a_team_gives_the_same_bits() {
    let random = &mut Random(8);
    for (channels, size) in [
        ([1, 40, 70], [30, 33]),
        ([1, 300, 64], [7, 7]),
        ([64, 1, 1], [40, 41]),
        ([1, 3, 16], [150, 151]),
    ] {
        for transposed in [false, true] {
            let mut case = Case::new(random, DType::F32, channels, size, PADDED, transposed);
            let results = [1, 2, 3, 8].map(|width| {
                case.dst.clear();
                run_on(&case.op(), &Threads(width));
                case.dst.bytes().to_vec()
            });
            assert!(
                results.iter().all(|result| *result == results[0]),
                "{:?}",
                case.op()
            );
        }
    }
}

#[test]
fn long_images_are_cut_into_bands() {
    let random = &mut Random(9);
    let case = Case::new(random, DType::F32, [1, 33, 9], [90, 61], PADDED, false);
    run(&case.op());
    case.check();
}
