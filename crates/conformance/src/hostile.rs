//! Ops made of hostile numbers: sizes near powers of two, strides that repeat, overlap and go backward, windows far wider
//! than what they slide over. Each is refused where its layouts are made or by [`Op::validate`], or comes to an end, with
//! its results or an error, and touches nothing else.
//!
//! Many are nearly right: operands fit each other, and one number is out of the way.

use std::sync::Arc;

use streampool_device::*;

use crate::rng::Rng;

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
        Op::Pool(op) => operands + all(&op.dst) * taps(&op.window, &op.src.shape()[2..]),
        Op::Resize(op) => {
            let sizes = op.src.shape().iter().zip(op.dst.shape());
            sizes
                .map(|(&from, &to)| from.max(to) as u128)
                .product::<u128>()
                * 16
        }
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
const EXTREME: [usize; 16] = [
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
        let room = (REGION / dtype.size()) as isize;
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
        let back = strides.iter().zip(&shape);
        let back: isize = back
            .filter(|(stride, _)| **stride < 0)
            .map(|(stride, &size)| -stride * (size as isize - 1).max(0))
            .sum();
        let layout = match self.rng.chance(500) {
            true => Layout::strided(&shape, &strides, self.rng.pick(&EXTREME)),
            false => Layout::strided(&shape, &strides, usize::try_from(back).ok()?),
        };
        let span = Span {
            handle: self.handle,
            offset: place.min(OPERANDS - 1) * REGION,
            bytes: REGION,
        };
        View::new(span, dtype, layout.ok()?).ok()
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
                    seed: self.rng.next(),
                    offset: self.rng.pick(&EXTREME) as u64,
                }))
            }
            16 => self.rnn(),
            17 => self.linalg(),
            _ => self.tally(),
        }
    }

    fn reduce(&mut self) -> Option<Op> {
        use ReduceKind::{All, ArgMax, Max, Mean, Min, Prod, Sum};
        let kind = self.rng.pick(&[Sum, Mean, Prod, Max, Min, ArgMax, All]);
        let (dtype, shape) = (self.any(), self.sizes(1, 5));
        let mut axes: Vec<usize> = (0..shape.len()).filter(|_| self.rng.chance(2)).collect();
        if kind == ArgMax {
            axes = vec![self.axis(shape.len())];
        }
        let mut kept = shape.clone();
        axes.iter()
            .for_each(|&axis| _ = kept.get_mut(axis).map(|size| *size = 1));
        let result = if kind == ArgMax { DType::I64 } else { dtype };
        Some(Op::Reduce {
            kind,
            src: self.read(dtype, &shape)?,
            dst: self.write(result, &kept)?,
            axes: Axes::new(&axes).ok()?,
        })
    }

    fn matmul(&mut self) -> Option<Op> {
        let [m, n, k] = [0; 3].map(|_| self.size());
        let batch = self.sizes(0, 2);
        let of = |rows: usize, columns: usize| [&batch[..], &[rows, columns]].concat();
        let (a, mut b, out) = (of(m, k), of(k, n), of(m, n));
        if self.rng.chance(2) {
            b.drain(..batch.len());
        }
        let dtype = self.float();
        Some(Op::MatMul(MatMul {
            a: self.read(dtype, &a)?,
            b: self.read(dtype, &b)?,
            bias: None,
            out: self.write(dtype, &out)?,
            activation: Activation::None,
            alpha: self.number(),
        }))
    }

    fn attention(&mut self) -> Option<Op> {
        let [batch, heads, queries, keys, width, value_width] = [0; 6].map(|_| self.size());
        let shares = self.rng.pick(&[1, 1, 2]);
        let dtype = self.float();
        let all = heads.checked_mul(shares)?;
        let masked = self.rng.chance(2);
        Some(Op::Attention(Box::new(Attention {
            query: self.read(dtype, &[batch, all, queries, width])?,
            key: self.read(dtype, &[batch, heads, keys, width])?,
            value: self.read(dtype, &[batch, heads, keys, value_width])?,
            mask: if masked {
                Some(self.read(dtype, &[queries, keys])?)
            } else {
                None
            },
            out: self.write(dtype, &[batch, all, queries, value_width])?,
            scale: self.number(),
            causal: self.rng.chance(2).then(|| self.rng.pick(&EXTREME) as i64),
            softcap: self.number(),
        })))
    }

    fn conv(&mut self) -> Option<Op> {
        let rank = 1 + self.rng.below(3);
        let slides = self.slides(rank);
        let window = Window::new(&slides).ok()?;
        let (transposed, groups) = (self.rng.chance(2), self.rng.pick(&[1, 1, 1, 2, 3]));
        let [batch, read, made] = [0; 3].map(|_| self.size());
        let (reads, makes) = (read.checked_mul(groups)?, made.checked_mul(groups)?);
        let (mut src, mut dst) = (vec![batch, reads], vec![batch, makes]);
        let mut weight = match transposed {
            false => vec![makes, read],
            true => vec![reads, made],
        };
        for slide in &slides {
            let size = self.size();
            src.push(size);
            weight.push(slide.kernel as usize);
            dst.push(match transposed {
                false => slide.windows(size),
                true => usize::try_from(slide.spread(size)).ok()?,
            });
        }
        let dtype = self.float();
        let biased = self.rng.chance(3);
        Some(Op::Conv(Box::new(Conv {
            src: self.read(dtype, &src)?,
            weight: self.read(dtype, &weight)?,
            bias: if biased {
                Some(self.read(dtype, &[makes])?)
            } else {
                None
            },
            dst: self.write(dtype, &dst)?,
            window,
            groups: self.about(groups),
            transposed,
            activation: Activation::Relu,
        })))
    }

    fn pool(&mut self) -> Option<Op> {
        let rank = 1 + self.rng.below(3);
        let slides = self.slides(rank);
        let window = Window::new(&slides).ok()?;
        let (mut src, mut dst) = (self.sizes(2, 2), Vec::new());
        dst.extend_from_slice(&src);
        for slide in &slides {
            let size = self.size();
            src.push(size);
            dst.push(match self.rng.chance(2) {
                false => slide.windows(size),
                true => slide.windows_ceil(size),
            });
        }
        let count_padding = self.rng.chance(2);
        let kinds = [
            PoolKind::Max,
            PoolKind::Mean { count_padding },
            PoolKind::Lp(1.0),
            PoolKind::Lp(2.0),
            PoolKind::Lp(3.5),
        ];
        let (kind, dtype) = (self.rng.pick(&kinds), self.float());
        let indexed = kind == PoolKind::Max && self.rng.chance(2);
        Some(Op::Pool(Pool {
            kind,
            src: self.read(dtype, &src)?,
            dst: self.write(dtype, &dst)?,
            indices: if indexed {
                Some(self.write(DType::I64, &dst)?)
            } else {
                None
            },
            window,
        }))
    }

    fn resize(&mut self) -> Option<Op> {
        let (dtype, from) = (self.float(), self.sizes(0, 4));
        let to: Vec<usize> = from.iter().map(|_| self.size()).collect();
        let along: Vec<Along> = (from.iter().zip(&to))
            .map(|(&from, &to)| Along {
                scale: match self.rng.chance(4) {
                    true => self.number(),
                    false => from as f64 / to.max(1) as f64,
                },
                shift: match self.rng.chance(4) {
                    true => self.number(),
                    false => 0.25,
                },
            })
            .collect();
        let interpolation = self.rng.pick(&[
            Interpolation::Nearest(Rounding::HalfUp),
            Interpolation::Linear,
            Interpolation::Cubic(-0.75),
        ]);
        Some(Op::Resize(Resize {
            src: self.read(dtype, &from)?,
            dst: self.write(dtype, &to)?,
            along: Dims::new(&along).ok()?,
            interpolation,
            antialias: self.rng.chance(2),
            exclude_outside: self.rng.chance(2),
            outside: self.rng.chance(4).then_some(3.0),
        }))
    }

    fn index(&mut self) -> Option<Op> {
        let (dtype, data) = (self.any(), self.sizes(1, 4));
        let axis = self.axis(data.len());
        let (indexing, indices, picked) = match self.rng.below(3) {
            0 => {
                let indices = self.sizes(0, 3);
                let rest = data.get(axis.checked_add(1)?..)?;
                let picked = [&data[..axis], &indices, rest].concat();
                (Indexing::Axis(axis), indices, picked)
            }
            1 => {
                let mut indices = data.clone();
                *indices.get_mut(axis)? = self.size();
                (Indexing::Elements(axis), indices.clone(), indices)
            }
            _ => {
                let depth = self.rng.below(data.len() + 1);
                let places = self.sizes(0, 3);
                let picked = [&places[..], &data[depth..]].concat();
                (Indexing::Nd(0), [&places[..], &[depth]].concat(), picked)
            }
        };
        let index = self.rng.pick(&[DType::I32, DType::I64]);
        Some(match self.rng.chance(2) {
            true => Op::Gather(Gather {
                indexing,
                src: self.read(dtype, &data)?,
                indices: self.read(index, &indices)?,
                dst: self.write(dtype, &picked)?,
            }),
            false => Op::Scatter(Scatter {
                indexing,
                combine: self
                    .rng
                    .pick(&[Combine::Replace, Combine::Add, Combine::Max]),
                src: self.read(dtype, &data)?,
                indices: self.read(index, &indices)?,
                updates: self.read(dtype, &picked)?,
                dst: self.write(dtype, &data)?,
            }),
        })
    }

    fn rnn(&mut self) -> Option<Op> {
        let [steps, batch, input, hidden] = [0; 4].map(|_| self.size());
        let cell = self
            .rng
            .pick(&[Cell::Tanh, Cell::Lstm, Cell::Gru { reset_after: false }]);
        let direction = self.rng.pick(&[Direction::Forward, Direction::Both]);
        let (dtype, gates) = (self.float(), cell.gates().checked_mul(hidden)?);
        let directions = direction.count();
        let biased = self.rng.chance(2);
        Some(Op::Rnn(Box::new(Rnn {
            cell,
            direction,
            src: self.read(dtype, &[steps, batch, input])?,
            weight: self.read(dtype, &[directions, gates, input])?,
            recurrent: self.read(dtype, &[directions, gates, hidden])?,
            bias: if biased {
                Some(self.read(dtype, &[directions, gates.checked_mul(2)?])?)
            } else {
                None
            },
            peephole: None,
            lengths: None,
            hidden: None,
            cell_state: None,
            dst: self.write(dtype, &[steps, directions, batch, hidden])?,
            last_hidden: None,
            last_cell: None,
        })))
    }

    fn linalg(&mut self) -> Option<Op> {
        let (batch, size, columns) = (self.sizes(0, 2), self.size(), self.size());
        let of = |last: &[usize]| [&batch[..], last].concat();
        let (square, wide) = (of(&[size, size]), of(&[size, columns]));
        let dtype = self.rng.pick(&[DType::F32, DType::F64]);
        Some(Op::Linalg(match self.rng.below(5) {
            0 => Linalg::Lu {
                src: self.read(dtype, &wide)?,
                factors: self.write(dtype, &wide)?,
                pivots: self.write(DType::I32, &of(&[size.min(columns)]))?,
            },
            1 => Linalg::LuSolve {
                factors: self.read(dtype, &square)?,
                pivots: self.read(DType::I32, &of(&[size]))?,
                rhs: self.read(dtype, &wide)?,
                dst: self.write(dtype, &wide)?,
            },
            2 => Linalg::Triangular {
                src: self.read(dtype, &square)?,
                rhs: self.read(dtype, &wide)?,
                dst: self.write(dtype, &wide)?,
                upper: self.rng.chance(2),
                unit: self.rng.chance(2),
            },
            3 => Linalg::Cholesky {
                src: self.read(dtype, &square)?,
                dst: self.write(dtype, &square)?,
            },
            _ => Linalg::Inverse {
                src: self.read(dtype, &square)?,
                dst: self.write(dtype, &square)?,
            },
        }))
    }

    fn tally(&mut self) -> Option<Op> {
        let (dtype, shape) = (self.any(), self.sizes(0, 4));
        if self.rng.chance(2) {
            let elements = shape
                .iter()
                .try_fold(1usize, |all, &size| all.checked_mul(size))?;
            return Some(Op::NonZero(NonZero {
                src: self.read(dtype, &shape)?,
                indices: self.write(DType::I64, &[shape.len(), elements])?,
                count: self.write(DType::I64, &[1])?,
            }));
        }
        let (weighted, bins) = (self.rng.chance(2), self.size());
        let weight = self.float();
        Some(Op::Histogram(Histogram {
            src: self.read(dtype, &shape)?,
            weights: if weighted {
                Some(self.read(weight, &shape)?)
            } else {
                None
            },
            dst: self.write(if weighted { weight } else { DType::I64 }, &[bins])?,
            low: self.number(),
            high: self.number(),
        }))
    }
}
