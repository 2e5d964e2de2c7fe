//! An op on the host and on the emulator: the same results.

use std::sync::{Arc, OnceLock};

use streampool_device::{
    Access, DType, Device, Flush, Layout, Op, QueueOptions, Result, Span, View,
};
use streampool_host::{HostDevice, HostOptions};

use crate::emulator::Emulator;
use crate::guarded::Guarded;
use crate::tensor::{Tensor, each_element, load};

/// How far apart two results may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Not at all; NaN is NaN.
    Exact,
    /// As sums of some hundred products of small numbers are in their type; integers not at all.
    Usual,
    /// By so much absolutely, and for each unit of size. Integers, too.
    Within(f64, f64),
}

impl Tolerance {
    fn of(self, dtype: DType) -> (f64, f64) {
        match (self, dtype) {
            (Tolerance::Within(absolute, relative), _) => (absolute, relative),
            (Tolerance::Usual, DType::F64) => (1e-9, 1e-9),
            (Tolerance::Usual, DType::F32) => (1e-3, 1e-4),
            (Tolerance::Usual, DType::F16) => (2e-2, 4e-3),
            (Tolerance::Usual, DType::BF16) => (1e-1, 2e-2),
            _ => (0.0, 0.0),
        }
    }

    fn allows(self, dtype: DType, wanted: &[u8], got: &[u8]) -> bool {
        if wanted == got {
            return true;
        }
        let (absolute, relative) = self.of(dtype);
        let (wanted, got) = (load(dtype, wanted), load(dtype, got));
        let equal = wanted == got || wanted.is_nan() && got.is_nan();
        (dtype.is_float() && equal) || (wanted - got).abs() < absolute + relative * wanted.abs()
    }
}

/// Compiles the kernels of `ops`, many at a time: sooner than when each is first executed. Ops that the dialect
/// [lacks](Emulator::lacks) are left out.
pub fn prepare<'a>(
    emulator: &Emulator,
    ops: impl IntoIterator<Item = &'a Op<Tensor>>,
) -> std::result::Result<(), String> {
    let ops: Vec<Op> = ops
        .into_iter()
        .map(|op| placed(op).map(|(_, op)| op))
        .collect::<Result<_>>()
        .map_err(|error| error.to_string())?;
    emulator.prepare(ops.iter().filter(|op| !emulator.lacks(op)))
}

/// Asserts that the kernels of `op` come to what the host comes to, unless the dialect [lacks](Emulator::lacks) it.
#[track_caller]
pub fn assert_same_as_host(emulator: &Emulator, op: &Op<Tensor>, tolerance: Tolerance) {
    let (told, dialect) = (shapes(op), emulator.dialect());
    if is_lacking(emulator, op) {
        return;
    }
    let host = on_host(op).unwrap_or_else(|why| panic!("on the host: {why}\n{told:?}"));
    let emulated = emulate(emulator, op)
        .unwrap_or_else(|why| panic!("emulated for {dialect:?}: {why}\n{told:?}"));
    for (number, (host, emulated)) in host.iter().zip(&emulated).enumerate() {
        let (dtype, size) = (host.dtype, host.dtype.size());
        let pairs = host
            .bytes
            .chunks_exact(size)
            .zip(emulated.bytes.chunks_exact(size));
        for (place, (wanted, got)) in pairs.enumerate() {
            assert!(
                tolerance.allows(dtype, wanted, got),
                "element {place} of output {number} is {} on the host and {} emulated for {dialect:?}:\n{told:?}",
                load(dtype, wanted),
                load(dtype, got),
            );
        }
    }
}

/// Asserts that the kernels of all `ops` come to what the host comes to, on each of `emulators`.
#[track_caller]
pub fn assert_all_same_as_host(
    emulators: impl IntoIterator<Item = Emulator>,
    ops: &[Op<Tensor>],
    tolerance: Tolerance,
) {
    for emulator in emulators {
        prepare(&emulator, ops).unwrap_or_else(|why| panic!("{why}"));
        for op in ops {
            assert_same_as_host(&emulator, op, tolerance);
        }
    }
}

/// Whether the dialect of `emulator` [lacks](Emulator::lacks) what `op` does.
pub fn is_lacking(emulator: &Emulator, op: &Op<Tensor>) -> bool {
    placed(op).is_ok_and(|(_, op)| emulator.lacks(&op))
}

