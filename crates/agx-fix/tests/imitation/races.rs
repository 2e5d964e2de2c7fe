//! Threads that use an encoder which another gives up: the imitation driver crashes without agx-fix.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_metal_sim::{Id, live_objects, send};

use crate::common::driver::{self, Dispatched};
use crate::common::{assert_aborted, assert_ended_well, run};
use crate::wrap;

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
    assert_eq!(
        (read.created, read.destroyed, read.ended),
        (tries, tries, tries / 2)
    );
    let refused = read.after_end + read.after_destruction;
    assert_eq!(read.calls + refused, 2 * tries + tries / 2, "{read}");
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
    assert_eq!(live_objects().get("ImitationComputeEncoder"), None);
    assert_eq!(agx_fix::check().displaced, [""; 0]);
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
