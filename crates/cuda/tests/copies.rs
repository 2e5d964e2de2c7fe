//! Copies between the host and the device: what they pass through does not pile up, and what a wait that failed leaves under
//! way writes to no memory that was only lent.
#![cfg(not(loom))]

mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::sync::Arc;

use common::raw::*;
use common::*;
use streampool_cuda::CudaDevice;
use streampool_device::{Device, Error, HostSlice, Queue, Space, Span, Tick};
use streampool_runtime::{Capture, DType, Op, Stream};

const MIB: usize = 1 << 20;

#[test]
fn uploads_that_nobody_waits_for_keep_few_blocks() {
    const UPLOADS: usize = 100_000;
    let Some(device) = device() else {
        return;
    };
    let [mut queue, mut other] = [0, 1].map(|index| queue(&*device, index).unwrap());
    let event = device.create_event(false).unwrap();
    let values = vec![1.0; 1024];
    let span = leaked(&*device, 4 * values.len());
    for number in 0..UPLOADS {
        upload(&mut *queue, span, &values).unwrap();
        if number % 1000 == 0 {
            // The device is not to be far behind, but nobody asks the queue how far it is: another follows it.
            queue.record(&*event).unwrap();
            let tick = other.wait(&*event).unwrap();
            other.progress().wait(tick, None).unwrap();
        }
    }
    let staging = device.overhead().staging;
    // All of them are 390 MiB.
    assert!(staging < 64 * MIB, "{} MiB of blocks", staging / MIB);
    assert_eq!(download(&mut *queue, span).unwrap(), values);
}

/// Runs a test in a process of its own, in which the first `refused` waits fail. Only the imitation has waits that fail.
fn with_refused_waits(test: &str, refused: u32, run: impl FnOnce(Arc<CudaDevice>)) {
    match is_child(test) {
        true => run(device().expect("there is a device")),
        false if is_imitated() => run_as_child(test, |command| {
            command.env("CUDA_SIM_REFUSED_WAITS", refused.to_string());
        }),
        false => skip("only the imitation of the driver has waits that fail"),
    }
}

/// Appends a download into `values`, which has to be withdrawn or waited for.
fn download_into(queue: &mut dyn Queue, src: Span, values: &mut [f32]) -> Tick {
    let into = HostSlice {
        pointer: values.as_mut_ptr().cast(),
        bytes: src.bytes,
    };
    // SAFETY: the values outlive the command, and are looked at only when it was withdrawn or is over.
    unsafe { queue.download(src, into) }.unwrap()
}

#[test]
fn a_download_that_was_withdrawn_lands_nowhere() {
    with_refused_waits("a_download_that_was_withdrawn_lands_nowhere", 1, |device| {
        let mut queue = queue(&*device, 0).unwrap();
        let span = leaked(&*device, 4096);
        upload(&mut *queue, span, &[1.0; 1024]).unwrap();
        let mut values = vec![7.0; 1024];
        let tick = download_into(&mut *queue, span, &mut values);
        let progress = queue.progress();
        let refused = progress.wait(tick, None);
        assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
        progress.withdraw(tick);
        progress.wait(tick, None).unwrap();
        assert_eq!(progress.completed(), tick);
        assert_eq!(values, [7.0; 1024], "it landed after it was withdrawn");
        assert_eq!(download(&mut *queue, span).unwrap(), [1.0; 1024]);
    });
}

#[test]
fn what_the_driver_copies_by_itself_is_waited_for_when_it_is_withdrawn() {
    let test = "what_the_driver_copies_by_itself_is_waited_for_when_it_is_withdrawn";
    with_refused_waits(test, 3, |device| {
        let mut queue = queue(&*device, 0).unwrap();
        let span = leaked(&*device, 16 * MIB);
        let spare = leaked(&*device, 16 * MIB);
        encode(&mut *queue, &fill(span, 1.0)).unwrap();
        for _ in 0..8 {
            encode(&mut *queue, &copy(span, spare)).unwrap();
        }
        // To memory that is pinned, which it writes on its own time.
        let staging = device.allocate(16 * MIB, Space::Staging).unwrap();
        let address = device.host_address(&staging).unwrap().cast::<f32>();
        // SAFETY: it is that long, any bytes are floats, and it is nobody else's. It is never freed.
        let values = unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), 4 * MIB) };
        let tick = download_into(&mut *queue, span, values);
        let progress = queue.progress();
        assert!(progress.wait(tick, None).is_err());
        progress.withdraw(tick);
        assert!(progress.completed() >= tick, "the copy is under way");
        assert!(values.iter().all(|value| *value == 1.0));
    });
}

/// Has a stream copy for long.
fn keep_busy(stream: &Stream) {
    let shape = [16 * MIB];
    let large = stream.allocate(64 * MIB).unwrap();
    let mut copied = stream.allocate(64 * MIB).unwrap();
    for _ in 0..4 {
        let src = large.read(DType::F32, &shape).unwrap();
        let dst = copied.write(DType::F32, &shape).unwrap();
        stream.encode(Op::Copy { src, dst }).unwrap();
    }
}

#[test]
fn a_stream_whose_wait_failed_writes_nothing_later() {
    let test = "a_stream_whose_wait_failed_writes_nothing_later";
    with_refused_waits(test, 1, |device| {
        let pool = work::pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let buffer = work::filled(stream, 1.0);
        keep_busy(stream);
        let mut values = [7.0f32; work::N];
        let refused = stream.download_into(&buffer, &mut values);
        assert!(refused.is_err(), "{refused:?}");
        let at_once = values;
        stream.synchronize().unwrap();
        assert_eq!(values, at_once, "it was written after the call");
        assert_eq!(work::value_of(stream, &buffer), Ok(1.0));
    });
}

#[test]
fn the_memory_of_a_program_is_not_lent_while_a_replay_may_write_it() {
    let test = "the_memory_of_a_program_is_not_lent_while_a_replay_may_write_it";
    with_refused_waits(test, 1, |device| {
        let pool = work::pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let constant = Arc::new(work::filled(stream, 1.0));
        work::until("the constant is written", || stream.is_idle());
        let mut capture = Capture::new(stream);
        let shared = capture.shared(work::N * 4).unwrap();
        let constant = capture.constant(&constant).unwrap();
        let src = constant.view(DType::F32, &[work::N]).unwrap();
        let dst = shared.view(DType::F32, &[work::N]).unwrap();
        capture.encode(Op::Copy { src, dst }).unwrap();
        let mut program = capture.finish().unwrap();
        keep_busy(stream);
        stream.replay(&program, &[], &mut []).unwrap();
        let lent = program.shared().next().unwrap();
        assert!(lent.is_err(), "the replay is not over, as far as is known");
        let lent = program.shared().next().unwrap().unwrap();
        assert_eq!(lent[..4], 1f32.to_ne_bytes());
    });
}
