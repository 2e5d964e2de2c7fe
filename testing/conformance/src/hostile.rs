//! Ops made of hostile numbers: sizes near powers of two, strides that repeat, overlap and go backward, windows far wider
//! than what they slide over. Each is refused where its layouts are made or by [`Op::validate`], or comes to an end, with
//! its results or an error, and touches nothing else.
//!
//! Many are nearly right: operands fit each other, and one number is out of the way.

mod cases;
mod effort;
mod kinds;

use std::sync::Arc;

use streampool_device::*;

use crate::rng::Rng;

pub use cases::Cases;
pub use effort::Effort;

/// Bytes of the memory that the operands lie in.
pub const BYTES: usize = OPERANDS * REGION;

const OPERANDS: usize = 12;
/// Each operand has its own part.
const REGION: usize = 16 << 10;

/// A step more than anybody waits for in a test: each takes nanoseconds.
const MOST_STEPS: u128 = 1 << 22;

/// The op of this number over the memory of this handle: the same in every run. `None` if a layout was refused.
pub fn op(number: u64, handle: u64) -> Option<Op> {
    let mut draw = Draw {
        rng: Rng::new(number),
        handle,
        operands: 0,
    };
    draw.op()
}

/// How so many elements of memory may be read as this shape: some may be seen often, backward or over one another. `None` if it is
/// refused.
pub fn layout(number: u64, shape: &[usize], elements: usize) -> Option<Layout> {
    let mut draw = Draw {
        rng: Rng::new(number),
        handle: 0,
        operands: 0,
    };
    draw.layout(shape, elements, true)
}

/// The parts of the memory, by offset and length, that the op may write.
pub fn written(op: &Op) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    op.for_each_operand(|_, access, view| {
        if access == Access::Write
            && let Some(reach) = view.reach()
        {
            spans.push((reach.offset, reach.bytes));
        }
    });
    spans
}

/// Whether executing it takes so few steps that it may be waited for. What is broadcast and reduced, counted or sorted
/// takes none.
pub fn is_short(op: &Op) -> bool {
    let all = |view: &View| view.layout().elements() as u128;
    let apart = |view: &View| -> u128 {
        let layout = view.layout();
        let axes = layout.shape().iter().zip(layout.strides());
        axes.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size } as u128)
            .product()
    };
    let mut operands = 0u128;
    op.for_each_operand(|_, _, view| operands = operands.max(all(view)));
    // A window's elements that may lie inside.
    let taps = |window: &Window, sizes: &[usize]| -> u128 {
        let axes = window.iter().zip(sizes);
        axes.map(|(slide, &size)| {
            (slide.kernel as usize).min(size / slide.dilation as usize + 1) as u128
        })
        .product()
    };
    let steps = match op {
        Op::Reduce { src, dst, .. } => apart(src) + all(dst),
        Op::Histogram(op) => {
            let counted = match &op.weights {
                None => apart(&op.src),
                Some(_) => all(&op.src),
            };
            counted + all(&op.dst)
        }
        Op::Sort(op) if op.src.layout().strides()[op.axis] == 0 => all(&op.values) * 4,
        Op::MatMul(op) => operands + all(&op.out) * op.a.shape().last().map_or(1, |&k| k as u128),
        Op::Attention(op) => {
            let sizes = [&op.query.shape()[..3], &op.key.shape()[2..3]].concat();
            let scores: u128 = sizes.iter().map(|&size| size as u128).product();
            operands + scores * (1 + op.query.shape()[3] + op.value.shape()[3]) as u128
        }
        Op::Conv(op) => {
            let over = if op.transposed { &op.dst } else { &op.src };
            let read = (op.src.shape()[1] / op.groups.max(1)) as u128;
            let phases: u128 = op
                .window
                .iter()
                .zip(&op.dst.shape()[2..])
                .map(|(slide, &size)| size.min(slide.stride as usize).max(1) as u128)
                .product();
            operands
                + all(&op.dst) * read * taps(&op.window, &over.shape()[2..])
                + if op.transposed { phases * phases } else { 0 }
        }
        Op::Trees(op) => {
            let targets = op.dst.shape()[1] as u128;
            // On a GPU each target has a thread that looks through lists by itself.
            let each = op.depth as u128 + targets * targets;
            operands + op.src.shape()[0] as u128 * op.trees as u128 * each
        }
        Op::Pool(op) => operands + all(&op.dst) * taps(&op.window, &op.src.shape()[2..]),
        Op::Resize(op) => {
            let sizes = op.src.shape().iter().zip(op.dst.shape());
            sizes
                .map(|(&from, &to)| from.max(to) as u128)
                .product::<u128>()
                * 16
        }
        Op::Regions(op) => operands + all(&op.dst) * (op.samples.max(32) as u128).pow(2) * 4,
        Op::Rnn(op) => {
            let gates = (op.cell.gates() * op.direction.count()) as u128;
            let width = (op.src.shape()[2] + op.recurrent.shape()[2]) as u128;
            let rows = (op.src.shape()[0] * op.src.shape()[1]) as u128;
            operands + rows * gates * op.recurrent.shape()[2] as u128 * width
        }
        Op::Linalg(_) => operands.saturating_mul(operands),
        _ => operands * 4,
    };
    steps <= MOST_STEPS
}

