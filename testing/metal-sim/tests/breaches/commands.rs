//! Breaches of the rules on command buffers, encoders and events.

use std::ptr::NonNull;
use std::time::Duration;

use block2::RcBlock;
use objc2::runtime::ProtocolObject;
use objc2_metal::*;
use streampool_metal_sim::{Id, Rule, send};

use super::Breach;
use super::common::*;

pub const BREACHES: &[Breach] = &[
    (
        Rule::OneEncoder,
        "a second encoder while one is open",
        |_, metal| {
            let commands = metal.commands();
            let encoder = compute(&commands);
            assert!(commands.blitCommandEncoder().is_none());
            encoder.endEncoding();
        },
    ),
    (
        Rule::OneEncoder,
        "a signal while an encoder is open",
        |_, metal| {
            let commands = metal.commands();
            let encoder = compute(&commands);
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*metal.event()), 1);
            encoder.endEncoding();
        },
    ),
    (Rule::OneThread, "two threads encode at once", |_, metal| {
        let encoder = compute(&metal.commands());
        let shared = Id::from_ptr(&*encoder);
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for index in 0..2usize {
                let both = &both;
                scope.spawn(move || {
                    both.wait();
                    for _ in 0..2_000 {
                        let _: () = send!(
                            shared,
                            "setThreadgroupMemoryLength:atIndex:",
                            16usize,
                            index
                        );
                    }
                });
            }
        });
        encoder.endEncoding();
    }),
    (
        Rule::EndEncoding,
        "a commit with an open encoder",
        |_, metal| {
            let commands = metal.commands();
            let _encoder = compute(&commands);
            commands.commit();
            commands.waitUntilCompleted();
        },
    ),
    (
        Rule::EndEncoding,
        "an encoder is ended twice",
        |_, metal| {
            let commands = metal.commands();
            let encoder = compute(&commands);
            encoder.endEncoding();
            encoder.endEncoding();
        },
    ),
    (
        Rule::EndEncoding,
        "an encoder is released without being ended",
        |_, metal| {
            objc2::rc::autoreleasepool(|_| drop(compute(&metal.commands())));
        },
    ),
    (
        Rule::EncodeAfterEnd,
        "a dispatch on an ended encoder",
        |_, metal| {
            let encoder = compute(&metal.commands());
            encoder.endEncoding();
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        },
    ),
    (
        Rule::EncodeAfterCommit,
        "an encoder of a committed command buffer",
        |_, metal| {
            let commands = metal.commands();
            commands.commit();
            assert!(commands.computeCommandEncoder().is_none());
        },
    ),
    (
        Rule::EncodeAfterCommit,
        "a wait on a committed command buffer",
        |_, metal| {
            let commands = metal.commands();
            finish(&commands);
            commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*metal.event()), 1);
        },
    ),
    (
        Rule::OneEncoder,
        "a handler while an encoder is open",
        |_, metal| {
            let commands = metal.commands();
            let encoder = compute(&commands);
            add_handler(&commands, |_| {});
            encoder.endEncoding();
        },
    ),
    (
        Rule::HandlerAfterCommit,
        "a handler for a committed command buffer",
        |_, metal| {
            let commands = metal.commands();
            finish(&commands);
            add_handler(&commands, |_| {});
        },
    ),
    (Rule::CommitOnce, "a second commit", |_, metal| {
        let commands = metal.commands();
        commands.commit();
        commands.commit();
    }),
    (
        Rule::WaitNeedsCommit,
        "a wait for what is not committed",
        |_, metal| {
            metal.commands().waitUntilCompleted();
        },
    ),
    (
        Rule::WaitNeedsCommit,
        "a handler waits for its own command buffer",
        |_, metal| {
            let commands = metal.commands();
            add_handler(&commands, |commands| commands.waitUntilCompleted());
            finish(&commands);
        },
    ),
    (
        Rule::BuffersInFlight,
        "more command buffers than the queue can hold",
        |sim, metal| {
            sim.longest_wait(Duration::from_millis(10));
            let all: Vec<_> = (0..9).map(|_| metal.commands()).collect();
            assert_eq!(all.len(), 9);
        },
    ),
    (
        Rule::DeviceInFlight,
        "more command buffers than the driver bears",
        |sim, metal| {
            sim.most_in_flight(1);
            let event = metal.event();
            let waiting = metal.commands();
            waiting.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 1);
            waiting.commit();
            metal.commands().commit();
            event.setSignaledValue(1);
            waiting.waitUntilCompleted();
        },
    ),
    (
        Rule::EncoderRace,
        "two threads make encoders at once",
        |sim, metal| {
            sim.racing_encoders();
            let queue = Id::from_ptr(&*metal.queue);
            let both = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let both = &both;
                    scope.spawn(move || {
                        for _ in 0..500 {
                            both.wait();
                            objc2::rc::autoreleasepool(|_| {
                                let commands: Id = send!(queue, "commandBuffer");
                                let encoder: Id = send!(commands, "blitCommandEncoder");
                                let _: () = send!(encoder, "endEncoding");
                            });
                        }
                    });
                }
            });
        },
    ),
    (
        Rule::EncoderRace,
        "two threads end encoders at once",
        |sim, metal| {
            const EACH: usize = 500;
            let queue = metal
                .device
                .newCommandQueueWithMaxCommandBufferCount(2 * EACH);
            let queue = queue.expect("a queue");
            let commands: Vec<_> = (0..2 * EACH)
                .map(|_| queue.commandBuffer().expect("a command buffer"))
                .collect();
            let encoders: Vec<_> = commands.iter().map(compute).collect();
            sim.racing_encoders();
            let both = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for half in encoders.chunks(EACH) {
                    let half: Vec<Id> = half.iter().map(|one| Id::from_ptr(&**one)).collect();
                    let both = &both;
                    scope.spawn(move || {
                        for encoder in half {
                            both.wait();
                            let _: () = send!(encoder, "endEncoding");
                        }
                    });
                }
            });
        },
    ),
    (
        Rule::EventRises,
        "an event is set to what it is",
        |_, metal| {
            let event = metal.event();
            event.setSignaledValue(4);
            event.setSignaledValue(4);
        },
    ),
    (
        Rule::EventRises,
        "the GPU sets an event back",
        |_, metal| {
            let event = metal.event();
            event.setSignaledValue(4);
            let commands = metal.commands();
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 3);
            finish(&commands);
        },
    ),
];

fn add_handler(
    commands: &Commands,
    handler: impl Fn(&ProtocolObject<dyn MTLCommandBuffer>) + 'static,
) {
    let block = RcBlock::new(
        move |commands: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            // SAFETY: Metal passes the command buffer, which lives.
            handler(unsafe { commands.as_ref() });
        },
    );
    // SAFETY: the block takes what a handler takes.
    unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&block)) };
}
