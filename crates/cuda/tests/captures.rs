//! Another user of the driver that captures in the same process, in each mode: neither side disturbs the other.
#![cfg(not(loom))]

#[path = "common/calls.rs"]
mod calls;
mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use calls::every_kind_of_call;
use common::device;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode as Mode};
use work::*;

/// The result of a call, which has to succeed.
fn ok(what: &str, mode: Mode, result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS, "{what} in {mode:?}");
}

/// Captures again and again in each mode, and counts.
fn capture_all_the_time(stop: &AtomicBool, captures: &AtomicU32) {
    let mut stream = null_mut();
    let mut context = null_mut();
    // SAFETY: the device is open, so its primary context is there, and is retained here once more.
    unsafe {
        sys::cuDevicePrimaryCtxRetain(&mut context, 0);
        sys::cuCtxSetCurrent(context);
        sys::cuStreamCreate(&mut stream, 1);
    }
    let modes = [
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ];
    for mode in modes.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut graph = null_mut();
        // SAFETY: the stream is this thread's, and captures nothing before.
        ok("begin", mode, unsafe {
            sys::cuStreamBeginCapture_v2(stream, mode)
        });
        std::thread::sleep(Duration::from_millis(2));
        // SAFETY: it captures; one handle is written.
        ok("end", mode, unsafe {
            sys::cuStreamEndCapture(stream, &mut graph)
        });
        // SAFETY: the graph was just captured.
        ok("destroy", mode, unsafe { sys::cuGraphDestroy(graph) });
        captures.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the stream is idle, and the context was retained above.
    unsafe {
        sys::cuStreamDestroy_v2(stream);
        sys::cuDevicePrimaryCtxRelease_v2(0);
    }
}

#[test]
fn captures_of_others_and_our_calls_do_not_disturb_one_another() {
    let Some(device) = device() else {
        return;
    };
    let pool = pool(&device, 8);
    let (stop, captures) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| capture_all_the_time(&stop, &captures));
        let ours: Vec<_> = (0..4)
            .map(|number| {
                let (pool, device, stop) = (pool.clone(), device.clone(), &stop);
                scope.spawn(move || {
                    let until = Instant::now() + Duration::from_secs(3);
                    let mut round = number;
                    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                        round += 4;
                        every_kind_of_call(&pool, &device, round as f32);
                    }
                })
            })
            .collect();
        let ended = ours.into_iter().map(|thread| thread.join());
        let ended: Vec<_> = ended.collect();
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
    assert!(captures.load(Ordering::Relaxed) > 10);
}

#[test]
fn the_context_of_a_thread_is_what_it_was() {
    let Some(device) = device() else {
        return;
    };
    // Another context of the same GPU, as other users of the driver may have.
    let (mut theirs, mut current) = (null_mut(), null_mut());
    // SAFETY: the driver is started; a context is made, and is this thread's.
    let made = unsafe {
        sys::cuDevicePrimaryCtxRetain(&mut current, 0);
        sys::cuCtxCreate_v4(&mut theirs, null_mut(), 0, 0)
    };
    if made != CUresult::CUDA_SUCCESS {
        common::skip("the driver makes no second context");
        return;
    }
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let filled = filled(stream, 3.0);
    assert_eq!(value_of(stream, &filled), Ok(3.0));
    // SAFETY: it writes one handle.
    unsafe { sys::cuCtxGetCurrent(&mut current) };
    assert_eq!(current, theirs);
    // SAFETY: it was made above.
    unsafe {
        sys::cuCtxDestroy_v2(theirs);
        sys::cuDevicePrimaryCtxRelease_v2(0);
    }
}
