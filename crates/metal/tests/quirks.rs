//! The defects of Apple's stack that are worked around here: each shows without its workaround, and none with it.
#![cfg(metal_sim)]

mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::sync::Arc;

use common::{Stage, queue};
use streampool_device::{Device, Flush, Op, QueueOptions, Quirk};
use streampool_metal::{MetalDevice, MetalOptions};
use streampool_metal_sim::{Rule, Sim};
use work::{FOREVER, on_threads, rounds, within};

/// How many threads meet a quirk, each with a queue of its own, and how often.
const THREADS: usize = 8;
const ROUNDS: usize = 1250;
/// As many buffers as the imitated driver bears.
const MOST: usize = 3;

/// Has each thread begin, end and commit many short buffers on `device`.
fn many_buffers(device: &Arc<MetalDevice>) {
    on_threads(THREADS, |number| {
        let mut queue = queue(device, &format!("queue {number}"));
        for _ in 0..rounds(ROUNDS) {
            // SAFETY: it touches no memory.
            let tick = unsafe { queue.encode(&Op::Nop).unwrap() };
            queue.flush(Flush::Start).unwrap();
            queue.progress().wait(tick, None).unwrap();
        }
    });
}

/// How often the rule was broken by a device with these options, and whether no other was.
fn broken(sim: &Sim, rule: Rule, options: MetalOptions) -> usize {
    let device = MetalDevice::new(options).unwrap();
    within(FOREVER, || many_buffers(&device));
    drop(device);
    let found = sim.violations();
    let others: Vec<_> = found.iter().filter(|found| found.rule != rule).collect();
    assert!(others.is_empty(), "{others:?}");
    found.len()
}

#[test]
fn encoders_race_unless_they_are_made_and_released_one_at_a_time() {
    let stage = Stage::recording();
    let sim = &stage.0;
    sim.racing_encoders();
    let options = MetalOptions::default();
    let without = options.clone().without(Quirk::EncoderFreedInUse);
    assert!(broken(sim, Rule::EncoderRace, without) > 0);
    assert_eq!(broken(sim, Rule::EncoderRace, options), 0);
}

/// Has each thread release buffers that are never committed, because what is before them fails.
fn many_buffers_given_up(sim: &Sim, device: &Arc<MetalDevice>) {
    on_threads(THREADS, |number| {
        let label = format!("queue {number}");
        let mut queue = queue(device, &label);
        for _ in 0..rounds(ROUNDS) {
            common::fail_next(&**device, &label);
            // What is behind the one that fails is encoded while that is under way.
            sim.hold(Some(&common::metal_label(&**device, &label)));
            // SAFETY: they touch no memory.
            let both = unsafe { [queue.encode(&Op::Nop), queue.flush(Flush::Start)] };
            let event = device.create_event(false).unwrap();
            // SAFETY: as above.
            let behind = unsafe { queue.encode(&Op::Nop) }.and_then(|_| queue.record(&*event));
            sim.hold(None);
            let last = both.into_iter().chain([behind]).flatten().last().unwrap();
            assert!(queue.progress().wait(last, None).is_err());
            queue.recover().unwrap();
        }
    });
}

#[test]
fn what_is_given_up_ends_its_encoder_like_everything_else() {
    let stage = Stage::recording();
    let sim = &stage.0;
    sim.racing_encoders();
    let options = MetalOptions::default();
    let without = options.clone().without(Quirk::EncoderFreedInUse);
    for (options, may_race) in [(without, true), (options, false)] {
        let device = MetalDevice::new(options).unwrap();
        within(FOREVER, || many_buffers_given_up(sim, &device));
        drop(device);
        let found = sim.violations();
        assert_eq!(!found.is_empty(), may_race, "{found:?}");
    }
}

#[test]
fn too_many_buffers_are_in_flight_unless_they_wait_for_their_turn() {
    let stage = Stage::recording();
    let sim = &stage.0;
    sim.most_in_flight(MOST);
    let limited = MetalOptions::default().with(Quirk::BuffersInFlight(MOST));
    let without = limited.clone().without(Quirk::BuffersInFlight(MOST));
    assert!(broken(sim, Rule::DeviceInFlight, without) > 0);
    assert_eq!(broken(sim, Rule::DeviceInFlight, limited), 0);
}

#[test]
fn what_waits_for_its_turn_is_never_what_the_others_wait_for() {
    let _stage = Stage::new();
    let options = MetalOptions::default().with(Quirk::BuffersInFlight(1));
    let device = MetalDevice::new(options).unwrap();
    within(FOREVER, || {
        let mut queues: Vec<_> = (0..THREADS)
            .map(|_| device.create_queue(QueueOptions::default()).unwrap())
            .collect();
        // Each queue waits for all the others, and nothing was flushed in the order in which it can go.
        for round in 0..rounds(50) {
            let events: Vec<_> = (0..THREADS)
                .map(|_| device.create_event(false).unwrap())
                .collect();
            for (queue, event) in queues.iter_mut().zip(&events) {
                // SAFETY: it touches no memory.
                unsafe { queue.encode(&Op::Nop).unwrap() };
                queue.record(&**event).unwrap();
            }
            for number in 0..THREADS {
                let queue = &mut queues[(number * 3 + round) % THREADS];
                for event in &events {
                    queue.wait(&**event).unwrap();
                }
                // SAFETY: as above.
                unsafe { queue.encode(&Op::Nop).unwrap() };
            }
        }
        for queue in queues.iter_mut().rev() {
            let last = queue.flush(Flush::ForWaiter).unwrap();
            queue.progress().wait(last, None).unwrap();
        }
    });
}
