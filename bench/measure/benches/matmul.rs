//! The host's matrix product beside the `gemm` crate called directly, on one thread and through the device:
//! `cargo bench -p streampool-measure --features gemm --bench matmul`.

use std::time::{Duration, Instant};

use gemm::Parallelism;
use streampool_device::{
    Activation, DType, Device, Flush, Layout, MatMul, Op, QueueOptions, Space, Span, View,
};
use streampool_host::{HostDevice, HostOptions, bare_execute};

/// Rows, inner dimension, columns, and whether the right operand is stored transposed.
const SHAPES: [(usize, usize, usize, bool); 14] = [
    (64, 64, 64, false),
    (128, 128, 128, false),
    (256, 256, 256, false),
    (256, 256, 256, true),
    (512, 512, 512, false),
    (1024, 1024, 1024, false),
    (128, 384, 1536, false),
    (128, 384, 1536, true),
    (4, 256, 128, true),
    (4, 256, 128, false),
    (1, 256, 128, true),
    (16, 384, 1536, true),
    (16, 384, 1536, false),
    (8, 1024, 1024, true),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = HostDevice::new(HostOptions::default())?;
    let mut queue = device.create_queue(QueueOptions::default())?;
    println!(
        "{:>22} {:>9} {:>9} {:>7} {:>9} {:>7}",
        "m x k x n", "gemm", "bare", "ratio", "device", "ratio"
    );
    println!(
        "{:>22} {:>9} {:>9} {:>7} {:>9} {:>7}",
        "", "GFLOP/s", "GFLOP/s", "", "GFLOP/s", ""
    );
    for (m, k, n, transposed) in SHAPES {
        let numbers = |count: usize| {
            (0..count)
                .map(|i| (i % 17) as f32 * 0.1 - 0.8)
                .collect::<Vec<f32>>()
        };
        let (a, b) = (numbers(m * k), numbers(k * n));
        let (mut direct, product) = (
            vec![0f32; m * n],
            device.allocate(m * n * 4, Space::Device)?,
        );
        let (b_row, b_column) = if transposed {
            (1, k as isize)
        } else {
            (n as isize, 1)
        };
        let op = Op::MatMul(MatMul {
            a: view(&a, &[m, k], &[k as isize, 1])?,
            b: view(&b, &[k, n], &[b_row, b_column])?,
            out: View::new(product.span(), DType::F32, Layout::contiguous(&[m, n])?)?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        });
        // SAFETY: pointers, sizes and strides are those of the vectors above.
        let theirs = fastest(|| unsafe {
            gemm::gemm(
                m,
                n,
                k,
                direct.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.as_ptr(),
                1,
                k as isize,
                b.as_ptr(),
                b_column,
                b_row,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        });
        // SAFETY: the operands live until after the loop, and nothing else touches them.
        let bare =
            fastest(|| unsafe { bare_execute(&op) }.unwrap_or_else(|error| panic!("{error}")));
        let progress = queue.progress();
        let queued = fastest(|| {
            // SAFETY: as above; the work is waited for.
            let tick = unsafe { queue.encode(&op) };
            let done = tick
                .and_then(|_| queue.flush(Flush::ForWaiter))
                .and_then(|tick| progress.wait(tick, None));
            done.unwrap_or_else(|error| panic!("{error}"));
        });
        // SAFETY: all work is complete.
        unsafe { device.free(product) };
        let rate = |time: Duration| 2.0 * (m * n * k) as f64 / time.as_secs_f64() / 1e9;
        let name = format!("{m} x {k} x {n}{}", if transposed { " T" } else { "" });
        println!(
            "{name:>22} {:>9.1} {:>9.1} {:>7.2} {:>9.1} {:>7.2}",
            rate(theirs),
            rate(bare),
            rate(bare) / rate(theirs),
            rate(queued),
            rate(queued) / rate(theirs),
        );
    }
    Ok(())
}

/// A view of numbers of this program: on the host a handle is an address.
fn view(numbers: &[f32], shape: &[usize], strides: &[isize]) -> streampool_device::Result<View> {
    let handle = numbers.as_ptr().expose_provenance() as u64;
    let span = Span {
        handle,
        offset: 0,
        bytes: size_of_val(numbers),
    };
    View::new(span, DType::F32, Layout::strided(shape, strides, 0)?)
}

/// The shortest time of a call, over repeated runs of about two milliseconds.
fn fastest(mut call: impl FnMut()) -> Duration {
    call();
    let start = Instant::now();
    call();
    let once = start.elapsed().max(Duration::from_nanos(50));
    let calls = (Duration::from_millis(2).as_nanos() / once.as_nanos()).max(1) as u32;
    (0..40)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed() / calls
        })
        .min()
        .unwrap_or_default()
}
