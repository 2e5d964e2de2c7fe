//! The larger ops, one function for each kind.

use streampool_device::*;

use super::{Draw, EXTREME};

impl Draw {
    pub(super) fn reduce(&mut self) -> Option<Op> {
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

    pub(super) fn matmul(&mut self) -> Option<Op> {
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

    pub(super) fn attention(&mut self) -> Option<Op> {
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

    pub(super) fn conv(&mut self) -> Option<Op> {
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
            to_bytes: None,
            zero_point: 0,
        })))
    }

    pub(super) fn pool(&mut self) -> Option<Op> {
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

    pub(super) fn resize(&mut self) -> Option<Op> {
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

    pub(super) fn index(&mut self) -> Option<Op> {
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

    pub(super) fn rnn(&mut self) -> Option<Op> {
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

    pub(super) fn linalg(&mut self) -> Option<Op> {
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

    pub(super) fn trees(&mut self) -> Option<Op> {
        let (dtype, rows, features) = (self.float(), self.size(), self.size());
        let (records, targets) = (self.size(), self.size());
        Some(Op::Trees(Trees {
            src: self.read(dtype, &[rows, features])?,
            records: self.read(DType::I32, &[records, 4])?,
            dst: self.write(dtype, &[rows, targets])?,
            trees: self.size(),
            depth: self.size(),
            test: self
                .rng
                .pick(&[TreeTest::AtMost, TreeTest::Below, TreeTest::Bits]),
            combine: self
                .rng
                .pick(&[TreeCombine::Sum, TreeCombine::Min, TreeCombine::Max]),
        }))
    }

    pub(super) fn tally(&mut self) -> Option<Op> {
        if self.rng.chance(3) {
            return self.trees();
        }
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
