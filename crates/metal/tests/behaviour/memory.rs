//! Memory of a Metal device when it is full, wrapped, or not shared with the host.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use streampool_device::{Device, Error as DeviceError, Space, Span};
use streampool_metal::MetalOptions;
#[cfg(metal_sim)]
use streampool_runtime::Error;

use crate::common::{Stage, device, device_with};
use crate::gpu::*;

#[cfg(metal_sim)]
const MIB: usize = 1 << 20;
const PAGES: Layout = match Layout::from_size_align(4 * 16384, 16384) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a power of two"),
};

#[cfg(metal_sim)]
#[test]
fn a_gpu_that_is_full_before_its_recommendation_says_so_and_goes_on() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let kept = filled(stream, 1.0);
    stage.0.capacity(0);
    let error = stream.allocate(64 * MIB).map(drop).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!(value_of(stream, &kept), Ok(1.0));
    stage.0.capacity(1 << 40);
    assert_eq!(stream.allocate(64 * MIB).map(drop), Ok(()));
}

#[cfg(metal_sim)]
#[test]
fn a_device_that_shares_no_memory_with_the_host_does_the_same() {
    let stage = Stage::new();
    stage.0.unified(false);
    let Some(device) = device() else { return };
    assert!(!device.properties().unified_memory);
    within(FOREVER, || {
        let pool = pool(&device, 8);
        on_threads(7, |number| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(50) {
                let value = (number * 100 + round) as f32;
                let values: Vec<f32> = (0..N).map(|place| value + place as f32).collect();
                let mut one = buffer(stream);
                let mut two = buffer(stream);
                stream.upload(&mut one, &values).unwrap();
                add(stream, &one, &mut two, 1.0).unwrap();
                let expected: Vec<f32> = values.iter().map(|value| value + 1.0).collect();
                assert_eq!(stream.download::<f32>(&two).unwrap(), expected);
            }
        });
    });
}

#[cfg(metal_sim)]
#[test]
fn what_is_allocated_is_resident_until_it_is_freed() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    // SAFETY: the layout is not empty.
    let pages = NonNull::new(unsafe { alloc_zeroed(PAGES) }).unwrap();
    let mut all = vec![
        device.allocate(64, Space::Device).unwrap(),
        device.allocate(MIB, Space::Staging).unwrap(),
        // SAFETY: the pages are freed after the memory.
        unsafe { device.wrap(pages, PAGES.size()).unwrap() },
    ];
    assert_eq!(stage.0.resident(), all.len());
    while let Some(memory) = all.pop() {
        // SAFETY: nothing names it.
        unsafe { device.free(memory) };
        assert_eq!(stage.0.resident(), all.len());
    }
    // SAFETY: it was allocated above with this layout, and nothing names it any more.
    unsafe { dealloc(pages.as_ptr(), PAGES) };
}

#[test]
fn wrapped_pages_count_and_have_to_fit() {
    let _stage = Stage::new();
    let capacity = PAGES.size() - 1;
    let Some(device) = device_with(MetalOptions::default().capacity(capacity)) else {
        return;
    };
    // SAFETY: the layout is not empty.
    let pages = NonNull::new(unsafe { alloc_zeroed(PAGES) }).unwrap();
    // SAFETY: it is refused.
    let refused = unsafe { device.wrap(pages, PAGES.size()) };
    assert!(
        matches!(refused, Err(DeviceError::OutOfMemory { .. })),
        "{refused:?}"
    );
    assert_all_freed(&device);
    // SAFETY: it was allocated above with this layout, and nothing names it.
    unsafe { dealloc(pages.as_ptr(), PAGES) };
}

#[test]
fn whole_pages_of_the_host_are_wrapped_and_computed_on() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    // SAFETY: the layout is not empty.
    let pages = NonNull::new(unsafe { alloc_zeroed(PAGES) }).unwrap();
    within(FOREVER, || {
        // SAFETY: the pages are freed after the memory, and nobody touches them while commands do.
        let memory = unsafe { device.wrap(pages, PAGES.size()).unwrap() };
        assert_eq!(device.host_address(&memory), Ok(pages));
        let mut queue = device.create_queue(Default::default()).unwrap();
        let span = Span {
            bytes: 4 * N,
            ..memory.span()
        };
        let floats: Vec<u8> = (0..N)
            .flat_map(|place| (place as f32).to_le_bytes())
            .collect();
        let layout = streampool_device::Layout::contiguous(&[N]).unwrap();
        let view = streampool_device::View::new(span, streampool_device::DType::F32, layout);
        let view = view.unwrap();
        let double = streampool_device::Op::Map {
            expr: plus(1.0),
            inputs: vec![view],
            outputs: vec![view],
        };
        // SAFETY: the memory lives until all is over, and this queue alone touches it.
        unsafe {
            queue.upload(span, &floats).unwrap();
            queue.encode(&double).unwrap();
            let last = queue.flush(streampool_device::Flush::ForWaiter).unwrap();
            queue.progress().wait(last, None).unwrap();
            let seen = std::slice::from_raw_parts(pages.as_ptr().cast::<f32>(), N);
            let expected: Vec<f32> = (0..N).map(|place| place as f32 + 1.0).collect();
            assert_eq!(seen, expected, "without a copy");
            device.free(memory);
        }
        for (pointer, bytes) in [
            (pages, 100),
            (pages, 0),
            // SAFETY: it stays within the pages.
            (unsafe { pages.add(64) }, 16384),
        ] {
            // SAFETY: it is refused.
            let refused = unsafe { device.wrap(pointer, bytes) };
            assert!(
                matches!(refused, Err(DeviceError::Invalid { .. })),
                "{refused:?}"
            );
        }
        assert_all_freed(&device);
    });
    // SAFETY: it was allocated above with this layout, and nothing names it any more.
    unsafe { dealloc(pages.as_ptr(), PAGES) };
}

#[test]
fn memory_that_is_not_for_the_host_or_not_ours_is_not_looked_into() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    let memory = device.allocate(64, Space::Device).unwrap();
    let strange = streampool_device::Memory {
        handle: 0x100,
        bytes: 64,
        space: Space::Staging,
    };
    for memory in [&memory, &strange] {
        let refused = device.host_address(memory);
        assert!(
            matches!(refused, Err(DeviceError::Invalid { .. })),
            "{refused:?}"
        );
    }
    // SAFETY: nothing names it.
    unsafe { device.free(memory) };
}
