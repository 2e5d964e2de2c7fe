//! Nobody waits for ever: not behind a fault, not for a turn among the buffers in flight, not on a device that is gone.

use std::sync::Barrier;

use streampool_device::{Device, Error, Event, Flush, Op, Queue, Quirk, Tick};
use streampool_metal::{MetalDevice, MetalOptions};

use crate::common::{self, Stage, device, device_with, queue};
use crate::gpu::*;

fn encode(queue: &mut dyn Queue) -> Tick {
    // SAFETY: it touches no memory.
    unsafe { queue.encode(&Op::Nop).unwrap() }
}

/// Commits a buffer that is under way until the GPU is resumed.
fn encode_and_start(queue: &mut dyn Queue) -> Tick {
    let tick = encode(queue);
    queue.flush(Flush::Start).unwrap();
    tick
}

fn event(device: &MetalDevice) -> Box<dyn Event> {
    device.create_event(false).unwrap()
}

#[test]
fn who_waits_for_a_page_is_woken_by_a_fault_before_what_is_sealed_in_front_of_it() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let mut queue = queue(&device, "failing");
        let event = event(&device);
        for _ in 0..3 {
            stage.0.pause();
            common::fail_next(&*device, "failing");
            let failed = encode_and_start(&mut *queue);
            encode(&mut *queue);
            queue.record(&*event).unwrap();
            let last = encode_and_start(&mut *queue);
            stage.0.resume();
            let outcome = queue.progress().wait(last, None);
            assert!(
                matches!(&outcome, Err(Error::Fault(fault)) if fault.tick() == failed),
                "{outcome:?}"
            );
            queue.recover().unwrap();
            let good = encode_and_start(&mut *queue);
            assert_eq!(queue.progress().wait(good, None), Ok(()));
        }
    });
}

#[test]
fn a_slot_in_flight_goes_to_whom_the_others_wait_for() {
    let stage = Stage::new();
    let options = MetalOptions::default().with(Quirk::BuffersInFlight(1));
    let Some(device) = device_with(options) else {
        return;
    };
    within(FOREVER, || {
        let (mut first, mut second) = (queue(&device, "first"), queue(&device, "second"));
        let event = event(&device);
        for _ in 0..20 {
            stage.0.pause();
            encode_and_start(&mut *first);
            encode(&mut *first);
            // Sealed behind what is in flight, so it does not ask for a slot yet.
            first.record(&*event).unwrap();
            second.wait(&*event).unwrap();
            let last = encode_and_start(&mut *second);
            stage.0.resume();
            assert_eq!(second.progress().wait(last, None), Ok(()));
        }
    });
}

#[test]
fn a_device_that_is_removed_ends_waits_for_what_is_in_flight() {
    const QUEUES: usize = 4;
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let mut queues: Vec<_> = (0..QUEUES).map(|_| queue(&device, "lost")).collect();
        stage.0.pause();
        let ticks: Vec<Tick> = queues
            .iter_mut()
            .map(|queue| {
                encode_and_start(&mut **queue);
                encode_and_start(&mut **queue)
            })
            .collect();
        let all_here = Barrier::new(QUEUES + 1);
        std::thread::scope(|scope| {
            let waits = queues.iter().zip(&ticks).map(|(queue, &tick)| {
                let (progress, all_here) = (queue.progress(), &all_here);
                scope.spawn(move || {
                    all_here.wait();
                    progress.wait(tick, None)
                })
            });
            let waits: Vec<_> = waits.collect();
            all_here.wait();
            stage.0.lose_device();
            stage.0.resume();
            for wait in waits {
                let outcome = join(wait);
                assert!(matches!(outcome, Err(Error::DeviceLost(_))), "{outcome:?}");
            }
        });
    });
}
