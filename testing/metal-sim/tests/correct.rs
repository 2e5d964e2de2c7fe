//! Correct use passes: no rule is broken, results are right, and no object is left.
#![cfg(metal_sim)]

mod common;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use block2::RcBlock;
use common::*;
use objc2::msg_send;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::*;
use streampool_metal_sim::{measure_time_inside, time_inside};

#[test]
fn a_fill_is_seen_after_the_wait() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let buffer = metal.buffer();
        let commands = metal.commands();
        fill(&commands, &buffer, 0);
        finish(&commands);
        assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        assert!(commands.error().is_none());
        assert_eq!(floats(&buffer), vec![0.0; FLOATS]);
    });
}

#[test]
fn kernels_run_in_order_on_what_they_share() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let (pipeline, sum) = (metal.pipeline("add"), metal.pipeline("sum"));
        let (buffer, total) = (metal.filled(1.0), metal.buffer());
        let commands = metal.commands();
        add(&commands, &pipeline, &buffer, 2.0);
        add(&commands, &pipeline, &buffer, 3.0);
        let encoder = compute(&commands);
        encoder.setComputePipelineState(&sum);
        // SAFETY: what the kernel declares.
        unsafe {
            encoder.setBuffer_offset_atIndex(Some(&buffer), 0, 0);
            encoder.setBuffer_offset_atIndex(Some(&total), 8, 1);
            encoder.setThreadgroupMemoryLength_atIndex(BYTES, 0);
        }
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(FLOATS));
        encoder.endEncoding();
        finish(&commands);
        assert_eq!(floats(&total)[2], 6.0 * FLOATS as f32);
    });
}

#[test]
fn a_retained_buffer_may_be_dropped_once_it_is_encoded() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let (pipeline, copied) = (metal.pipeline("add"), metal.buffer());
        let commands = metal.commands();
        {
            let buffer = metal.filled(1.0);
            add(&commands, &pipeline, &buffer, 1.0);
            let encoder = commands.blitCommandEncoder().expect("an encoder");
            // SAFETY: both are as long.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &buffer, 0, &copied, 0, BYTES,
                );
            }
            encoder.endEncoding();
        }
        drop(pipeline);
        finish(&commands);
        assert_eq!(floats(&copied), vec![2.0; FLOATS]);
    });
}

#[test]
fn handlers_are_called_before_the_wait_ends() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let called = Arc::new(AtomicUsize::new(0));
        let commands = metal.commands();
        for _ in 0..2 {
            let called = Arc::clone(&called);
            let block = RcBlock::new(
                move |commands: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
                    // SAFETY: Metal passes the command buffer, which lives.
                    let status = unsafe { commands.as_ref() }.status();
                    called.fetch_add(
                        usize::from(status == MTLCommandBufferStatus::Completed),
                        Ordering::SeqCst,
                    );
                },
            );
            // SAFETY: the block takes what a handler takes.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&block)) };
        }
        finish(&commands);
        assert_eq!(called.load(Ordering::SeqCst), 2);
        // SAFETY: both return seconds.
        let (begin, end): (f64, f64) = unsafe {
            (
                msg_send![&*commands, GPUStartTime],
                msg_send![&*commands, GPUEndTime],
            )
        };
        assert!(0.0 < begin && begin <= end);
    });
}

#[test]
fn an_event_orders_queues() {
    let sim = Sim::strict();
    sim.delay(Duration::from_millis(2));
    with_metal(|metal| {
        let (pipeline, buffer, event) = (metal.pipeline("add"), metal.untracked(), metal.event());
        let other = metal
            .device
            .newCommandQueueWithMaxCommandBufferCount(8)
            .expect("a queue");
        for round in 1..=20u64 {
            let first = metal.commands();
            add(&first, &pipeline, &buffer, 1.0);
            first.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 2 * round);
            let second = other.commandBuffer().expect("a command buffer");
            second.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 2 * round);
            add(&second, &pipeline, &buffer, 1.0);
            second.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 2 * round + 1);
            // The one that waits may well be committed first.
            second.commit();
            first.commit();
            assert!(event.waitUntilSignaledValue_timeoutMS(2 * round + 1, 60_000));
            assert_eq!(floats(&buffer)[0], 2.0 * round as f32);
        }
    });
}

/// Two kernels of one queue in two command buffers: how often the second ran first, in so many tries.
fn overtakings(metal: &Metal, options: MTLResourceOptions, tries: usize) -> usize {
    let pipeline = metal.pipeline("add");
    let buffer = metal
        .device
        .newBufferWithLength_options(BYTES, options)
        .expect("a buffer");
    let event = metal.event();
    (0..tries as u64)
        .filter(|round| {
            let first = metal.commands();
            first.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), round + 1);
            fill(&first, &buffer, 0);
            let second = metal.commands();
            add(&second, &pipeline, &buffer, 1.0);
            first.commit();
            second.commit();
            event.setSignaledValue(round + 1);
            second.waitUntilCompleted();
            floats(&buffer)[0] != 1.0
        })
        .count()
}

