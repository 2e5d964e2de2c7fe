//! No buffer keeps the screen waiting until the system kills it: pages end by what they cost the GPU, and long ops are
//! divided.

use streampool_device::{
    Activation, DType, Device, Error, Flush, Layout, MatMul, Memory, Op, OpKind, Queue, Space, View,
};
use streampool_metal::MetalDevice;

use crate::common::{self, Stage, device, queue};
use crate::gpu::*;

/// The threads of 8 tiles by 8, for 8 products of 512 rows and columns.
const THREADS: u64 = 8 * 64 * 128;
/// So many such products are far too much at a time.
const MANY: usize = 64;
const LABEL: &str = "watched";

/// The memory of a product of `m` rows, `n` columns, and sums over `k`.
struct Product {
    memory: [Memory; 3],
    op: Op,
}

impl Product {
    fn new(device: &MetalDevice, [m, k, n]: [usize; 3]) -> Product {
        let shapes = [[m, k], [k, n], [m, n]];
        let memory = shapes.map(|[rows, columns]| {
            let bytes = 2 * rows * columns;
            device.allocate(bytes, Space::Device).unwrap()
        });
        let view = |at: usize| {
            let layout = Layout::contiguous(&shapes[at]).unwrap();
            View::new(memory[at].span(), DType::F16, layout).unwrap()
        };
        let op = Op::MatMul(MatMul {
            a: view(0),
            b: view(1),
            out: view(2),
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        });
        Product { memory, op }
    }

    /// # Safety
    /// Nothing that names it is under way.
    unsafe fn free(self, device: &MetalDevice) {
        for memory in self.memory {
            // SAFETY: the caller vouches for that.
            unsafe { device.free(memory) };
        }
    }
}

/// Has `work` append while the GPU is busy, then waits for all of it.
fn while_busy(stage: &Stage, queue: &mut dyn Queue, work: impl FnOnce(&mut dyn Queue)) {
    stage.0.pause();
    // SAFETY: it touches no memory.
    unsafe { queue.encode(&Op::Nop).unwrap() };
    queue.flush(Flush::Start).unwrap();
    work(queue);
    let last = queue.flush(Flush::ForWaiter).unwrap();
    stage.0.resume();
    assert_eq!(queue.progress().wait(last, None), Ok(()));
}

#[test]
fn a_page_ends_by_its_work() {
    let stage = Stage::new();
    stage.0.watchdog(THREADS);
    stage.0.skip_kernels();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let product = Product::new(&device, [512, 1024, 512]);
        let mut queue = queue(&device, LABEL);
        while_busy(&stage, &mut *queue, |queue| {
            for _ in 0..MANY {
                // SAFETY: the memory is freed when all is over.
                unsafe { queue.encode(&product.op).unwrap() };
            }
        });
        // SAFETY: all is over.
        unsafe { product.free(&device) };
    });
}

#[test]
fn a_replay_has_as_many_pages_as_it_needs() {
    let stage = Stage::new();
    stage.0.watchdog(THREADS);
    stage.0.skip_kernels();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let product = Product::new(&device, [512, 1024, 512]);
        let mut queue = queue(&device, LABEL);
        queue.begin_capture().unwrap();
        let slots = [0, 1, 2].map(|at| product.memory[at].span());
        // SAFETY: the memory is freed when all is over.
        let program = unsafe {
            for _ in 0..MANY {
                queue.encode(&product.op).unwrap();
            }
            queue.end_capture(&slots, &[]).unwrap()
        };
        while_busy(&stage, &mut *queue, |queue| {
            for _ in 0..2 {
                // SAFETY: as above.
                unsafe { queue.replay(&program, &slots).unwrap() };
            }
        });
        // SAFETY: all is over.
        unsafe { product.free(&device) };
    });
}

