//! Waits for work of other queues: Metal gives up one for an event after about five seconds, and orders hazards of all
//! queues together.

use std::time::Duration;

use streampool_device::{Device, Event, Flush, Op, Queue, Space, Tick};
use streampool_metal::MetalDevice;
use streampool_metal_sim::Refusal;

use crate::common::{Stage, device, fill_op, metal_label, queue};
use crate::gpu::*;

/// How long the imitated GPU waits for an event here.
const LIMIT: Duration = Duration::from_millis(30);

fn event(device: &MetalDevice) -> Box<dyn Event> {
    device.create_event(false).unwrap()
}

/// Encodes an op without memory.
fn encode(queue: &mut dyn Queue) -> Tick {
    // SAFETY: it touches no memory.
    unsafe { queue.encode(&Op::Nop).unwrap() }
}

#[test]
fn a_queue_that_ran_ahead_waits_for_long_work_of_another() {
    let stage = Stage::new();
    stage.0.event_limit(LIMIT);
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let (mut slow, mut ahead) = (queue(&device, "slow"), queue(&device, "ahead"));
        let event = event(&device);
        stage.0.hold(Some(&metal_label(&*device, "slow")));
        encode(&mut *slow);
        slow.flush(Flush::Start).unwrap();
        encode(&mut *slow);
        slow.record(&*event).unwrap();
        ahead.wait(&*event).unwrap();
        let last = encode(&mut *ahead);
        ahead.flush(Flush::Start).unwrap();
        std::thread::sleep(4 * LIMIT);
        assert!(ahead.progress().completed() < last);
        stage.0.hold(None);
        assert_eq!(ahead.progress().wait(last, None), Ok(()));
    });
}

#[test]
fn a_wait_and_a_hazard_do_not_hold_each_other_up() {
    let stage = Stage::new();
    stage.0.event_limit(LIMIT);
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = device.allocate(4 * N, Space::Staging).unwrap();
        let host = device.host_address(&memory).unwrap().cast::<f32>();
        let (mut first, mut second) = (queue(&device, "first"), queue(&device, "second"));
        let event = event(&device);
        for round in 0..rounds(20) {
            let value = round as f32;
            stage.0.pause();
            // SAFETY: the queues take turns at the memory, which is freed when all is over.
            let last = unsafe {
                first.encode(&fill_op(&memory, -1.0)).unwrap();
                first.flush(Flush::Start).unwrap();
                first.encode(&fill_op(&memory, -2.0)).unwrap();
                first.record(&*event).unwrap();
                second.wait(&*event).unwrap();
                second.encode(&fill_op(&memory, value)).unwrap()
            };
            second.flush(Flush::Start).unwrap();
            stage.0.resume();
            assert_eq!(second.progress().wait(last, None), Ok(()), "round {round}");
            // SAFETY: nothing is under way.
            assert_eq!(unsafe { host.read() }, value);
        }
        // SAFETY: as above.
        unsafe { device.free(memory) };
    });
}

#[test]
fn queues_wait_for_one_another_without_shared_events() {
    const QUEUES: usize = 4;
    let stage = Stage::new();
    // As in a sandbox, which lets nobody make one.
    for _ in 0..2 * QUEUES {
        stage.0.refuse(Refusal::Event);
    }
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = device.allocate(4 * N, Space::Staging).unwrap();
        let host = device.host_address(&memory).unwrap().cast::<f32>();
        let event = event(&device);
        let mut queues: Vec<_> = (0..QUEUES).map(|_| queue(&device, "sandboxed")).collect();
        for round in 0..rounds(50) {
            let queue = &mut queues[round % QUEUES];
            if round > 0 {
                queue.wait(&*event).unwrap();
            }
            // SAFETY: the queues take turns at the memory, which is freed when all is over.
            unsafe { queue.encode(&fill_op(&memory, round as f32)).unwrap() };
            queue.record(&*event).unwrap();
        }
        event.wait(None).unwrap();
        // SAFETY: nothing is under way.
        unsafe {
            assert_eq!(host.read(), (rounds(50) - 1) as f32);
            device.free(memory);
        }
    });
}
