//! Random tensors in memory, and threads to compute with.

use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use streampool_conformance::halves::{nearest_bf16, nearest_f16};
use streampool_device::{Access, DType, Layout, Op, Span, View};

use crate::kernels::simd::forced;
use crate::kernels::{Preparation, Prepared, execute};
use crate::packs::Packs;
use crate::team::{Solo, Team};

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number from -2 to 2.
    pub(super) fn number(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 51) as f64 - 2.0
    }

    pub(super) fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..rank)
            .map(|_| {
                if self.chance(40) {
                    0
                } else {
                    1 + self.below(most)
                }
            })
            .collect()
    }
}

/// An element, as wide as can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Float(f64),
    Int(i128),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Number::Float(value) => value,
            Number::Int(value) => value as f64,
        }
    }

    pub(super) fn int(self) -> i128 {
        match self {
            Number::Float(value) => value as i128,
            Number::Int(value) => value,
        }
    }
}

/// Memory with a view of it.
pub(super) struct Tensor {
    memory: Vec<u64>,
    pub(super) view: View,
}

impl Tensor {
    /// Elements laid out anyhow: in any order, with gaps, backwards; if `overlapping`, sometimes repeated.
    pub(super) fn new(
        random: &mut Random,
        dtype: DType,
        shape: &[usize],
        overlapping: bool,
    ) -> Tensor {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if !random.chance(2) {
            for end in (1..order.len()).rev() {
                order.swap(end, random.below(end + 1));
            }
        }
        let plain = random.chance(3);
        let (mut strides, mut step, mut offset) =
            (vec![0isize; shape.len()], 1usize, random.below(4));
        for &axis in order.iter().rev() {
            if overlapping && !plain && random.chance(5) {
                continue;
            }
            strides[axis] = step as isize;
            if !plain && random.chance(4) {
                strides[axis] = -strides[axis];
                offset += step * shape[axis].saturating_sub(1);
            }
            step *= shape[axis].max(1);
            if !plain && random.chance(4) {
                step += random.below(3);
            }
        }
        let layout = Layout::strided(shape, &strides, offset).unwrap();
        let elements = layout.extent().map_or(0, |(_, last)| last as usize + 1);
        let bytes = elements * dtype.size();
        let memory = vec![0x5555_5555_5555_5555; bytes.div_ceil(8) + 1];
        let span = Span {
            handle: memory.as_ptr().expose_provenance() as u64,
            offset: 0,
            bytes,
        };
        Tensor {
            view: View::new(span, dtype, layout).unwrap(),
            memory,
        }
    }

    /// Elements row-major.
    pub(super) fn plain(dtype: DType, shape: &[usize]) -> Tensor {
        let layout = Layout::contiguous(shape).unwrap();
        let bytes = layout.elements() * dtype.size();
        let memory = vec![0; bytes.div_ceil(8) + 1];
        let span = Span {
            handle: memory.as_ptr().expose_provenance() as u64,
            offset: 0,
            bytes,
        };
        Tensor {
            view: View::new(span, dtype, layout).unwrap(),
            memory,
        }
    }

    /// Every index, row-major.
    pub(super) fn indices(&self) -> Vec<Vec<usize>> {
        let shape = self.view.shape();
        let total: usize = shape.iter().product();
        (0..total)
            .map(|mut element| {
                let mut index = vec![0; shape.len()];
                for axis in (0..shape.len()).rev() {
                    index[axis] = element % shape[axis];
                    element /= shape[axis];
                }
                index
            })
            .collect()
    }

    fn at(&self, index: &[usize]) -> usize {
        let layout = self.view.layout();
        let distance: isize = index
            .iter()
            .zip(layout.strides())
            .map(|(&index, &stride)| index as isize * stride)
            .sum();
        (layout.offset() as isize + distance) as usize * self.view.dtype().size()
    }

    /// The element at an index; dimensions of size one, and leading ones, broadcast.
    pub(super) fn broadcast(&self, index: &[usize]) -> Number {
        let shape = self.view.shape();
        let lead = index.len() - shape.len();
        let own: Vec<usize> = shape
            .iter()
            .zip(&index[lead..])
            .map(|(&size, &index)| if size == 1 { 0 } else { index })
            .collect();
        self.get(&own)
    }

    pub(super) fn get(&self, index: &[usize]) -> Number {
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let bytes = &bytes[self.at(index)..];
        macro_rules! read {
            ($type:ty) => {
                bytemuck::pod_read_unaligned::<$type>(&bytes[..size_of::<$type>()])
            };
        }
        match self.view.dtype() {
            DType::F32 => Number::Float(f64::from(read!(f32))),
            DType::F64 => Number::Float(read!(f64)),
            DType::F16 => Number::Float(f16::from_bits(read!(u16)).to_f64()),
            DType::BF16 => Number::Float(bf16::from_bits(read!(u16)).to_f64()),
            DType::I8 => Number::Int(i128::from(read!(i8))),
            DType::U8 | DType::Bool => Number::Int(i128::from(read!(u8))),
            DType::I16 => Number::Int(i128::from(read!(i16))),
            DType::U16 => Number::Int(i128::from(read!(u16))),
            DType::I32 => Number::Int(i128::from(read!(i32))),
            DType::U32 => Number::Int(i128::from(read!(u32))),
            DType::I64 => Number::Int(i128::from(read!(i64))),
            DType::U64 => Number::Int(i128::from(read!(u64))),
        }
    }

