//! What our own code takes to encode and commit an empty op: the time inside the imitation is subtracted.
//! It prints a figure and asserts only that there is one: `cargo test` gates nothing on time.
#![cfg(metal_sim)]

mod common;

use std::time::{Duration, Instant};

use common::Stage;
use streampool_device::{Device, Flush, Op, QueueOptions};
use streampool_metal::{MetalDevice, MetalOptions};
use streampool_metal_sim::{measure_time_inside, time_inside};

const ROUNDS: usize = 2000;

/// The time of `work` that is spent outside the imitation.
fn own_time(work: impl FnOnce()) -> Duration {
    let (begun, inside) = (Instant::now(), time_inside());
    work();
    begun.elapsed().saturating_sub(time_inside() - inside)
}

#[test]
fn an_empty_op_is_encoded_and_committed() {
    let stage = Stage::new();
    // Who slept is slower at first, which is not what is measured.
    stage.0.delay(Duration::ZERO);
    let device = MetalDevice::new(MetalOptions::default()).unwrap();
    let mut queue = device.create_queue(QueueOptions::default()).unwrap();
    let mut encode_and_commit = || {
        let mut tick = 0;
        let own = own_time(|| {
            // SAFETY: it touches no memory.
            tick = unsafe { queue.encode(&Op::Nop).unwrap() };
            queue.flush(Flush::Start).unwrap();
        });
        // So that the next one is committed, too, when it is flushed.
        queue.progress().wait(tick, None).unwrap();
        own
    };
    measure_time_inside(true);
    for _ in 0..ROUNDS / 10 {
        encode_and_commit();
    }
    let mut own: Vec<Duration> = (0..ROUNDS).map(|_| encode_and_commit()).collect();
    measure_time_inside(false);
    own.sort_unstable();
    let [best, median] = [ROUNDS / 20, ROUNDS / 2].map(|place| own[place].as_nanos());
    println!("encode and commit of an empty op, our own: {median} ns, one in twenty {best} ns");
    assert!(best > 0, "the clock was read");
    drop(queue);
    drop(device);
}
