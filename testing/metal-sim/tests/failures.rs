//! What a test asks to go wrong goes wrong.
#![cfg(metal_sim)]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::*;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::*;
use streampool_metal_sim::{Refusal, fail_next, fail_next_somewhere};

fn assert_failed(commands: &Commands, code: isize) {
    commands.waitUntilCompleted();
    assert_eq!(commands.status(), MTLCommandBufferStatus::Error);
    let error = commands.error().expect("an error");
    assert_eq!(
        (error.domain().to_string().as_str(), error.code()),
        ("MTLCommandBufferErrorDomain", code)
    );
}

/// A queue that faults are asked for by this name.
fn queue_of_mine(metal: &Metal) -> Queue {
    let queue = metal.device.newCommandQueue().expect("a queue");
    queue.setLabel(Some(&NSString::from_str("mine")));
    queue
}

#[test]
fn the_next_command_buffer_of_a_queue_fails() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let mine = queue_of_mine(metal);
        let event = metal.event();
        fail_next("mine", 3);
        fail_next("of another", 3);
        let (first, second) = (mine.commandBuffer().expect("one"), metal.commands());
        first.commit();
        second.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 1);
        finish(&second);
        assert_failed(&first, 3);
        assert_eq!(second.status(), MTLCommandBufferStatus::Completed);
        assert_eq!(event.signaledValue(), 1);
    });
}

#[test]
fn a_queue_stays_in_error_and_a_new_one_does_not() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let (buffer, pipeline) = (metal.filled(0.0), metal.pipeline("add"));
        let mine = queue_of_mine(metal);
        fail_next("mine", 2);
        for _ in 0..3 {
            let commands = mine.commandBuffer().expect("one");
            add(&commands, &pipeline, &buffer, 1.0);
            commands.commit();
            assert_failed(&commands, 2);
        }
        assert_eq!(floats(&buffer)[0], 0.0, "nothing was executed");
        let commands = queue_of_mine(metal).commandBuffer().expect("one");
        add(&commands, &pipeline, &buffer, 1.0);
        finish(&commands);
        assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        assert_eq!(floats(&buffer)[0], 1.0);
    });
}

#[test]
fn a_failure_may_come_anywhere() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        let (buffer, pipeline) = (metal.filled(0.0), metal.pipeline("add"));
        for _ in 0..20 {
            fail_next_somewhere("mine", 3);
            let commands = queue_of_mine(metal).commandBuffer().expect("one");
            (0..4).for_each(|_| add(&commands, &pipeline, &buffer, 1.0));
            commands.commit();
            assert_failed(&commands, 3);
        }
        let executed = floats(&buffer)[0];
        assert!(
            0.0 < executed && executed < 80.0,
            "{executed} of 80 executed"
        );
    });
}

#[test]
fn a_lost_device_fails_all_that_follows() {
    let sim = Sim::strict();
    with_metal(|metal| {
        finish(&metal.commands());
        sim.lose_device();
        for _ in 0..2 {
            let commands = metal.commands();
            commands.commit();
            assert_failed(&commands, 11);
        }
    });
}

#[test]
fn a_lost_device_ends_waits() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let (event, commands) = (metal.event(), metal.commands());
        commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 1);
        commands.commit();
        sim.lose_device();
        assert_failed(&commands, 11);
    });
}

#[test]
fn a_wait_that_never_ends_times_out() {
    let sim = Sim::strict();
    sim.event_limit(Duration::from_millis(5));
    with_metal(|metal| {
        let (event, commands) = (metal.event(), metal.commands());
        commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*event), 1);
        commands.commit();
        assert_failed(&commands, 2);
        assert!(!event.waitUntilSignaledValue_timeoutMS(1, 1));
    });
}

#[test]
fn a_wait_for_an_event_and_a_hazard_may_hold_each_other_up() {
    let sim = Sim::strict();
    sim.event_limit(Duration::from_millis(5));
    with_metal(|metal| {
        let (pipeline, buffer, event) = (metal.pipeline("add"), metal.filled(0.0), metal.event());
        let signal: &ProtocolObject<dyn MTLEvent> = ProtocolObject::from_ref(&*event);
        let mut outcomes = BTreeSet::new();
        for round in 1.. {
            // A new one each time: a queue stays in error.
            let other = metal.device.newCommandQueue().expect("a queue");
            let waiting = other.commandBuffer().expect("a command buffer");
            waiting.encodeWaitForEvent_value(signal, round);
            add(&waiting, &pipeline, &buffer, 1.0);
            let signalling = metal.commands();
            add(&signalling, &pipeline, &buffer, 1.0);
            signalling.encodeSignalEvent_value(signal, round);
            // Both wait for the GPU, which takes them in an order of its own.
            sim.pause();
            waiting.commit();
            signalling.commit();
            sim.resume();
            waiting.waitUntilCompleted();
            signalling.waitUntilCompleted();
            assert_eq!(signalling.status(), MTLCommandBufferStatus::Completed);
            outcomes.insert(waiting.status().0);
            if outcomes.len() == 2 {
                assert!(outcomes.contains(&MTLCommandBufferStatus::Error.0));
                return;
            }
            assert!(round < 1000, "always {outcomes:?}");
        }
    });
}