struct Draw {
    rng: Rng,
    handle: u64,
    /// How many have memory.
    operands: usize,
}

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const USUAL: [usize; 20] = [
    0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33, 64,
];
/// Sizes that are seldom met.
pub const EXTREME: [usize; 16] = [
    100,
    1000,
    1 << 16,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 40,
    1 << 46,
    MAX_ELEMENTS,
    MAX_ELEMENTS + 1,
    1 << 62,
    isize::MAX as usize,
    usize::MAX,
];

impl Draw {
    fn size(&mut self) -> usize {
        match self.rng.chance(10) {
            true => self.rng.pick(&EXTREME),
            false => self.rng.pick(&USUAL),
        }
    }

    fn sizes(&mut self, least: usize, most: usize) -> Vec<usize> {
        let rank = least + self.rng.below(most - least + 1);
        (0..rank).map(|_| self.size()).collect()
    }

    /// The size, but for a few times another.
    fn about(&mut self, size: usize) -> usize {
        match self.rng.chance(60) {
            true => self.size(),
            false => size,
        }
    }

    fn float(&mut self) -> DType {
        self.rng.pick(&FLOATS)
    }

    fn any(&mut self) -> DType {
        self.rng.pick(&DType::ALL)
    }

    fn number(&mut self) -> f64 {
        let numbers = [
            0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            1e-30,
            1e15,
            -1e15,
            1e300,
            -1e300,
            f64::NAN,
            f64::INFINITY,
        ];
        self.rng.pick(&numbers)
    }

    /// An operand that is read: dimensions for which there is no room repeat.
    fn read(&mut self, dtype: DType, shape: &[usize]) -> Option<View> {
        self.view(dtype, shape, true)
    }

    /// An operand that is written: nothing if there is no room.
    fn write(&mut self, dtype: DType, shape: &[usize]) -> Option<View> {
        self.view(dtype, shape, false)
    }

    fn view(&mut self, dtype: DType, shape: &[usize], repeats: bool) -> Option<View> {
        let place = self.operands;
        self.operands += 1;
        let mut shape = shape.to_vec();
        shape.iter_mut().for_each(|size| *size = self.about(*size));
        let layout = self.layout(&shape, REGION / dtype.size(), repeats)?;
        let span = Span {
            handle: self.handle,
            offset: place.min(OPERANDS - 1) * REGION,
            bytes: REGION,
        };
        View::new(span, dtype, layout).ok()
    }

    /// How so many elements of memory hold the shape, somehow.
    fn layout(&mut self, shape: &[usize], room: usize, repeats: bool) -> Option<Layout> {
        let room = room as isize;
        let (mut strides, mut step, mut offset) = (vec![0isize; shape.len()], 1isize, 0isize);
        let mixed = self.rng.chance(3);
        let mut axes: Vec<usize> = (0..shape.len()).rev().collect();
        if mixed && self.rng.chance(2) {
            axes.reverse();
        }
        for axis in axes {
            let size = isize::try_from(shape[axis]).ok()?;
            let gap = if mixed {
                1 + self.rng.below(3) as isize
            } else {
                1
            };
            let span = step.checked_mul(gap)?.checked_mul((size - 1).max(0))?;
            if repeats && (offset.saturating_add(span) >= room || mixed && self.rng.chance(4)) {
                continue;
            }
            // Elements may overlap where they are only read.
            let stride = match repeats && mixed && self.rng.chance(8) {
                true => 1 + self.rng.below(2) as isize,
                false => step * gap,
            };
            strides[axis] = match mixed && self.rng.chance(4) {
                true => -stride,
                false => stride,
            };
            offset = offset.checked_add(stride.checked_mul((size - 1).max(0))?)?;
            step = step.checked_mul(gap)?.checked_mul(size.max(1))?;
        }
        // Where it begins: what lies before its first element is what goes backward.
        let back = strides.iter().zip(shape);
        let back: isize = back
            .filter(|(stride, _)| **stride < 0)
            .map(|(stride, &size)| -stride * (size as isize - 1).max(0))
            .sum();
        let layout = match self.rng.chance(500) {
            true => Layout::strided(shape, &strides, self.rng.pick(&EXTREME)),
            false => Layout::strided(shape, &strides, usize::try_from(back).ok()?),
        };
        layout.ok()
    }