/// What an op wrote to one operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The type of the elements.
    pub dtype: DType,
    /// The elements, row-major and without gaps.
    pub bytes: Vec<u8>,
}

impl Written {
    /// The elements, row-major.
    pub fn values(&self) -> Vec<f64> {
        let elements = self.bytes.chunks_exact(self.dtype.size());
        elements.map(|bytes| load(self.dtype, bytes)).collect()
    }
}

/// What the kernels of `op` write to each operand that is written, in the order of the op.
pub fn emulate(emulator: &Emulator, op: &Op<Tensor>) -> std::result::Result<Vec<Written>, String> {
    let (mut memory, op) = placed(op).map_err(|error| error.to_string())?;
    op.validate().map_err(|error| error.to_string())?;
    // SAFETY: the views are of `memory`, which is ours.
    unsafe { emulator.execute(&op) }?;
    Ok(memory.written(&op))
}

/// What the host writes.
pub fn on_host(op: &Op<Tensor>) -> std::result::Result<Vec<Written>, String> {
    let (mut memory, op) = placed(op).map_err(|error| error.to_string())?;
    let run = || -> Result<()> {
        let mut queue = host()?.create_queue(QueueOptions::default())?;
        // SAFETY: the views are of `memory`, which outlives the wait.
        let tick = unsafe {
            queue.encode(&op)?;
            queue.flush(Flush::ForWaiter)?
        };
        queue.progress().wait(tick, None)
    };
    run().map_err(|error| error.to_string())?;
    Ok(memory.written(&op))
}

/// The host device; one is enough.
fn host() -> Result<Arc<dyn Device>> {
    static HOST: OnceLock<Arc<dyn Device>> = OnceLock::new();
    if let Some(host) = HOST.get() {
        return Ok(host.clone());
    }
    let host: Arc<dyn Device> = HostDevice::new(HostOptions::default())?;
    Ok(HOST.get_or_init(|| host).clone())
}

/// The types and layouts of an op, for a message.
fn shapes(op: &Op<Tensor>) -> Op<(DType, Layout)> {
    let shapes =
        op.try_map(|_, _, tensor| Ok::<_, std::convert::Infallible>((tensor.dtype, tensor.layout)));
    let Ok(shapes) = shapes;
    shapes
}

/// Memory of the operands of an op.
struct Memory(Vec<Guarded>);

impl Memory {
    fn add(&mut self, bytes: &[u8]) -> Span {
        let mut memory = Guarded::new(bytes.len(), 0);
        memory.bytes_mut().copy_from_slice(bytes);
        let handle = memory.address() as u64;
        self.0.push(memory);
        Span {
            handle,
            offset: 0,
            bytes: bytes.len(),
        }
    }

    /// What lies in the operands that `op` writes.
    fn written(&mut self, op: &Op) -> Vec<Written> {
        let mut views = Vec::new();
        op.for_each_operand(|_, access, view| {
            if access != Access::Read {
                views.push(*view);
            }
        });
        views.iter().map(|view| self.elements(view)).collect()
    }

    fn elements(&mut self, view: &View) -> Written {
        let dtype = view.dtype();
        let handle = view.span().handle;
        let memory = self.0.iter_mut().find_map(|memory| {
            let is_it = memory.address() as u64 == handle;
            is_it.then(|| memory.bytes())
        });
        let memory = memory.expect("a view is of this memory");
        let mut bytes = Vec::with_capacity(view.layout().elements() * dtype.size());
        each_element(view.layout(), |_, at| {
            bytes.extend(&memory[at * dtype.size()..][..dtype.size()]);
        });
        Written { dtype, bytes }
    }
}

/// The op over memory of its own.
fn placed(op: &Op<Tensor>) -> Result<(Memory, Op)> {
    let mut memory = Memory(Vec::new());
    let mut known: Vec<(Arc<Vec<u8>>, Span)> = Vec::new();
    let op = op.try_map(|_, _, tensor| {
        let span = known
            .iter()
            .find(|(bytes, _)| Arc::ptr_eq(bytes, &tensor.bytes));
        let span = match span {
            Some((_, span)) => *span,
            None => {
                let span = memory.add(&tensor.bytes);
                known.push((tensor.bytes.clone(), span));
                span
            }
        };
        View::new(span, tensor.dtype, tensor.layout)
    })?;
    Ok((memory, op))
}
