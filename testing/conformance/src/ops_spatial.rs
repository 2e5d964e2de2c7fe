//! Pooling and resizing against the reference.

use streampool_device::{
    Along, DType, Dims, Interpolation, Op, OpKind, Pool, PoolKind, Resize, Rounding, Slide, Window,
};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, INTEGERS, any_value, read_operand, target};
use crate::rng::Rng;

fn pool(kind: PoolKind, slides: &[Slide], indices: bool) -> Op<usize> {
    Op::Pool(Pool {
        kind,
        src: 0,
        dst: 1,
        indices: indices.then_some(2),
        window: Window::new(slides).expect("the window is right"),
    })
}

fn any_slide(rng: &mut Rng) -> Slide {
    Slide {
        kernel: 1 + rng.below(4) as u32,
        stride: 1 + rng.below(3) as u32,
        dilation: 1 + rng.below(2) as u32,
        before: rng.below(3) as u32,
        after: rng.below(3) as u32,
    }
}

pub(crate) fn real(rng: &mut Rng) -> Num {
    Num::Float(rng.real(-3.0, 3.0))
}

/// A random window over one to three dimensions, whose last may reach beyond the padding.
pub(crate) fn any_pool(
    rng: &mut Rng,
    dtype: DType,
    kinds: &[PoolKind],
    value: fn(&mut Rng, DType) -> Num,
) -> Example {
    let rank = 1 + rng.below(3);
    let slides: Vec<Slide> = (0..rank).map(|_| any_slide(rng)).collect();
    let most = [70, 16, 8][rank - 1];
    let mut src = vec![rng.below(3), 1 + rng.below(4)];
    let mut dst = src.clone();
    for slide in &slides {
        let size = 1 + rng.below(most);
        src.push(size);
        dst.push(match rng.chance(2) {
            true => slide.windows_ceil(size),
            false => slide.windows(size),
        });
    }
    let kind = rng.pick(kinds);
    let operands = vec![
        read_operand(rng, dtype, &src, |rng| value(rng, dtype)),
        target(rng, dtype, &dst),
        target(rng, DType::I64, &dst),
    ];
    let indices = kind == PoolKind::Max && rng.chance(2);
    (pool(kind, &slides, indices), operands)
}

fn pools(
    fixture: &Fixture,
    seed: u64,
    types: &[DType],
    kinds: &[PoolKind],
    value: fn(&mut Rng, DType) -> Num,
) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(seed);
    for round in 0..240 {
        let dtype = types[round % types.len()];
        let (op, operands) = any_pool(&mut rng, dtype, kinds, value);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// The largest of any windows of any layout, and where it is: NaN wins, and the first of equals.
pub fn the_largest_of_any_window(fixture: &Fixture) {
    if !fixture.supports(OpKind::Pool) {
        return;
    }
    pools(fixture, 70, &FLOATS, &[PoolKind::Max], any_value);
    let few: fn(&mut Rng, DType) -> Num = |rng, _| Num::whole(rng.between(0, 3));
    pools(fixture, 71, &FLOATS, &[PoolKind::Max], |rng, dtype| {
        Num::Float(Num::whole(rng.between(0, 3)).cast(dtype).float())
    });
    pools(fixture, 72, &INTEGERS, &[PoolKind::Max], any_value);
    pools(fixture, 73, &INTEGERS, &[PoolKind::Max], few);
}

/// Means, with and without padding, and p-norms of any windows.
pub fn means_and_norms_of_any_window(fixture: &Fixture) {
    if !fixture.supports(OpKind::Pool) {
        return;
    }
    let means = [false, true].map(|count_padding| PoolKind::Mean { count_padding });
    pools(fixture, 74, &FLOATS, &means, |rng, _| real(rng));
    let norms = [1.0, 2.0, 3.0, 0.5].map(PoolKind::Lp);
    pools(fixture, 75, &FLOATS, &norms, |rng, _| real(rng));
}

/// Rows of lengths around the blocks that a device may work in.
pub fn pools_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Pool) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(76);
    let kinds = [
        PoolKind::Max,
        PoolKind::Mean {
            count_padding: false,
        },
    ];
    for block in [4, 16, 32, 64, 128, 256] {
        for length in [block - 1, block, block + 1] {
            for (kernel, stride) in [(2, 2), (3, 1), (3, 2)] {
                let slide = Slide {
                    stride,
                    before: kernel / 2,
                    after: kernel / 2,
                    ..Slide::new(kernel)
                };
                let (rows, columns) = (slide.windows(5), slide.windows(length));
                for kind in kinds {
                    let values: Vec<Num> = (0..2 * 5 * length).map(|_| real(&mut rng)).collect();
                    let operands = [
                        Operand::of(DType::F32, &[1, 2, 5, length], values),
                        Operand::row_major(DType::F32, &[1, 2, rows, columns]),
                    ];
                    check(
                        fixture,
                        &mut lane,
                        &pool(kind, &[slide; 2], false),
                        &operands,
                    );
                }
            }
        }
    }
}

/// One window over everything.
pub fn pools_of_the_whole(fixture: &Fixture) {
    if !fixture.supports(OpKind::Pool) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(77);
    for dtype in FLOATS {
        for kind in [
            PoolKind::Max,
            PoolKind::Mean {
                count_padding: true,
            },
            PoolKind::Lp(2.0),
        ] {
            let slides = [Slide::new(7), Slide::new(9)];
            let operands = [
                read_operand(&mut rng, dtype, &[3, 5, 7, 9], real),
                target(&mut rng, dtype, &[3, 5, 1, 1]),
            ];
            check(fixture, &mut lane, &pool(kind, &slides, false), &operands);
        }
    }
}