#[test]
fn hazards_are_tracked_unless_asked_not_to() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        assert_eq!(
            overtakings(metal, MTLResourceOptions::StorageModeShared, 100),
            0
        );
        let untracked =
            MTLResourceOptions::StorageModeShared | MTLResourceOptions::HazardTrackingModeUntracked;
        assert_ne!(overtakings(metal, untracked, 100), 0);
    });
}

/// Two dispatches of one concurrent encoder: how often the second ran first.
fn concurrent_overtakings(metal: &Metal, with_barrier: bool, tries: usize) -> usize {
    let (pipeline, sum) = (metal.pipeline("add"), metal.pipeline("sum"));
    let tries = (0..tries).filter(|_| {
        autoreleasepool(|_| {
            let (buffer, total) = (metal.filled(0.0), metal.buffer());
            let commands = metal.commands();
            let encoder = commands
                .computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent)
                .expect("an encoder");
            // SAFETY: what the kernels declare.
            unsafe {
                encoder.setBuffer_offset_atIndex(Some(&buffer), 0, 0);
                encoder.setBytes_length_atIndex(NonNull::from(&1f32).cast(), 4, 1);
                encoder.setComputePipelineState(&pipeline);
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(4), size(64));
                if with_barrier {
                    encoder.memoryBarrierWithScope(MTLBarrierScope::Buffers);
                }
                encoder.setBuffer_offset_atIndex(Some(&total), 0, 1);
                encoder.setThreadgroupMemoryLength_atIndex(BYTES, 0);
                encoder.setComputePipelineState(&sum);
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(FLOATS));
            }
            encoder.endEncoding();
            finish(&commands);
            floats(&total)[0] != FLOATS as f32
        })
    });
    tries.count()
}

#[test]
fn concurrent_dispatches_need_a_barrier() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        assert_eq!(concurrent_overtakings(metal, true, 50), 0);
        assert_ne!(concurrent_overtakings(metal, false, 50), 0);
    });
}

#[test]
fn host_memory_is_used_in_place_and_given_back() {
    const PAGES: usize = 1 << 14;
    #[repr(align(16384))]
    struct Pages([u8; PAGES]);
    let _sim = Sim::strict();
    let given_back = Arc::new(AtomicUsize::new(0));
    with_metal(|metal| {
        let memory = Box::into_raw(Box::new(Pages([1; PAGES])));
        let told = Arc::clone(&given_back);
        let deallocator = RcBlock::new(move |address: NonNull<std::ffi::c_void>, length: usize| {
            told.fetch_add(length, Ordering::SeqCst);
            // SAFETY: this is the memory that was lent, and it is lent no more.
            drop(unsafe { Box::from_raw(address.as_ptr().cast::<Pages>()) });
        });
        let address = NonNull::new(memory).expect("a box").cast();
        // SAFETY: the memory is there until the deallocator is called.
        let buffer = unsafe {
            metal
                .device
                .newBufferWithBytesNoCopy_length_options_deallocator(
                    address,
                    PAGES,
                    MTLResourceOptions::StorageModeShared,
                    Some(&deallocator),
                )
        };
        let buffer = buffer.expect("a buffer");
        assert_eq!(buffer.contents(), address);
        let commands = metal.commands();
        fill(&commands, &buffer, 7);
        finish(&commands);
        // SAFETY: the fill has ended.
        assert_eq!(unsafe { (&(*memory).0)[..3].to_vec() }, [7; 3]);
    });
    assert_eq!(given_back.load(Ordering::SeqCst), PAGES);
}

#[test]
fn an_archive_remembers_functions() {
    let _sim = Sim::strict();
    let folder = std::env::temp_dir().join(format!("streampool-archive-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("archive");
    with_metal(|metal| {
        let library = metal
            .device
            .newLibraryWithSource_options_error(&NSString::from_str(TEXT), None)
            .expect("a library");
        assert_eq!(library.functionNames().count(), 2);
        let function = library
            .newFunctionWithName(&NSString::from_str("add"))
            .expect("a function");
        let pipeline = MTLComputePipelineDescriptor::new();
        pipeline.setComputeFunction(Some(&function));
        let made = |option| {
            metal
                .device
                .newComputePipelineStateWithDescriptor_options_reflection_error(
                    &pipeline, option, None,
                )
        };
        let archive = |url: Option<&NSURL>| {
            let descriptor = MTLBinaryArchiveDescriptor::new();
            descriptor.setUrl(url);
            metal
                .device
                .newBinaryArchiveWithDescriptor_error(&descriptor)
        };
        let url = NSURL::fileURLWithPath(&NSString::from_str(file.to_str().expect("a path")));
        assert!(archive(Some(&url)).is_err(), "there is no file yet");

        let first = archive(None).expect("an empty archive");
        pipeline.setBinaryArchives(Some(&NSArray::from_retained_slice(std::slice::from_ref(
            &first,
        ))));
        assert!(made(MTLPipelineOption::FailOnBinaryArchiveMiss).is_err());
        assert!(made(MTLPipelineOption::empty()).is_ok());
        first
            .addComputePipelineFunctionsWithDescriptor_error(&pipeline)
            .expect("it is added");
        first.serializeToURL_error(&url).expect("it is written");

        let second = archive(Some(&url)).expect("the archive from the file");
        pipeline.setBinaryArchives(Some(&NSArray::from_retained_slice(&[second])));
        assert!(made(MTLPipelineOption::FailOnBinaryArchiveMiss).is_ok());

        std::fs::write(&file, "something else").expect("a file");
        assert_eq!(archive(Some(&url)).expect_err("no archive").code(), 1);
    });
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_residency_set_keeps_what_it_holds() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let set = metal.residency_set();
        metal.queue.addResidencySet(&set);
        let buffer = metal.buffer();
        set.addAllocation(ProtocolObject::from_ref(&*buffer));
        set.commit();
        set.requestResidency();
        assert_ne!(buffer.gpuAddress(), 0);
        drop(buffer);
        assert!(sim.live_objects().contains_key("_Imitation_Buffer"));
    });
}