    pub(super) fn set(&mut self, index: &[usize], value: Number) {
        let at = self.at(index);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.memory);
        let mut write = |new: &[u8]| bytes[at..at + new.len()].copy_from_slice(new);
        match self.view.dtype() {
            DType::F32 => write(&(value.float() as f32).to_ne_bytes()),
            DType::F64 => write(&value.float().to_ne_bytes()),
            DType::F16 => write(&nearest_f16(value.float()).to_bits().to_ne_bytes()),
            DType::BF16 => write(&nearest_bf16(value.float()).to_bits().to_ne_bytes()),
            DType::Bool => write(&[u8::from(value.int() != 0)]),
            whole => write(&value.int().to_le_bytes()[..whole.size()]),
        }
    }

    /// Fills it with numbers from `f`.
    pub(super) fn fill(mut self, mut f: impl FnMut() -> Number) -> Tensor {
        for index in self.indices() {
            let value = f();
            self.set(&index, value);
        }
        self
    }

    /// Fills it with small numbers of its type.
    pub(super) fn small(self, random: &mut Random) -> Tensor {
        let dtype = self.view.dtype();
        self.fill(|| match dtype {
            DType::Bool => Number::Int(random.below(2) as i128),
            _ if dtype.is_unsigned() => Number::Int(random.below(200) as i128),
            _ if dtype.is_float() => Number::Float(random.number()),
            _ => Number::Int(random.below(200) as i128 - 100),
        })
    }

    /// All bytes, gaps too.
    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.memory)
    }

    pub(super) fn clear(&mut self) {
        self.memory.fill(0x5555_5555_5555_5555);
    }

    /// What is written outside the view, if anything: its elements are set to zero, gaps must be untouched.
    pub(super) fn gaps_untouched(&self) -> bool {
        let mut written = vec![false; self.memory.len() * 8];
        for index in self.indices() {
            let at = self.at(&index);
            written[at..at + self.view.dtype().size()].fill(true);
        }
        self.bytes()
            .iter()
            .zip(&written)
            .all(|(&byte, &written)| written || byte == 0x55)
    }
}

/// A real team of threads, started for each call.
pub(super) struct Threads(pub(super) usize);

impl Team for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let level = forced::current();
        let each = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    part if part < parts => work(part),
                    _ => break,
                }
            }
        };
        std::thread::scope(|scope| {
            (1..self.0).for_each(|_| {
                scope.spawn(|| forced::at(level, each));
            });
            each();
        });
    }
}

/// Validates and executes an op on this thread alone.
pub(super) fn run(op: &Op) {
    run_on(op, &Solo);
}

pub(super) fn run_on(op: &Op, team: &dyn Team) {
    op.validate().unwrap();
    // SAFETY: the operands are tensors of the caller, which it borrows no part of meanwhile.
    unsafe { execute(op, &Prepared::Plain, team) }.unwrap();
    prepared_is_the_same(op, team);
}

/// Executes an op again with each choice of its factors as constants, and compares the results bit for bit.
fn prepared_is_the_same(op: &Op, team: &dyn Team) {
    let factors: &[&[&str]] = match op {
        Op::MatMul(_) => &[&["a"], &["b"]],
        Op::Conv(_) => &[&["weight"]],
        Op::Rnn(_) => &[&["weight"], &["recurrent"], &["weight", "recurrent"]],
        _ => return,
    };
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    op.for_each_operand(|name, access, view| match access {
        Access::Read => reads.push((name, *view)),
        Access::Write => writes.push(view.span()),
    });
    let wanted: Vec<Vec<u8>> = writes.iter().map(|span| bytes_of(span).to_vec()).collect();
    for constants in factors {
        let packs = Packs::new();
        let constant = |view: &View| {
            let mut given = reads.iter().filter(|(name, _)| constants.contains(name));
            given.any(|(_, given)| given.span() == view.span())
        };
        let preparation = Preparation {
            packs: &packs,
            team,
            threads: 2,
            constant: &constant,
        };
        // SAFETY: as for `run_on`.
        let prepared = unsafe { Prepared::new(op, &preparation) };
        for span in &writes {
            bytes_of(span).fill(0x55);
        }
        // SAFETY: as for `run_on`.
        unsafe { execute(op, &prepared, team) }.unwrap();
        for (span, wanted) in writes.iter().zip(&wanted) {
            assert!(bytes_of(span) == wanted, "{constants:?} of {op:?}");
        }
    }
}

fn bytes_of<'a>(span: &Span) -> &'a mut [u8] {
    let at = std::ptr::with_exposed_provenance_mut(span.handle as usize + span.offset);
    // SAFETY: it is the span of a tensor that the caller of `run_on` keeps and borrows no part of meanwhile.
    unsafe { std::slice::from_raw_parts_mut(at, span.bytes) }
}

/// Whether two numbers are as near as the type and the tolerance (in units of its rounding) allow.
pub(super) fn near(dtype: DType, got: f64, wanted: f64, scale: f64, tolerance: f64) -> bool {
    let unit = match dtype {
        DType::F64 => 2f64.powi(-52),
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    };
    got == wanted
        || got.is_nan() && wanted.is_nan()
        || (got - wanted).abs() <= unit * tolerance * scale.max(wanted.abs())
}