/// What `sizes` are resized to, aligned somehow, and the places.
fn any_places(rng: &mut Rng, sizes: &[usize]) -> (Vec<usize>, Dims<Along>) {
    let mut to = Vec::new();
    let mut along = Vec::new();
    for &size in sizes {
        if rng.chance(3) {
            to.push(size);
            along.push(Along::default());
            continue;
        }
        let made = 1 + rng.below(2 * size + 3);
        let scale = size as f64 / made as f64;
        along.push(match rng.below(4) {
            // Half of an element apart from the edge.
            0 => Along {
                scale,
                shift: 0.5 * scale - 0.5,
            },
            1 => Along { scale, shift: 0.0 },
            // From corner to corner.
            2 => Along {
                scale: (size - 1) as f64 / made.saturating_sub(1).max(1) as f64,
                shift: 0.0,
            },
            // Part of it, from the other end.
            _ => Along {
                scale: -0.5 * scale,
                shift: size as f64 * 0.75,
            },
        });
        to.push(made);
    }
    (to, Dims::new(&along).expect("few dimensions"))
}

/// Any sizes looked at in any places.
pub(crate) fn any_resize(
    rng: &mut Rng,
    dtype: DType,
    interpolation: Interpolation,
    value: impl Fn(&mut Rng) -> Num,
) -> Example {
    let rank = 1 + rng.below(4);
    let sizes: Vec<usize> = (0..rank).map(|_| 1 + rng.below(12)).collect();
    let (to, along) = any_places(rng, &sizes);
    let nearest = matches!(interpolation, Interpolation::Nearest(_));
    let op = Op::Resize(Resize {
        src: 0,
        dst: 1,
        along,
        interpolation,
        antialias: !nearest && rng.chance(2),
        exclude_outside: rng.chance(3),
        outside: rng.chance(3).then_some(7.0),
    });
    let operands = vec![
        read_operand(rng, dtype, &sizes, &value),
        target(rng, dtype, &to),
    ];
    (op, operands)
}

/// The nearest element of every type, by each rounding.
pub fn the_nearest_of_any_place(fixture: &Fixture) {
    if !fixture.supports(OpKind::Resize) {
        return;
    }
    let mut rng = Rng::new(78);
    use Rounding::{Ceil, Floor, HalfDown, HalfUp};
    for rounding in [HalfDown, HalfUp, Floor, Ceil] {
        for _ in 0..4 {
            for dtype in DType::ALL {
                let interpolation = Interpolation::Nearest(rounding);
                let value = |rng: &mut Rng| any_value(rng, dtype);
                let (op, operands) = any_resize(&mut rng, dtype, interpolation, value);
                check(fixture, &mut fixture.lane(), &op, &operands);
            }
        }
    }
}

/// Linear and cubic interpolation, with and without a wider filter, edges and what is outside.
pub fn interpolation_at_any_place(fixture: &Fixture) {
    if !fixture.supports(OpKind::Resize) {
        return;
    }
    let mut rng = Rng::new(79);
    for round in 0..240 {
        let dtype = FLOATS[round % FLOATS.len()];
        let interpolation = match rng.chance(2) {
            true => Interpolation::Linear,
            false => Interpolation::Cubic(rng.pick(&[-0.75, -0.5])),
        };
        let (op, operands) = any_resize(&mut rng, dtype, interpolation, real);
        check(fixture, &mut fixture.lane(), &op, &operands);
    }
}

/// Images twice as large and half as large, of sizes around the blocks that a device may work in.
pub fn resizes_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Resize) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(80);
    for block in [4, 16, 32, 64, 128] {
        for length in [block - 1, block, block + 1] {
            for made in [2 * length, usize::div_ceil(length, 2)] {
                let scale = length as f64 / made as f64;
                let places = Along {
                    scale,
                    shift: 0.5 * scale - 0.5,
                };
                let still = Along::default();
                for (interpolation, antialias) in [
                    (Interpolation::Linear, false),
                    (Interpolation::Linear, true),
                    (Interpolation::Cubic(-0.75), false),
                    (Interpolation::Nearest(Rounding::HalfDown), false),
                ] {
                    let op = Op::Resize(Resize {
                        src: 0,
                        dst: 1,
                        along: Dims::new(&[still, still, places]).expect("three dimensions"),
                        interpolation,
                        antialias,
                        exclude_outside: false,
                        outside: None,
                    });
                    let values: Vec<Num> = (0..2 * 3 * length).map(|_| real(&mut rng)).collect();
                    let operands = [
                        Operand::of(DType::F32, &[2, 3, length], values),
                        Operand::row_major(DType::F32, &[2, 3, made]),
                    ];
                    check(fixture, &mut lane, &op, &operands);
                }
            }
        }
    }
}

/// A place that is an element is that element, whatever lies beside it.
pub fn places_that_are_elements_see_no_other(fixture: &Fixture) {
    if !fixture.supports(OpKind::Resize) {
        return;
    }
    let mut lane = fixture.lane();
    for dtype in FLOATS {
        for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
            let op = Op::Resize(Resize {
                src: 0,
                dst: 1,
                along: Dims::new(&[Along {
                    scale: 2.0,
                    shift: 0.0,
                }])
                .expect("one dimension"),
                interpolation,
                antialias: false,
                exclude_outside: false,
                outside: None,
            });
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            let values = (0..9).map(|at| match at % 2 {
                0 => f64::from(at),
                _ => odd[at as usize / 2 % 3],
            });
            let operands = [
                Operand::of(dtype, &[9], values.map(Num::Float)),
                Operand::row_major(dtype, &[5]),
            ];
            check(fixture, &mut lane, &op, &operands);
        }
    }
}
