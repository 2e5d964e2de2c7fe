//! Work straight on the queues of a device, without the runtime. Memory is freed by whoever knows that no queue
//! uses it any more: mostly it is left to the end of the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{
    Binary, DType, Device, Expr, HostSlice, Layout, Memory, Op, Queue, QueueOptions, Result, Space,
    Span, Tick, View,
};

/// The deadline of a wait that must end.
pub fn patience() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

/// A queue labelled by its index.
pub fn queue(device: &dyn Device, index: u32) -> Result<Box<dyn Queue>> {
    device.create_queue(QueueOptions {
        label: format!("queue {index}"),
        index,
        ..QueueOptions::default()
    })
}

/// Memory of the device that is never freed.
pub fn leaked(device: &dyn Device, bytes: usize) -> Span {
    let memory: Memory = device
        .allocate(bytes, Space::Device)
        .expect("there is memory for a test");
    memory.span()
}

/// The floats of a span, row-major.
pub fn floats(span: Span) -> View {
    let layout = Layout::contiguous(&[span.bytes / 4]).expect("it is small");
    View::new(span, DType::F32, layout).expect("it fits")
}

/// `dst = src + 1`: always a kernel.
pub fn plus_one(src: Span, dst: Span) -> Op {
    let mut expr = Expr::builder();
    let mut sum = || {
        let x = expr.input(DType::F32)?;
        let one = expr.constant(1.0, DType::F32)?;
        expr.binary(Binary::Add, x, one)
    };
    let sum = sum().expect("floats have a sum");
    Op::Map {
        expr: Arc::new(expr.finish(&[sum]).expect("it has an output")),
        inputs: vec![floats(src)],
        outputs: vec![floats(dst)],
    }
}

/// `dst = value`.
pub fn fill(dst: Span, value: f32) -> Op {
    Op::Fill {
        dst: floats(dst),
        value: value.into(),
    }
}

/// `dst = src`.
pub fn copy(src: Span, dst: Span) -> Op {
    Op::Copy {
        src: floats(src),
        dst: floats(dst),
    }
}

/// Appends an op.
pub fn encode(queue: &mut dyn Queue, op: &Op) -> Result<Tick> {
    // SAFETY: memory of these tests is freed when its queues are done with it, if at all, and no two queues
    // use the same memory unordered. An op on memory that does not exist is what a test of that asks for, in a
    // process of its own.
    unsafe { queue.encode(op) }
}

/// Appends an upload.
pub fn upload(queue: &mut dyn Queue, dst: Span, values: &[f32]) -> Result<Tick> {
    // SAFETY: as in `encode`.
    unsafe { queue.upload(dst, bytemuck::cast_slice(values)) }
}

/// The floats of a span, after waiting for them.
pub fn download(queue: &mut dyn Queue, src: Span) -> Result<Vec<f32>> {
    let mut values = vec![0f32; src.bytes / 4];
    let into = HostSlice {
        pointer: values.as_mut_ptr().cast(),
        bytes: src.bytes,
    };
    // SAFETY: as in `encode`; the values outlive the command, which is over or withdrawn below.
    let tick = unsafe { queue.download(src, into) }?;
    let waited = queue.progress().wait(tick, None);
    queue.progress().withdraw(tick);
    waited.map(|()| values)
}