#[test]
fn a_watchdog_kills_what_has_too_many_threads() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let (pipeline, buffer) = (metal.pipeline("add"), metal.filled(0.0));
        sim.watchdog(2 * FLOATS as u64);
        for (times, killed) in [(2, false), (3, true)] {
            let commands = metal.commands();
            for _ in 0..times {
                add(&commands, &pipeline, &buffer, 1.0);
            }
            commands.commit();
            if killed {
                assert_failed(&commands, 14);
            } else {
                commands.waitUntilCompleted();
                assert_eq!(floats(&buffer)[0], 2.0);
            }
        }
        sim.skip_kernels();
        let anew = metal.device.newCommandQueue().expect("a queue");
        let commands = anew.commandBuffer().expect("a command buffer");
        fill(&commands, &buffer, 0);
        add(&commands, &pipeline, &buffer, 1.0);
        commands.commit();
        commands.waitUntilCompleted();
        assert_eq!(floats(&buffer)[0], 0.0);
    });
}

#[test]
fn a_queue_that_is_held_begins_nothing() {
    let sim = Sim::strict();
    with_metal(|metal| {
        metal.queue.setLabel(Some(&NSString::from_str("held")));
        let (buffer, event) = (metal.filled(0.0), metal.event());
        sim.hold(Some("held"));
        let (commands, other) = (metal.commands(), metal.device.newCommandQueue());
        commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 1);
        commands.commit();
        let free = other.expect("a queue").commandBuffer();
        let free = free.expect("a command buffer");
        fill(&free, &buffer, 1);
        free.commit();
        free.waitUntilCompleted();
        assert!(!event.waitUntilSignaledValue_timeoutMS(1, 5));
        sim.hold(None);
        assert!(event.waitUntilSignaledValue_timeoutMS(1, 60_000));
    });
}

#[test]
fn a_text_that_does_not_compile_says_why() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let compile = |text: &str| {
            metal
                .device
                .newLibraryWithSource_options_error(&NSString::from_str(text), None)
        };
        let wrong = compile("kernel void f(device float* a [[buffer(0)]]) { a[0] = nonsense; }")
            .expect_err("an error");
        assert!(
            wrong
                .localizedDescription()
                .to_string()
                .contains("nonsense")
        );
        sim.fail_compile("out of patience");
        let refused = compile(TEXT).expect_err("an error");
        assert_eq!(
            (
                refused.code(),
                refused.localizedDescription().to_string().as_str()
            ),
            (3, "out of patience")
        );
        assert!(compile(TEXT).is_ok());
    });
}

#[test]
fn memory_may_be_apart() {
    let sim = Sim::strict();
    with_metal(|metal| {
        assert!(metal.device.hasUnifiedMemory());
        sim.unified(false);
        assert!(!metal.device.hasUnifiedMemory());
    });
}

#[test]
fn a_call_returns_nil_once_where_that_was_asked_for() {
    let sim = Sim::strict();
    with_metal(|metal| {
        for _ in 0..2 {
            sim.refuse(Refusal::Queue);
            sim.refuse(Refusal::CommandBuffer);
            sim.refuse(Refusal::Encoder);
            sim.refuse(Refusal::Event);
            assert!(metal.device.newCommandQueue().is_none());
            assert!(metal.queue.commandBuffer().is_none());
            let commands = metal.unretained();
            assert!(commands.computeCommandEncoder().is_none());
            sim.refuse(Refusal::Encoder);
            assert!(commands.blitCommandEncoder().is_none());
            assert!(metal.device.newSharedEvent().is_none());
            assert!(metal.device.newCommandQueue().is_some());
            assert!(metal.device.newSharedEvent().is_some());
            compute(&commands).endEncoding();
            finish(&commands);
            assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        }
    });
}

#[test]
fn a_gpu_that_is_paused_begins_nothing() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let event = metal.event();
        sim.pause();
        let commands = metal.commands();
        commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 1);
        commands.commit();
        assert!(!event.waitUntilSignaledValue_timeoutMS(1, 20));
        sim.resume();
        commands.waitUntilCompleted();
        assert_eq!(event.signaledValue(), 1);
    });
}

#[test]
fn what_is_in_flight_when_the_gpu_is_set_up_anew_fails_as_a_victim() {
    let sim = Sim::strict();
    sim.victims();
    with_metal(|metal| {
        let mine = queue_of_mine(metal);
        let other = metal.device.newCommandQueue().expect("a queue");
        let event = metal.event();
        let raise = ProtocolObject::from_ref(&*event);
        fail_next("mine", 3);
        let of = |queue: &Queue| queue.commandBuffer().expect("one");
        let (guilty, victim) = (of(&mine), of(&other));
        victim.encodeWaitForEvent_value(raise, 1);
        victim.commit();
        guilty.commit();
        assert_failed(&guilty, 3);
        event.setSignaledValue(1);
        assert_failed(&victim, 5);
        let next = metal.commands();
        finish(&next);
        assert_eq!(next.status(), MTLCommandBufferStatus::Completed);
    });
}

#[test]
fn buffers_in_residency_sets_are_counted() {
    let sim = Sim::strict();
    with_metal(|metal| {
        let set = metal.residency_set();
        let buffer = metal.buffer();
        set.addAllocation(ProtocolObject::from_ref(&*buffer));
        assert_eq!(sim.resident(), 0, "not before it is committed");
        set.commit();
        assert_eq!(sim.resident(), 1);
        set.removeAllocation(ProtocolObject::from_ref(&*buffer));
        set.commit();
        assert_eq!(sim.resident(), 0);
    });
}
