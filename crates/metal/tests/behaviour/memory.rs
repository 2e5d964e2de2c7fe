//! Memory of a Metal device when it is full, wrapped, or not shared with the host.

use std::ptr::NonNull;

use streampool_device::{DType, Device, Error as DeviceError, Op, Overhead, Sort, Space, Span};
#[cfg(metal_sim)]
use streampool_device::{Flush, Memory, View};
#[cfg(metal_sim)]
use streampool_metal::MetalDevice;
use streampool_metal::MetalOptions;
#[cfg(metal_sim)]
use streampool_metal_sim::Refusal;
#[cfg(metal_sim)]
use streampool_runtime::Error;

#[cfg(metal_sim)]
use crate::common::{PAGE_FAULT, metal_label, queue};
use crate::common::{Stage, device, device_with};
use crate::gpu::*;

#[cfg(metal_sim)]
const MIB: usize = 1 << 20;
const PAGE: usize = 16 << 10;
const PAGES: usize = 4 * PAGE;
/// More than a sort of one group takes.
const LONG: usize = 10_000;

/// Pages of Metal's, of memory that is mapped: it wraps no other.
struct Pages {
    mapped: *mut libc::c_void,
    first: NonNull<u8>,
}

impl Pages {
    /// The system's pages may be smaller.
    const MAPPED: usize = PAGES + PAGE;

    fn map() -> Pages {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: new memory, where the system chooses.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), Self::MAPPED, access, kind, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        let first: *mut u8 = mapped.map_addr(|at| at.next_multiple_of(PAGE)).cast();
        let first = NonNull::new(first).unwrap();
        Pages { mapped, first }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped above with this length, and nothing names it any more.
        let unmapped = unsafe { libc::munmap(self.mapped, Self::MAPPED) };
        assert_eq!(unmapped, 0);
    }
}

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

/// What has been allocated and wrapped, one of each kind. The pages are to live longer.
#[cfg(metal_sim)]
fn one_of_each(device: &MetalDevice, pages: &Pages) -> Vec<Memory> {
    vec![
        device.allocate(64, Space::Device).unwrap(),
        device.allocate(MIB, Space::Staging).unwrap(),
        // SAFETY: the caller keeps the pages for longer.
        unsafe { device.wrap(pages.first, PAGES).unwrap() },
    ]
}

/// Sets of the imitation that live.
#[cfg(metal_sim)]
fn sets(stage: &Stage) -> usize {
    let live = stage.0.live_objects();
    live.get("_Imitation_ResidencySet").copied().unwrap_or(0)
}

#[cfg(metal_sim)]
#[test]
fn nothing_is_kept_resident_unless_the_options_say_so() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    let pages = Pages::map();
    let _queue = queue(&device, "a queue");
    let all = one_of_each(&device, &pages);
    assert_eq!((sets(&stage), stage.0.resident()), (0, 0));
    // SAFETY: nothing names them.
    all.into_iter()
        .for_each(|memory| unsafe { device.free(memory) });
}

#[cfg(metal_sim)]
#[test]
fn by_option_what_is_allocated_is_in_one_of_several_sets_until_it_is_freed() {
    let stage = Stage::new();
    let options = MetalOptions::default().residency_sets(true);
    let Some(device) = device_with(options) else {
        return;
    };
    let features = &device.properties().features;
    assert!(features.contains(&"residency sets".to_owned()));
    let pages = Pages::map();
    let _queue = queue(&device, "a queue");
    let mut all = one_of_each(&device, &pages);
    assert!(sets(&stage) > 1);
    assert_eq!(stage.0.resident(), all.len());
    while let Some(memory) = all.pop() {
        // SAFETY: nothing names it.
        unsafe { device.free(memory) };
        assert_eq!(stage.0.resident(), all.len());
    }
}

#[cfg(metal_sim)]
#[test]
fn memory_comes_and_goes_while_the_gpu_works() {
    for kept in [false, true] {
        let stage = Stage::new();
        let options = MetalOptions::default().residency_sets(kept);
        let Some(device) = device_with(options) else {
            return;
        };
        within(FOREVER, || {
            let mut queue = queue(&device, "busy");
            stage.0.pause();
            // SAFETY: it touches no memory.
            let last = unsafe { queue.encode(&Op::Nop).unwrap() };
            queue.flush(Flush::Start).unwrap();
            let memory = device.allocate(MIB, Space::Device).unwrap();
            // SAFETY: nothing names it.
            unsafe { device.free(memory) };
            stage.0.resume();
            assert_eq!(queue.progress().wait(last, None), Ok(()));
        });
    }
}