    fn slides(&mut self, rank: usize) -> Vec<Slide> {
        (0..rank)
            .map(|_| {
                let mut word = |usual: &[u32]| match self.rng.chance(14) {
                    true => self.rng.pick(&EXTREME) as u32,
                    false => self.rng.pick(usual),
                };
                Slide {
                    kernel: word(&[1, 1, 2, 3, 5]),
                    stride: word(&[1, 1, 1, 2, 3]),
                    dilation: word(&[1, 1, 1, 2, 1 << 22]),
                    before: word(&[0, 0, 1, 2, 7]),
                    after: word(&[0, 0, 1, 2, 1 << 22]),
                }
            })
            .collect()
    }

    fn axis(&mut self, rank: usize) -> usize {
        let axis = self.rng.below(rank.max(1));
        self.about(axis)
    }

    fn op(&mut self) -> Option<Op> {
        match self.rng.below(19) {
            0 => {
                let (dtype, shape) = (self.any(), self.sizes(0, 5));
                let to = self.any();
                Some(Op::Copy {
                    src: self.read(dtype, &shape)?,
                    dst: self.write(to, &shape)?,
                })
            }
            1 => {
                let (dtype, shape) = (self.any(), self.sizes(0, 9));
                Some(Op::Fill {
                    dst: self.write(dtype, &shape)?,
                    value: Scalar::Float(self.number()),
                })
            }
            2 => {
                let shape = self.sizes(0, 5);
                let broadcast: Vec<usize> = (shape.iter())
                    .map(|&size| if self.rng.chance(3) { 1 } else { size })
                    .collect();
                Some(Op::Map {
                    expr: Arc::new(Expr::binary(Binary::Add, DType::F32).ok()?),
                    inputs: vec![
                        self.read(DType::F32, &shape)?,
                        self.read(DType::F32, &broadcast)?,
                    ],
                    outputs: vec![self.write(DType::F32, &shape)?],
                })
            }
            3 => self.reduce(),
            4 => {
                let (dtype, shape) = (self.float(), self.sizes(1, 5));
                Some(Op::Softmax {
                    src: self.read(dtype, &shape)?,
                    dst: self.write(dtype, &shape)?,
                    axis: self.axis(shape.len()),
                    log: self.rng.chance(2),
                })
            }
            5 => {
                let (dtype, shape) = (self.float(), self.sizes(1, 5));
                let axis = self.axis(shape.len());
                let normed = shape.get(axis..).unwrap_or(&[]).to_vec();
                let scale = self.rng.chance(2);
                Some(Op::Norm(Norm {
                    kind: self.rng.pick(&[NormKind::Layer, NormKind::Rms]),
                    src: self.read(dtype, &shape)?,
                    added: None,
                    sum: None,
                    scale: if scale {
                        Some(self.read(dtype, &normed)?)
                    } else {
                        None
                    },
                    bias: None,
                    dst: self.write(dtype, &shape)?,
                    axis,
                    epsilon: self.number(),
                }))
            }
            6 => self.matmul(),
            7 => self.attention(),
            8 => self.conv(),
            9 => self.pool(),
            10 => self.resize(),
            11 | 12 => self.index(),
            13 => {
                let (dtype, shape) = (self.any(), self.sizes(1, 5));
                Some(Op::Scan(Scan {
                    kind: self
                        .rng
                        .pick(&[ScanKind::Sum, ScanKind::Prod, ScanKind::Max]),
                    src: self.read(dtype, &shape)?,
                    dst: self.write(dtype, &shape)?,
                    axis: self.axis(shape.len()),
                    exclusive: self.rng.chance(2),
                    reverse: self.rng.chance(2),
                }))
            }
            14 => {
                let (dtype, shape) = (self.any(), self.sizes(1, 4));
                let axis = self.axis(shape.len());
                let mut wanted = shape.clone();
                if let Some(size) = wanted.get_mut(axis) {
                    *size = (*size).min(self.size());
                }
                let placed = self.rng.chance(2);
                Some(Op::Sort(Sort {
                    src: self.read(dtype, &shape)?,
                    values: self.write(dtype, &wanted)?,
                    indices: if placed {
                        Some(self.write(DType::I64, &wanted)?)
                    } else {
                        None
                    },
                    axis,
                    descending: self.rng.chance(2),
                }))
            }
            15 => {
                let shape = self.sizes(0, 5);
                Some(Op::Random(Random {
                    distribution: Distribution::Integers {
                        low: self.rng.pick(&EXTREME) as i64,
                        high: self.rng.pick(&EXTREME) as i64,
                    },
                    dst: self.write(DType::I64, &shape)?,
                    seed: self.rng.bits(),
                    offset: self.rng.pick(&EXTREME) as u64,
                }))
            }
            16 => self.rnn(),
            17 => self.linalg(),
            _ => self.tally(),
        }
    }
}
