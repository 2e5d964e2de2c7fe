//! What the driver answers, and that streams, events and graphs keep their order.

mod common;

use common::*;
use cudarc::driver::sys::CUresult::*;
use streampool_cuda_sim::api::*;

#[test]
fn errors_are_those_of_the_driver() {
    let driver = alone();
    let (stream, memory) = (stream(), device_memory());
    let (module, nothing) = nothing();
    // Without a context.
    std::thread::scope(|scope| {
        let outside = scope.spawn(|| got(|to| cuMemAlloc_v2(to, BYTES)));
        let outside = outside.join().expect("it does not panic");
        assert_eq!(outside, Err(CUDA_ERROR_INVALID_CONTEXT));
    });
    assert_eq!(
        cuCtxSetCurrent(driver.context + 1),
        CUDA_ERROR_CONTEXT_IS_DESTROYED
    );
    assert_eq!(cuEventQuery(0), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(cuMemFree_v2(memory + 8), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(cuMemAlloc_v2(None, BYTES), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(
        got(|to| cuMemAlloc_v2(to, 0)),
        Err(CUDA_ERROR_INVALID_VALUE)
    );
    assert_eq!(
        got(|to| cuMemAlloc_v2(to, 8 << 30)),
        Err(CUDA_ERROR_OUT_OF_MEMORY)
    );
    let beyond = cuMemcpyDtoDAsync_v2(memory, memory + BYTES, BYTES, stream);
    assert_eq!(beyond, CUDA_ERROR_INVALID_VALUE);
    for (groups, threads) in [
        ([1; 3], [1025, 1, 1]),
        ([1; 3], [32, 33, 1]),
        ([1; 3], [1, 1, 65]),
        ([1; 3], [0, 1, 1]),
        ([1, 65536, 1], [32, 1, 1]),
        ([0, 1, 1], [32, 1, 1]),
    ] {
        assert_eq!(
            launch(nothing, groups, threads, stream),
            CUDA_ERROR_INVALID_VALUE
        );
    }
    ok(launch(
        nothing,
        [1 << 30, 65535, 65535],
        [1024, 1, 1],
        stream,
    ));
    let missing = got(|to| cuModuleGetFunction(to, module, c"something".as_ptr()));
    assert_eq!(missing, Err(CUDA_ERROR_NOT_FOUND));
    let image = got(|to| cuModuleLoadData(to, c"no image".as_ptr()));
    assert_eq!(image, Err(CUDA_ERROR_INVALID_IMAGE));
    ok(cuStreamSynchronize(stream));
    ok(cuModuleUnload(module));
    ok(cuMemFree_v2(memory));
    ok(cuStreamDestroy_v2(stream));
}

#[test]
fn all_memory_comes_back() {
    let _driver = alone();
    let free = || {
        let mut total = std::mem::MaybeUninit::uninit();
        made(|to| cuMemGetInfo_v2(to, Some(&mut total)))
    };
    let before: usize = free();
    let memories: Vec<usize> = (0..10).map(|_| device_memory()).collect();
    assert_eq!(free(), before - 10 * BYTES);
    for memory in memories {
        assert_eq!(memory % 256, 0);
        ok(cuMemFree_v2(memory));
    }
    let stream = stream();
    let pooled = made(|to| cuMemAllocAsync(to, BYTES, stream));
    ok(cuMemFreeAsync(pooled, stream));
    ok(cuStreamSynchronize(stream));
    assert_eq!(free(), before);
    ok(cuStreamDestroy_v2(stream));
}

#[test]
fn a_wait_is_for_the_recording_of_its_time() {
    let _driver = alone();
    let (first, second, event) = (stream(), stream(), event());
    let (memory, from, to) = (device_memory(), host_memory(), host_memory());
    for round in 0..200u8 {
        bytes_at(from).fill(round);
        ok(cuMemcpyHtoDAsync_v2(memory, pointer(from), BYTES, first));
        ok(cuEventRecord(event, first));
        ok(cuStreamWaitEvent(second, event, 0));
        // The event stands for something else now, and who waits already does not care.
        ok(cuEventRecord(event, second));
        ok(cuMemcpyDtoHAsync_v2(pointer(to), memory, BYTES, second));
        ok(cuStreamSynchronize(second));
        assert!(bytes_at(to).iter().all(|byte| *byte == round));
        ok(cuEventQuery(event));
    }
    [from, to]
        .into_iter()
        .for_each(|memory| ok(cuMemFreeHost(memory)));
    ok(cuMemFree_v2(memory));
    ok(cuEventDestroy_v2(event));
    [first, second]
        .into_iter()
        .for_each(|stream| ok(cuStreamDestroy_v2(stream)));
}

#[test]
fn pageable_memory_is_copied_before_the_call_returns() {
    let _driver = alone();
    let (stream, memory) = (stream(), device_memory());
    let mut bytes = vec![3u8; BYTES];
    ok(cuMemcpyHtoDAsync_v2(memory, bytes.as_ptr(), BYTES, stream));
    bytes.fill(4);
    ok(cuMemcpyDtoHAsync_v2(
        bytes.as_mut_ptr(),
        memory,
        BYTES,
        stream,
    ));
    assert!(bytes.iter().all(|byte| *byte == 3));
    ok(cuMemFree_v2(memory));
    ok(cuStreamDestroy_v2(stream));
}

#[test]
fn a_destroyed_stream_still_does_what_it_was_told() {
    let _driver = alone();
    let (memory, host) = (device_memory(), host_memory());
    let event = event();
    bytes_at(host).fill(9);
    let stream = stream();
    for _ in 0..100 {
        ok(cuMemcpyHtoDAsync_v2(memory, pointer(host), BYTES, stream));
    }
    ok(cuMemcpyDtoHAsync_v2(pointer(host), memory, BYTES, stream));
    ok(cuEventRecord(event, stream));
    ok(cuStreamDestroy_v2(stream));
    ok(cuEventSynchronize(event));
    assert!(bytes_at(host).iter().all(|byte| *byte == 9));
    ok(cuEventDestroy_v2(event));
    ok(cuMemFreeHost(host));
    ok(cuMemFree_v2(memory));
}
