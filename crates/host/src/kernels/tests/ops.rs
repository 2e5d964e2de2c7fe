//! Operands in memory, and ops executed in each way that there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_conformance::cases::Case;
use streampool_conformance::halves::{nearest_bf16, nearest_f16};
use streampool_conformance::rng::Rng;
use streampool_device::{Access, DType, Expr, Layout, Op, Span, View};

use crate::kernels::simd::forced;
use crate::kernels::{self, Preparation, Prepared};
use crate::map::Expressions;
use crate::packs::Packs;
use crate::team::{Solo, Team};

pub(crate) const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// Memory with a view of it.
pub(crate) struct Tensor {
    memory: Vec<u64>,
    pub(crate) view: View,
}

impl Tensor {
    /// Memory of this layout that begins with these bytes.
    pub(crate) fn holding(dtype: DType, layout: Layout, bytes: &[u8]) -> Tensor {
        let mut memory = vec![0u64; bytes.len().div_ceil(8) + 1];
        bytemuck::cast_slice_mut(&mut memory)[..bytes.len()].copy_from_slice(bytes);
        let span = Span {
            handle: memory.as_mut_ptr().expose_provenance() as u64,
            offset: 0,
            bytes: bytes.len(),
        };
        Tensor {
            view: View::new(span, dtype, layout).unwrap(),
            memory,
        }
    }

    /// Row-major elements, each the number that `f` gives.
    pub(crate) fn of(dtype: DType, shape: &[usize], mut f: impl FnMut() -> f64) -> Tensor {
        let layout = Layout::contiguous(shape).unwrap();
        let bytes: Vec<u8> = (0..layout.elements())
            .flat_map(|_| stored(dtype, f()))
            .collect();
        Tensor::holding(dtype, layout, &bytes)
    }

    pub(crate) fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
        Tensor::of(dtype, shape, || 0.0)
    }

    /// Row-major small numbers.
    pub(crate) fn small(dtype: DType, shape: &[usize], rng: &mut Rng) -> Tensor {
        Tensor::of(dtype, shape, || match dtype {
            DType::Bool => rng.between(0, 1) as f64,
            _ if dtype.is_float() => rng.real(-2.0, 2.0),
            _ if dtype.is_unsigned() => rng.between(0, 200) as f64,
            _ => rng.between(-100, 100) as f64,
        })
    }

    /// The same memory with the axes of the view in another order.
    pub(crate) fn permuted(mut self, order: &[usize]) -> Tensor {
        let layout = self.view.layout().permute(order).unwrap();
        self.view = View::new(self.view.span(), self.view.dtype(), layout).unwrap();
        self
    }

    /// The same memory with the last two axes of the view exchanged.
    pub(crate) fn turned(mut self) -> Tensor {
        let mut order: Vec<usize> = (0..self.view.shape().len()).collect();
        let last = order.len() - 1;
        order.swap(last - 1, last);
        let layout = self.view.layout().permute(&order).unwrap();
        self.view = View::new(self.view.span(), self.view.dtype(), layout).unwrap();
        self
    }

    /// Makes a row-major element another number.
    pub(crate) fn set(&mut self, element: usize, value: f64) {
        let bytes = stored(self.view.dtype(), value);
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.memory);
        all[element * bytes.len()..][..bytes.len()].copy_from_slice(&bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.memory)[..self.view.span().bytes]
    }

    /// The elements, row-major `f32`.
    pub(crate) fn floats(&self) -> &[f32] {
        assert_eq!(self.view.dtype(), DType::F32);
        bytemuck::cast_slice(self.bytes())
    }
}

/// A number as an element.
fn stored(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        DType::F16 => nearest_f16(value).to_bits().to_ne_bytes().to_vec(),
        DType::BF16 => nearest_bf16(value).to_bits().to_ne_bytes().to_vec(),
        DType::Bool => vec![u8::from(value != 0.0)],
        whole => (value as i128).to_le_bytes()[..whole.size()].to_vec(),
    }
}

/// A real team of threads, started for each call, at the caller's level of instructions.
pub(crate) struct Threads(pub(crate) usize);

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

/// An expression over inputs and outputs.
pub(crate) fn map(expr: &Arc<Expr>, inputs: &[&Tensor], outputs: &[Tensor]) -> Op {
    Op::Map {
        expr: Arc::clone(expr),
        inputs: inputs.iter().map(|tensor| tensor.view).collect(),
        outputs: outputs.iter().map(|tensor| tensor.view).collect(),
    }
}

/// Executes a valid op once.
pub(crate) fn execute(op: &Op, prepared: &Prepared, team: &dyn Team) -> Result<(), String> {
    op.validate().unwrap();
    // SAFETY: the operands are tensors of the caller, which it borrows no part of meanwhile.
    unsafe {
        match op {
            Op::Map {
                expr,
                inputs,
                outputs,
            } => Expressions::new().execute(expr, inputs, outputs, team),
            _ => kernels::execute(op, prepared, team),
        }
    }
}

/// Executes an op alone, on teams, and with its factors as constants. It comes to the same bits each time, and to what the
/// oracle says, if that can be computed in a moment.
pub(crate) fn run(op: &Op) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    op.for_each_operand(|name, access, view| match access {
        Access::Read => reads.push((name, *view)),
        Access::Write => writes.push(view.span()),
    });
    let contents =
        || -> Vec<Vec<u8>> { writes.iter().map(|span| bytes_of(span).to_vec()).collect() };
    let before = contents();
    let case = Case::is_small(op).then(|| Case::of(op, |span| bytes_of(&span).to_vec()));
    execute(op, &Prepared::Plain, &Solo).unwrap();
    if let Some(Err(why)) = case.map(|case| case.check(|span| bytes_of(&span).to_vec())) {
        panic!("at {:?}: {why}", forced::current());
    }
    let alone = contents();
    let again = |how: &dyn std::fmt::Debug, prepared: &Prepared, team: &dyn Team| {
        for (span, before) in writes.iter().zip(&before) {
            bytes_of(span).copy_from_slice(before);
        }
        execute(op, prepared, team).unwrap();
        assert!(
            contents() == alone,
            "{how:?} at {:?}: {op:?}",
            forced::current()
        );
    };
    for threads in [2, 3, 8] {
        again(&threads, &Prepared::Plain, &Threads(threads));
    }
    let factors: &[&[&str]] = match op {
        Op::MatMul(_) => &[&["a"], &["b"]],
        Op::Conv(_) => &[&["weight"]],
        Op::Rnn(_) => &[&["weight"], &["recurrent"], &["weight", "recurrent"]],
        _ => &[],
    };
    for constants in factors {
        let packs = Packs::new();
        let constant = |view: &View| {
            let mut given = reads.iter().filter(|(name, _)| constants.contains(name));
            given.any(|(_, given)| given.span() == view.span())
        };
        let preparation = Preparation {
            packs: &packs,
            team: &Solo,
            threads: 2,
            constant: &constant,
        };
        // SAFETY: as in `execute`.
        let prepared = unsafe { Prepared::new(op, &preparation) };
        again(constants, &prepared, &Solo);
        again(&(constants, "by three"), &prepared, &Threads(3));
    }
}

fn bytes_of<'a>(span: &Span) -> &'a mut [u8] {
    let at = std::ptr::with_exposed_provenance_mut(span.handle as usize + span.offset);
    // SAFETY: it is the span of a tensor that the caller of `run` keeps and borrows no part of meanwhile.
    unsafe { std::slice::from_raw_parts_mut(at, span.bytes) }
}
