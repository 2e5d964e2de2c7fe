//! What the measurements share.

use std::time::{Duration, Instant};

use streampool_device::{DType, Device, Flush, Layout, Op, QueueOptions, Result, Span, View};
use streampool_host::{HostDevice, HostOptions};

/// Numbers for a tensor of this shape.
pub fn numbers(shape: &[usize], seed: usize) -> Vec<f32> {
    (0..shape.iter().product())
        .map(|index| ((index * 7 + seed) % 17) as f32 * 0.1 - 0.8)
        .collect()
}

/// A row-major view of numbers of this program: on the host a handle is an address.
pub fn view(numbers: &[f32], shape: &[usize]) -> Result<View> {
    let span = Span {
        handle: numbers.as_ptr().expose_provenance() as u64,
        offset: 0,
        bytes: size_of_val(numbers),
    };
    View::new(span, DType::F32, Layout::contiguous(shape)?)
}

/// The shortest time of a call in seconds, over repeated runs of about two milliseconds.
pub fn fastest(mut call: impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    call();
    let once = start.elapsed().max(Duration::from_nanos(50));
    let calls = (Duration::from_millis(2).as_nanos() / once.as_nanos()).max(1) as u32;
    let run = |_| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed() / calls
    };
    (0..40).map(run).min().unwrap_or_default().as_secs_f64()
}

/// The shortest time of an op on a device, in seconds.
pub fn queued(op: &Op, options: HostOptions) -> Result<f64> {
    let device = HostDevice::new(options)?;
    let mut queue = device.create_queue(QueueOptions::default())?;
    let progress = queue.progress();
    Ok(fastest(|| {
        // SAFETY: the operands are the caller's, which waits here until the work is over.
        let tick = unsafe { queue.encode(op) };
        let done = tick
            .and_then(|_| queue.flush(Flush::ForWaiter))
            .and_then(|tick| progress.wait(tick, None));
        done.unwrap_or_else(|error| panic!("{error}"));
    }))
}
