//! Threads that use an encoder which another gives up: the imitation driver crashes without agx-fix.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_metal_sim::{Id, live_objects, send};

use crate::common::driver::{self, Dispatched};
use crate::common::{assert_aborted, assert_ended_well, run};
use crate::wrap;

/// So many encoders that are given up are kept at most.
const MOST_KEPT: u64 = 64;

const TRIES: usize = if cfg!(sanitize_thread) { 2_000 } else { 10_000 };

/// In every try two threads have looked up a method of an encoder when a third ends it, or not, and gives it up.
pub fn race(device: Id) {
    let commands = driver::command_buffer(device);
    device.release();
    let (begun, ended) = (Barrier::new(3), Barrier::new(3));
    let (shared, dispatched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in [1, 2] {
            let (shared, dispatched, begun, ended) = (&shared, &dispatched, &begun, &ended);
            scope.spawn(move || {
                for number in 0..TRIES {
                    begun.wait();
                    let encoder = Id::from_ptr(shared.load(Ordering::SeqCst) as *const ());
                    let message = Dispatched::encode(encoder);
                    dispatched.fetch_add(1, Ordering::SeqCst);
                    linger(number * caller + number / 6);
                    message.run();
                    ended.wait();
                }
            });
        }
        for number in 0..TRIES {
            let encoder = driver::encoder(commands, "computeCommandEncoder");
            shared.store(encoder.as_ptr::<()>() as usize, Ordering::SeqCst);
            dispatched.store(0, Ordering::SeqCst);
            begun.wait();
            while dispatched.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            // At any time before, within and after the calls.
            linger(number);
            if number % 2 == 0 {
                let _: () = send!(encoder, "endEncoding");
            }
            encoder.release();
            ended.wait();
        }
    });
    commands.release();
}

/// A while that is not the same from try to try. Where there are few processors, others get one.
fn linger(number: usize) {
    (0..number * 7919 % 1000).for_each(|_| std::hint::spin_loop());
    (0..number / 2 % 3).for_each(|_| std::thread::yield_now());
}

pub fn race_guarded() {
    race(wrap());
    let read = agx_fix::statistics();
    let tries = TRIES as u64;
    assert_eq!((read.created, read.ended), (tries, tries / 2));
    assert_eq!(read.kept, tries / 2, "those that are ended");
    let kept_now = tries - read.destroyed;
    assert!((1..=MOST_KEPT).contains(&kept_now), "{read}");
    let refused = read.after_end + read.after_destruction;
    // Each is created by a call on the command buffer.
    assert_eq!(read.calls + refused, 3 * tries + tries / 2, "{read}");
    assert!(
        read.deferred > 0 && read.after_end > 0 && read.after_destruction > 0,
        "{read}"
    );
    assert_eq!(
        (
            read.unannounced,
            read.given_up,
            read.too_deep,
            read.abandoned
        ),
        (0, 0, 0, 0)
    );
    let alive = live_objects().get("ImitationComputeEncoder").copied();
    assert_eq!(alive.map(|alive| alive as u64), Some(kept_now));
    assert_eq!(agx_fix::check().displaced, [""; 0]);
}

/// Of two threads that use an encoder, one ends it and gives it up between two calls of the other, as in pytorch#197836.
pub fn between(device: Id) {
    let commands = driver::command_buffer(device);
    device.release();
    let turn = Barrier::new(2);
    let shared = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TRIES {
                turn.wait();
                let encoder = Id::from_ptr(shared.load(Ordering::SeqCst) as *const ());
                driver::encode(encoder);
                turn.wait();
                turn.wait();
                // The message is sent when the encoder has been given up.
                Dispatched::encode(encoder).run();
                turn.wait();
            }
        });
        for _ in 0..TRIES {
            let encoder = driver::encoder(commands, "computeCommandEncoder");
            shared.store(encoder.as_ptr::<()>() as usize, Ordering::SeqCst);
            turn.wait();
            turn.wait();
            let _: () = send!(encoder, "endEncoding");
            encoder.release();
            turn.wait();
            turn.wait();
        }
    });
    commands.release();
}

pub fn between_guarded() {
    between(wrap());
    let read = agx_fix::statistics();
    let tries = TRIES as u64;
    assert_eq!((read.after_destruction, read.kept), (tries, tries));
    assert_eq!((read.after_end, read.given_up), (0, 0));
}

#[test]
fn a_call_on_an_encoder_that_was_given_up_between_two_is_refused() {
    assert_aborted(
        &run("between, plain", &[]),
        "an encoder is used that is freed",
    );
    assert_ended_well(&run("between", &[]));
}

/// Two threads share a command buffer, and one of them commits it, as in mlx#3216.
pub fn shared(device: Id) {
    let turn = Barrier::new(2);
    let encode = |commands| {
        let encoder = driver::encoder(commands, "computeCommandEncoder");
        driver::encode(encoder);
        let _: () = send!(encoder, "endEncoding");
        encoder.release();
        let _: () = send!(commands, "encodeSignalEvent:value:", Id::NULL, 1u64);
        let _: () = send!(commands, "addCompletedHandler:", Id::NULL);
    };
    let both = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..TRIES {
                turn.wait();
                let commands = Id::from_ptr(both.load(Ordering::SeqCst) as *const ());
                linger(number);
                encode(commands);
                turn.wait();
            }
        });
        for number in 0..TRIES {
            let commands = driver::command_buffer(device);
            both.store(commands.as_ptr::<()>() as usize, Ordering::SeqCst);
            turn.wait();
            linger(number + number / 7);
            encode(commands);
            let _: () = send!(commands, "commit");
            turn.wait();
            commands.release();
        }
    });
    device.release();
}

pub fn shared_guarded() {
    shared(wrap());
    let read = agx_fix::statistics();
    let tries = TRIES as u64;
    assert_eq!((read.buffers, read.committed), (tries, tries));
    assert!(read.waits > 0 && read.after_commit > 0, "{read}");
    assert!(read.created > tries && read.created <= 2 * tries, "{read}");
    assert_eq!(read.ended, read.created);
    assert_eq!((read.after_end, read.given_up, read.unannounced), (0, 0, 0));
}

#[test]
fn two_threads_that_share_a_command_buffer_take_turns() {
    assert_aborted(&run("shared, plain", &[]), "the imitation driver crashes");
    assert_ended_well(&run("shared", &[]));
}

#[test]
fn without_agx_fix_the_driver_crashes() {
    assert_aborted(&run("race, plain", &[]), "the imitation driver crashes");
}

#[test]
fn with_agx_fix_it_does_not_in_ten_thousand_tries() {
    assert_ended_well(&run("race", &[]));
}

#[test]
fn disabled_it_does_nothing() {
    assert_aborted(
        &run("race", &[("AGX_FIX_DISABLE", "1")]),
        "the imitation driver crashes",
    );
}