/// The GPU fails before the first of it, so none of the memory is ever written, and there need not be as much.
#[cfg(metal_sim)]
#[test]
fn copies_of_4_gib_and_more_are_several() {
    const LONG: usize = (4 << 30) + 4096;
    let stage = Stage::recording();
    let Some(device) = device() else { return };
    let mut queue = queue(&device, "long");
    let allocate = || device.allocate(LONG, Space::Device).unwrap();
    let (from, to) = (allocate(), allocate());
    let bytes = |memory: &Memory| {
        let layout = streampool_device::Layout::contiguous(&[LONG]).unwrap();
        View::new(memory.span(), DType::U8, layout).unwrap()
    };
    let copy = Op::Copy {
        src: bytes(&from),
        dst: bytes(&to),
    };
    streampool_metal_sim::fail_next(&metal_label(&*device, "long"), PAGE_FAULT);
    within(FOREVER, || {
        // SAFETY: both live until all is over.
        unsafe {
            let copied = queue.encode(&copy).unwrap();
            let outcome = queue.progress().wait(copied, None);
            assert!(matches!(outcome, Err(DeviceError::Fault(_))), "{outcome:?}");
            device.free(from);
            device.free(to);
        }
    });
    assert_eq!(stage.0.violations(), []);
}

#[cfg(metal_sim)]
#[test]
fn host_memory_that_metal_does_not_wrap_is_not_memory_that_is_out() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    let pages = Pages::map();
    stage.0.refuse(Refusal::WrappedBuffer);
    // SAFETY: it is refused.
    let refused = unsafe { device.wrap(pages.first, PAGES) };
    assert!(
        matches!(&refused, Err(DeviceError::Driver { message, .. }) if message.contains("mmap")),
        "{refused:?}"
    );
    assert_all_freed(&device);
}

#[test]
fn wrapped_pages_count_and_have_to_fit() {
    let _stage = Stage::new();
    let capacity = PAGES - 1;
    let Some(device) = device_with(MetalOptions::default().capacity(capacity)) else {
        return;
    };
    let pages = Pages::map();
    // SAFETY: it is refused.
    let refused = unsafe { device.wrap(pages.first, PAGES) };
    assert!(
        matches!(refused, Err(DeviceError::OutOfMemory { .. })),
        "{refused:?}"
    );
    assert_all_freed(&device);
}

#[test]
fn whole_pages_of_the_host_are_wrapped_and_computed_on() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    let mapped = Pages::map();
    let pages = mapped.first;
    within(FOREVER, || {
        // SAFETY: the pages are freed after the memory, and nobody touches them while commands do.
        let memory = unsafe { device.wrap(pages, PAGES).unwrap() };
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

#[test]
fn what_the_device_takes_for_itself_is_told() {
    let Some(device) = device() else { return };
    assert_eq!(device.overhead(), Overhead::default());
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let [src, mut dst] = [1.0f32, 0.0].map(|value| {
        let mut buffer = stream.allocate(4 * LONG).unwrap();
        stream.upload(&mut buffer, &vec![value; LONG]).unwrap();
        buffer
    });
    stream.synchronize().unwrap();
    // Blocks through which bytes pass, if there are any: what both reach is written at once.
    let passing = device.overhead().memory;
    let op = Op::Sort(Sort {
        src: src.read(DType::F32, &[LONG]).unwrap(),
        values: dst.write(DType::F32, &[LONG]).unwrap(),
        indices: None,
        axis: 0,
        descending: false,
    });
    stream.encode(op).unwrap();
    stream.synchronize().unwrap();
    // Four stores as long as what is sorted, and little more.
    let scratch = device.overhead().memory - passing;
    assert!((16 * LONG..20 * LONG).contains(&scratch), "{scratch}");
    drop((src, dst));
    drop(pool);
    until("all is given back", || device.overhead().memory == 0);
}
