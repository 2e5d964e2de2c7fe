//! Breaches of the rules on objects and memory.

use std::ptr::NonNull;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::*;
use streampool_metal_sim::{Id, Rule, send};

use super::Breach;
use super::common::*;

pub const BREACHES: &[Breach] = &[
    (
        Rule::OverRelease,
        "a reference too many is released",
        |_, metal| {
            let buffer = Retained::into_raw(metal.buffer());
            // SAFETY: the first gives back the reference; the second is the breach, which the imitation bears.
            unsafe {
                objc2::ffi::objc_release(buffer.cast());
                objc2::ffi::objc_release(buffer.cast());
            }
        },
    ),
    (
        Rule::UseAfterFree,
        "a freed buffer is asked for its length",
        |_, metal| {
            let buffer = Id::from_ptr(&*metal.buffer());
            let _: usize = send!(buffer, "length");
        },
    ),
    (
        Rule::UseAfterFree,
        "a freed buffer is retained",
        |_, metal| {
            let buffer = Id::from_ptr(&*metal.buffer());
            buffer.retain();
        },
    ),
    (
        Rule::Pools,
        "a command buffer is made with no pool in place",
        |_, metal| {
            let queue = Id::from_ptr(&*metal.queue);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let commands: Id = send!(queue, "commandBuffer");
                    // The reference that no pool gives back.
                    commands.release();
                });
            });
        },
    ),
    (
        Rule::UnknownSelector,
        "a message that is not imitated",
        |_, metal| {
            let _: usize = send!(Id::from_ptr(&*metal.device), "locationNumber");
        },
    ),
    (
        Rule::FreedInFlight,
        "a buffer is freed before the commit",
        |_, metal| {
            let commands = metal.unretained();
            fill(&commands, &metal.buffer(), 1);
            finish(&commands);
        },
    ),
    (
        Rule::FreedInFlight,
        "a buffer is freed while it is in use",
        |_, metal| {
            let (event, buffer) = (metal.event(), metal.buffer());
            let commands = metal.unretained();
            commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 1);
            fill(&commands, &buffer, 1);
            commands.commit();
            drop(buffer);
            event.setSignaledValue(1);
            commands.waitUntilCompleted();
        },
    ),
    (
        Rule::FreedInFlight,
        "a pipeline is freed while it is in use",
        |_, metal| {
            let (event, buffer) = (metal.event(), metal.buffer());
            let commands = metal.unretained();
            commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 1);
            add(&commands, &metal.pipeline("add"), &buffer, 1.0);
            commands.commit();
            event.setSignaledValue(1);
            commands.waitUntilCompleted();
        },
    ),
    (
        Rule::FreedInFlight,
        "an event is freed while it is in use",
        |_, metal| {
            let commands = metal.unretained();
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*metal.event()), 1);
            finish(&commands);
        },
    ),
    (Rule::BufferLength, "a buffer without bytes", |_, metal| {
        assert!(
            metal
                .device
                .newBufferWithLength_options(0, MTLResourceOptions::StorageModeShared)
                .is_none()
        );
    }),
    (
        Rule::BufferLength,
        "a buffer longer than any",
        |_, metal| {
            let length = metal.device.maxBufferLength() + 1;
            assert!(
                metal
                    .device
                    .newBufferWithLength_options(length, MTLResourceOptions::StorageModeShared)
                    .is_none()
            );
        },
    ),
    (
        Rule::Contents,
        "the contents of a private buffer",
        |_, metal| {
            let buffer = metal
                .device
                .newBufferWithLength_options(16, MTLResourceOptions::StorageModePrivate);
            buffer.expect("memory").contents();
        },
    ),
    (
        Rule::PageAligned,
        "memory that begins within a page",
        |_, metal| {
            let memory = vec![0u8; 3 << 14];
            let within =
                NonNull::from(&memory[(1 << 14) - memory.as_ptr() as usize % (1 << 14) + 4]).cast();
            // SAFETY: it is refused.
            let buffer = unsafe {
                metal
                    .device
                    .newBufferWithBytesNoCopy_length_options_deallocator(
                        within,
                        1 << 14,
                        MTLResourceOptions::StorageModeShared,
                        None,
                    )
            };
            assert!(buffer.is_none());
        },
    ),
    (
        Rule::PageAligned,
        "memory in pages that are too small",
        |_, metal| {
            const SMALL: usize = 1 << 12;
            let memory = vec![0u8; 3 << 14];
            let whole = (1 << 14) - memory.as_ptr() as usize % (1 << 14);
            let adopt = |start: usize, length| {
                // SAFETY: it is refused.
                unsafe {
                    metal
                        .device
                        .newBufferWithBytesNoCopy_length_options_deallocator(
                            NonNull::from(&memory[start]).cast(),
                            length,
                            MTLResourceOptions::StorageModeShared,
                            None,
                        )
                }
            };
            assert!(adopt(whole + SMALL, 1 << 14).is_none());
            assert!(adopt(whole, SMALL).is_none());
        },
    ),
    (
        Rule::Residency,
        "a set is used with changes that are not committed",
        |_, metal| {
            let set = metal.residency_set();
            set.addAllocation(ProtocolObject::from_ref(&*metal.buffer()));
            set.requestResidency();
        },
    ),
    (
        Rule::ResidencyChanged,
        "a set that is kept resident changes while the GPU works",
        |sim, metal| {
            let set = metal.residency_set();
            set.requestResidency();
            sim.pause();
            let commands = metal.commands();
            commands.commit();
            set.addAllocation(ProtocolObject::from_ref(&*metal.buffer()));
            set.commit();
            sim.resume();
            commands.waitUntilCompleted();
        },
    ),
    (
        Rule::Residency,
        "the address of a buffer that is not resident",
        |_, metal| {
            metal.buffer().gpuAddress();
        },
    ),
];