#[test]
fn a_set_that_nothing_keeps_resident_may_change_while_the_gpu_works() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let set = metal.residency_set();
        metal.queue.addResidencySet(&set);
        set.requestResidency();
        set.endResidency();
        sim.pause();
        let commands = metal.commands();
        commands.commit();
        set.addAllocation(ProtocolObject::from_ref(&*metal.buffer()));
        set.commit();
        assert_eq!(sim.resident(), 1);
        sim.resume();
        commands.waitUntilCompleted();
    });
}

#[test]
fn memory_is_counted_and_ends() {
    let sim = Sim::strict();
    sim.capacity(40 << 10);
    with_metal(|metal| {
        let first = metal.buffer();
        assert_eq!(metal.device.currentAllocatedSize(), 16 << 10);
        let second = metal.buffer();
        let shared = MTLResourceOptions::StorageModeShared;
        assert!(
            metal
                .device
                .newBufferWithLength_options(BYTES, shared)
                .is_none()
        );
        drop((first, second));
        assert_eq!(metal.device.currentAllocatedSize(), 0);
        assert!(
            metal
                .device
                .newBufferWithLength_options(BYTES, shared)
                .is_some()
        );
    });
}

#[test]
fn time_inside_is_part_of_the_time_of_a_call() {
    let _sim = Sim::strict();
    measure_time_inside(true);
    let before = std::time::Instant::now();
    let inside_before = time_inside();
    with_metal(|metal| finish(&metal.commands()));
    let inside = time_inside() - inside_before;
    measure_time_inside(false);
    assert!(inside > Duration::ZERO && inside <= before.elapsed());
}

/// What one of many threads does: kernels, fills and copies on a queue of its own, without retained references.
fn mixed_work(metal: &Metal, pipeline: &Pipeline, seed: usize, rounds: usize) {
    let queue = metal
        .device
        .newCommandQueueWithMaxCommandBufferCount(4)
        .expect("a queue");
    let (buffer, copy, event) = (metal.filled(0.0), metal.buffer(), metal.event());
    let mut expected = 0.0;
    for round in 0..rounds {
        autoreleasepool(|_| {
            let commands = queue
                .commandBufferWithUnretainedReferences()
                .expect("a command buffer");
            if (round + seed).is_multiple_of(7) {
                fill(&commands, &buffer, 0);
                expected = 0.0;
            }
            add(&commands, pipeline, &buffer, seed as f32);
            expected += seed as f32;
            let encoder = commands.blitCommandEncoder().expect("an encoder");
            // SAFETY: both are as long.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &buffer, 0, &copy, 0, BYTES,
                );
            }
            encoder.endEncoding();
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), round as u64 + 1);
            commands.commit();
            if round % 5 == 4 {
                assert!(event.waitUntilSignaledValue_timeoutMS(round as u64 + 1, 60_000));
                assert_eq!(floats(&copy), vec![expected; FLOATS]);
            }
            if round + 1 == rounds {
                commands.waitUntilCompleted();
            }
        });
    }
}

#[test]
fn many_threads_break_no_rule() {
    let rounds = if cfg!(any(sanitize_thread, sanitize_address)) {
        20
    } else {
        200
    };
    let sim = Sim::recording();
    sim.seed(7);
    with_metal(|metal| {
        let pipeline = metal.pipeline("add");
        std::thread::scope(|scope| {
            for seed in 0..31 {
                let (metal, pipeline) = (&*metal, &pipeline);
                scope.spawn(move || autoreleasepool(|_| mixed_work(metal, pipeline, seed, rounds)));
            }
        });
    });
    assert_eq!(sim.violations(), []);
    assert!(sim.live_objects().is_empty());
}
