//! Captures in their three modes: what becomes of commands, and what is forbidden meanwhile, to whom.

mod common;

use common::*;
use std::mem::MaybeUninit;

use cudarc::driver::sys::CUresult::{self, *};
use cudarc::driver::sys::{CUDA_MEMCPY3D, CUmemorytype};
use streampool_cuda_sim::api::*;

/// Each call that is not safe while somebody captures.
fn unsafe_calls(stream: usize, event: usize) -> [(&'static str, CUresult); 6] {
    let memory = got(|to| cuMemAlloc_v2(to, BYTES));
    if let Ok(memory) = memory {
        ok(cuMemFree_v2(memory));
    }
    let host = got(|to| cuMemHostAlloc(to, BYTES, 0));
    if let Ok(host) = host {
        ok(cuMemFreeHost(host));
    }
    [
        ("cuMemAlloc", memory.err().unwrap_or(CUDA_SUCCESS)),
        ("cuMemHostAlloc", host.err().unwrap_or(CUDA_SUCCESS)),
        ("cuStreamQuery", cuStreamQuery(stream)),
        ("cuStreamSynchronize", cuStreamSynchronize(stream)),
        ("cuEventQuery", cuEventQuery(event)),
        ("cuEventSynchronize", cuEventSynchronize(event)),
    ]
}

/// Captures in `mode` on this thread, has the calls made here or elsewhere by a thread of mode `own`, and checks that
/// each is refused or none, and spoils the capture or not.
#[track_caller]
fn check(mode: u32, here: bool, own: u32, refused: bool) {
    let driver = alone();
    let (capturing, other, event) = (stream(), stream(), event());
    ok(cuEventRecord(event, other));
    ok(cuStreamSynchronize(other));
    let calls = || {
        let mut mode = own;
        ok(cuThreadExchangeStreamCaptureMode(Some(&mut mode)));
        let results = unsafe_calls(other, event);
        ok(cuThreadExchangeStreamCaptureMode(Some(&mut mode)));
        assert_eq!(mode, own, "it gives back what was");
        results
    };
    ok(cuStreamBeginCapture_v2(capturing, mode));
    let results = match here {
        true => calls(),
        false => elsewhere(driver.context, calls),
    };
    for (call, result) in results {
        let expected = if refused { UNSUPPORTED } else { CUDA_SUCCESS };
        assert_eq!(result, expected, "{call}");
    }
    let status: u32 = made(|to| cuStreamIsCapturing(capturing, to));
    assert_eq!(status, if refused { 2 } else { 1 });
    match got(|to| cuStreamEndCapture(capturing, to)) {
        Ok(graph) => {
            assert!(!refused);
            ok(cuGraphDestroy(graph));
        }
        Err(why) => assert!(refused && why == SPOILT, "{why:?}"),
    }
    ok(cuStreamSynchronize(other));
    ok(cuEventDestroy_v2(event));
    ok(cuStreamDestroy_v2(other));
    ok(cuStreamDestroy_v2(capturing));
}

#[test]
fn a_global_capture_forbids_them_to_all_threads_that_are_not_relaxed() {
    check(GLOBAL, true, GLOBAL, true);
    check(GLOBAL, false, GLOBAL, true);
    check(GLOBAL, false, RELAXED, false);
    check(GLOBAL, true, RELAXED, false);
    // To itself alone, such a thread forbids what its own captures do.
    check(GLOBAL, false, THREAD_LOCAL, false);
}

#[test]
fn a_thread_local_capture_forbids_them_to_its_thread_only() {
    check(THREAD_LOCAL, true, GLOBAL, true);
    check(THREAD_LOCAL, true, THREAD_LOCAL, true);
    check(THREAD_LOCAL, true, RELAXED, false);
    check(THREAD_LOCAL, false, GLOBAL, false);
}

#[test]
fn a_relaxed_capture_forbids_nothing() {
    check(RELAXED, true, GLOBAL, false);
    check(RELAXED, false, GLOBAL, false);
}

#[test]
fn nothing_runs_until_the_graph_is_launched() {
    let _driver = alone();
    let (stream, memory) = (stream(), device_memory());
    let (from, to) = (host_memory(), host_memory());
    bytes_at(from).fill(7);
    bytes_at(to).fill(0);
    ok(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    ok(cuMemcpyHtoDAsync_v2(memory, pointer(from), BYTES, stream));
    ok(cuMemcpyDtoHAsync_v2(pointer(to), memory, BYTES, stream));
    let graph = made(|to| cuStreamEndCapture(stream, to));
    ok(cuStreamSynchronize(stream));
    assert_eq!(bytes_at(to)[BYTES - 1], 0);
    let exec = made(|to| cuGraphInstantiateWithFlags(to, graph, 0));
    ok(cuGraphDestroy(graph));
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuStreamSynchronize(stream));
    assert!(bytes_at(to).iter().all(|byte| *byte == 7));
    ok(cuMemFreeHost(from));
    ok(cuMemFreeHost(to));
    ok(cuMemFree_v2(memory));
    ok(cuStreamDestroy_v2(stream));
}

#[test]
fn streams_join_by_events_and_have_to_come_back() {
    let _driver = alone();
    let (origin, branch, event, back) = (stream(), stream(), event(), event());
    let (module, nothing) = nothing();
    for returns in [true, false] {
        ok(cuStreamBeginCapture_v2(origin, GLOBAL));
        ok(launch(nothing, [1; 3], [32, 1, 1], origin));
        ok(cuEventRecord(event, origin));
        ok(cuStreamWaitEvent(branch, event, 0));
        let status: u32 = made(|to| cuStreamIsCapturing(branch, to));
        assert_eq!(status, 1);
        ok(launch(nothing, [1; 3], [32, 1, 1], branch));
        ok(cuEventRecord(back, branch));
        if returns {
            ok(cuStreamWaitEvent(origin, back, 0));
        }
        let ended = got(|to| cuStreamEndCapture(origin, to));
        match returns {
            true => ok(cuGraphDestroy(ended.expect("it came back"))),
            false => assert_eq!(ended, Err(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)),
        }
        ok(cuStreamQuery(branch));
    }
    ok(cuModuleUnload(module));
    [event, back]
        .into_iter()
        .for_each(|event| ok(cuEventDestroy_v2(event)));
    [origin, branch]
        .into_iter()
        .for_each(|stream| ok(cuStreamDestroy_v2(stream)));
}

#[test]
fn wrong_uses_are_refused() {
    let driver = alone();
    let (one, two, before, within) = (stream(), stream(), event(), event());
    ok(cuEventRecord(before, two));
    assert_eq!(
        got(|to| cuStreamEndCapture(one, to)),
        Err(CUDA_ERROR_ILLEGAL_STATE)
    );
    ok(cuStreamBeginCapture_v2(one, THREAD_LOCAL));
    assert_eq!(
        cuStreamBeginCapture_v2(one, GLOBAL),
        CUDA_ERROR_ILLEGAL_STATE
    );
    let elsewhere = elsewhere(driver.context, || got(|to| cuStreamEndCapture(one, to)));
    assert_eq!(elsewhere, Err(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
    // What was recorded outside is not waited for inside.
    assert_eq!(
        cuStreamWaitEvent(one, before, 0),
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION
    );
    assert_eq!(got(|to| cuStreamEndCapture(one, to)), Err(SPOILT));
    // What is recorded inside is not asked for, and neither is the stream.
    ok(cuStreamBeginCapture_v2(one, RELAXED));
    ok(cuEventRecord(within, one));
    assert_eq!(cuEventQuery(within), CUDA_ERROR_CAPTURED_EVENT);
    assert_eq!(cuStreamQuery(one), UNSUPPORTED);
    assert_eq!(got(|to| cuStreamEndCapture(one, to)), Err(SPOILT));
    [before, within]
        .into_iter()
        .for_each(|event| ok(cuEventDestroy_v2(event)));
    [one, two]
        .into_iter()
        .for_each(|stream| ok(cuStreamDestroy_v2(stream)));
}

/// A copy of all of `from` to `to`, both on the device.
fn device_copy(from: usize, to: usize) -> CUDA_MEMCPY3D {
    let device = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    // SAFETY: it is numbers, null pointers and two enumerations, which are written below.
    let mut copy: CUDA_MEMCPY3D = unsafe {
        let mut nothing = MaybeUninit::<CUDA_MEMCPY3D>::zeroed();
        (*nothing.as_mut_ptr()).srcMemoryType = device;
        (*nothing.as_mut_ptr()).dstMemoryType = device;
        nothing.assume_init()
    };
    (copy.srcDevice, copy.dstDevice) = (from as u64, to as u64);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (BYTES, 1, 1);
    copy
}

#[test]
fn an_edge_that_a_graph_lacks_shows() {
    let _driver = alone();
    let (stream, host) = (stream(), host_memory());
    let [a, b, c] = [0; 3].map(|_| device_memory());
    for edge in [true, false] {
        for (to, value) in [(a, 7), (b, 0), (c, 0)] {
            bytes_at(host).fill(value);
            ok(cuMemcpyHtoDAsync_v2(to, pointer(host), BYTES, stream));
            ok(cuStreamSynchronize(stream));
        }
        let graph = made(|to| cuGraphCreate(to, 0));
        let (first, second) = (device_copy(a, b), device_copy(b, c));
        let none = std::ptr::null();
        let before = made(|to| cuGraphAddMemcpyNode(to, graph, none, 0, Some(&first), 0));
        let count = usize::from(edge);
        made(|to| cuGraphAddMemcpyNode(to, graph, &raw const before, count, Some(&second), 0));
        let exec = made(|to| cuGraphInstantiateWithFlags(to, graph, 0));
        ok(cuGraphLaunch(exec, stream));
        ok(cuMemcpyDtoHAsync_v2(pointer(host), c, BYTES, stream));
        ok(cuStreamSynchronize(stream));
        // Without the edge, what was added later runs first.
        assert_eq!(bytes_at(host)[0], if edge { 7 } else { 0 });
        ok(cuGraphExecDestroy(exec));
        ok(cuGraphDestroy(graph));
    }
    [a, b, c]
        .into_iter()
        .for_each(|memory| ok(cuMemFree_v2(memory)));
    ok(cuMemFreeHost(host));
    ok(cuStreamDestroy_v2(stream));
}