#[test]
fn a_page_ends_by_the_bytes_of_its_operands() {
    const BYTES: usize = 32 << 20;
    let stage = Stage::new();
    // Four copies, which read as much as they write.
    stage.0.watchdog(4 * BYTES as u64 / 16);
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = [(); 2].map(|()| device.allocate(BYTES, Space::Device).unwrap());
        let [src, dst] = [0, 1].map(|at| {
            let layout = Layout::contiguous(&[BYTES]).unwrap();
            View::new(memory[at].span(), DType::U8, layout).unwrap()
        });
        let mut queue = queue(&device, LABEL);
        while_busy(&stage, &mut *queue, |queue| {
            for _ in 0..16 {
                // SAFETY: the memory is freed when all is over.
                unsafe { queue.encode(&Op::Copy { src, dst }).unwrap() };
            }
        });
        for memory in memory {
            // SAFETY: all is over.
            unsafe { device.free(memory) };
        }
    });
}

#[test]
fn a_long_copy_is_divided() {
    const PART: usize = 128 << 20;
    const BYTES: usize = 2 * PART + 64;
    let stage = Stage::new();
    stage.0.watchdog(PART as u64 / 16);
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = [(); 2].map(|()| device.allocate(BYTES, Space::Staging).unwrap());
        let [src, dst] = [0, 1].map(|at| {
            let layout = Layout::contiguous(&[BYTES]).unwrap();
            View::new(memory[at].span(), DType::U8, layout).unwrap()
        });
        let [from, to] = [0, 1].map(|at| device.host_address(&memory[at]).unwrap());
        let places = [0, PART - 1, PART, 2 * PART - 1, 2 * PART, BYTES - 1];
        let mut queue = queue(&device, LABEL);
        // SAFETY: the host touches the memory while nothing is under way, and frees it at the end.
        unsafe {
            for (value, at) in places.into_iter().enumerate() {
                from.add(at).write(value as u8);
                to.add(at).write(99);
            }
            let tick = queue.encode(&Op::Copy { src, dst }).unwrap();
            queue.flush(Flush::Start).unwrap();
            assert_eq!(queue.progress().wait(tick, None), Ok(()));
            let copied = places.map(|at| to.add(at).read());
            assert_eq!(copied, [0, 1, 2, 3, 4, 5]);
            for memory in memory {
                device.free(memory);
            }
        }
    });
}

#[test]
fn a_long_product_is_divided() {
    let stage = Stage::new();
    stage.0.watchdog(THREADS);
    stage.0.skip_kernels();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        // More parts than a queue has room for, all of one command.
        let product = Product::new(&device, [4096, 4096, 8192]);
        let mut queue = queue(&device, LABEL);
        // SAFETY: the memory is freed when all is over.
        let tick = unsafe { queue.encode(&product.op).unwrap() };
        assert_eq!(queue.flush(Flush::Start), Ok(tick));
        assert_eq!(queue.progress().wait(tick, None), Ok(()));
        // SAFETY: all is over.
        unsafe { product.free(&device) };
    });
}

#[test]
fn a_fault_of_one_part_is_a_fault_of_the_whole_op() {
    let stage = Stage::new();
    stage.0.skip_kernels();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let product = Product::new(&device, [2048, 4096, 4096]);
        let mut queue = queue(&device, LABEL);
        for parts_before in [0, 1] {
            // SAFETY: it touches no memory.
            let before = unsafe { queue.encode(&Op::Nop).unwrap() };
            queue.flush(Flush::Start).unwrap();
            queue.progress().wait(before, None).unwrap();
            stage.0.hold(Some(&common::metal_label(&*device, LABEL)));
            if parts_before == 0 {
                common::fail_next(&*device, LABEL);
            }
            // SAFETY: the memory is freed when all is over.
            let tick = unsafe { queue.encode(&product.op).unwrap() };
            queue.flush(Flush::Start).unwrap();
            if parts_before == 1 {
                common::fail_next(&*device, LABEL);
            }
            stage.0.hold(None);
            match queue.progress().wait(tick, None) {
                Err(Error::Fault(fault)) => {
                    assert_eq!((fault.tick(), fault.op()), (tick, OpKind::MatMul));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(queue.progress().wait(before, None), Ok(()));
            queue.recover().unwrap();
            // SAFETY: as above.
            let again = unsafe { queue.encode(&product.op).unwrap() };
            queue.flush(Flush::Start).unwrap();
            assert_eq!(queue.progress().wait(again, None), Ok(()));
        }
        // SAFETY: all is over.
        unsafe { product.free(&device) };
    });
}
