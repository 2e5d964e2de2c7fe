//! Who executes a strand's commands, and when.

use std::sync::mpsc::channel;
use std::time::Duration;

use streampool_device::{Device, Flush, Op, OpKind};

use crate::testing::{Buffer, FOREVER, Spy, device, encode, queue};

use super::*;

#[test]
fn who_waits_for_an_idle_queue_does_the_work() {
    let device = device(2);
    let (sender, receiver) = channel();
    device.set_trace(Some(Arc::new(Spy(sender))));
    let (mut first, mut second) = (queue(&device, 0), queue(&device, 1));
    let event = device.create_event(false).unwrap();
    let current = std::thread::current().id();
    for _ in 0..100 {
        encode(&mut *first, &Op::Nop);
        first.record(&*event).unwrap();
        second.wait(&*event).unwrap();
        let tick = encode(&mut *second, &Op::Nop);
        second.flush(Flush::ForWaiter).unwrap();
        second.progress().wait(tick, None).unwrap();
        for index in [0, 1] {
            let (thread, interval) = receiver.try_recv().unwrap();
            assert_eq!(
                (thread, interval.queue, interval.op),
                (current, index, OpKind::Nop)
            );
        }
    }
}

#[test]
fn many_commands_start_by_themselves() {
    let device = device(1);
    let (sender, receiver) = channel();
    device.set_trace(Some(Arc::new(Spy(sender))));
    let mut queue = queue(&device, 0);
    for _ in 0..MANY_COMMANDS {
        encode(&mut *queue, &Op::Nop);
    }
    let (thread, interval) = receiver.recv_timeout(FOREVER).unwrap();
    assert_ne!(thread, std::thread::current().id());
    assert_eq!(interval.tick, 1);
}

#[test]
fn polling_starts_the_work() {
    let device = device(1);
    let mut queue = queue(&device, 0);
    let tick = encode(&mut *queue, &Op::Nop);
    while queue.progress().completed() < tick {
        std::thread::yield_now();
    }
    assert_eq!(queue.progress().completed(), tick);
}

#[test]
fn who_waits_leaves_when_its_tick_is_over_and_the_rest_goes_on() {
    let device = device(1);
    let mut lane = queue(&device, 0);
    // The rest takes a second: this thread may have to wait for a processor.
    device.injector().delay_queue(0, Duration::from_millis(100));
    let first = encode(&mut *lane, &Op::Nop);
    let last = (0..10)
        .map(|_| encode(&mut *lane, &Op::Nop))
        .last()
        .unwrap();
    let (sender, receiver) = channel();
    lane.on_complete(Box::new(move |_| sender.send(()).unwrap()))
        .unwrap();
    lane.progress().wait(first, None).unwrap();
    assert!(lane.progress().completed() < last);
    assert_eq!(receiver.recv_timeout(FOREVER), Ok(()));
    assert!(lane.progress().completed() >= last);
}

#[test]
fn many_threads_may_wait_for_one_queue() {
    let device = device(2);
    let mut lane = queue(&device, 0);
    for _ in 0..50 {
        let ticks: Vec<_> = (0..8).map(|_| encode(&mut *lane, &Op::Nop)).collect();
        let progress = lane.progress();
        std::thread::scope(|scope| {
            for (index, tick) in ticks.into_iter().enumerate() {
                let progress = &progress;
                let deadline = (index % 3 == 0).then(|| Instant::now() + FOREVER);
                scope.spawn(move || assert_eq!(progress.wait(tick, deadline), Ok(())));
            }
        });
    }
}

/// Each of 31 threads adds a step to a value that goes round all 31 queues, ordered by events alone.
#[test]
fn thirty_one_queues_wait_for_each_other() {
    const QUEUES: usize = 31;
    const ROUNDS: usize = 40;
    let device = device(2);
    device
        .injector()
        .random_delays(1, Duration::from_micros(50));
    let buffers: Vec<_> = (0..QUEUES).map(|_| Buffer::new(&device, 16)).collect();
    let events: Vec<_> = (0..QUEUES)
        .map(|_| device.create_event(true).unwrap())
        .collect();
    let mut start = queue(&device, 99);
    for (index, buffer) in buffers.iter().enumerate() {
        encode(&mut *start, &buffer.fill(index as f32));
    }
    for event in &events {
        start.record(&**event).unwrap();
    }
    // In each round queue `i` first reads what its neighbour wrote in the round before, into a buffer
    // of its own, and only then may the neighbour write again.
    let barrier = std::sync::Barrier::new(QUEUES);
    std::thread::scope(|scope| {
        for index in 0..QUEUES {
            let (device, buffers, events, barrier) = (&device, &buffers, &events, &barrier);
            scope.spawn(move || {
                let mut lane = queue(device, index as u32);
                let taken = Buffer::new(device, 16);
                let read = device.create_event(false).unwrap();
                let before = (index + QUEUES - 1) % QUEUES;
                for round in 0..ROUNDS {
                    barrier.wait();
                    lane.wait(&*events[before]).unwrap();
                    encode(&mut *lane, &taken.copy_from(&buffers[before]));
                    lane.record(&*read).unwrap();
                    barrier.wait();
                    lane.record(&*events[index]).unwrap();
                    barrier.wait();
                    // Everybody has read once the neighbour after this one has.
                    lane.wait(&*events[(index + 1) % QUEUES]).unwrap();
                    encode(&mut *lane, &buffers[index].copy_from(&taken));
                    barrier.wait();
                    lane.record(&*events[index]).unwrap();
                    lane.flush(if round % 2 == 0 {
                        Flush::Start
                    } else {
                        Flush::ForWaiter
                    })
                    .unwrap();
                    match round % 5 {
                        0 => read.wait(Some(Instant::now() + FOREVER)).unwrap(),
                        1 => events[before].wait(None).unwrap(),
                        _ => {}
                    }
                    barrier.wait();
                }
                let value = (index + QUEUES - ROUNDS % QUEUES) % QUEUES;
                assert_eq!(buffers[index].read(&mut *lane), [value as f32; 16]);
            });
        }
    });
}

#[test]
fn a_command_fits_a_cache_line() {
    assert!(size_of::<Command>() <= 64, "{}", size_of::<Command>());
}
