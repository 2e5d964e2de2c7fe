//! The end of pools, threads and devices with work in flight.

use std::sync::Arc;
use std::sync::mpsc::channel;

use streampool_device::{Device, Op, QueueOptions};
use streampool_runtime::EventStatus;

use crate::common::{Stage, device};
use crate::work::*;
use crate::{PATIENCE, assert_all_freed, keep_busy, pool};

#[test]
fn dropping_the_pool_completes_the_work_in_flight() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 8);
        let (send, receive) = channel();
        let mut events = Vec::new();
        for index in 1..5 {
            let stream = pool.stream(index).unwrap();
            keep_busy(stream);
            let mut buffers = (filled(stream, 0.0), buffer(stream));
            for _ in 0..10 {
                add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
                add(stream, &buffers.1, &mut buffers.0, 1.0).unwrap();
            }
            let event = pool.event().unwrap();
            stream.record(&event).unwrap();
            events.push(event);
            let send = send.clone();
            stream
                .on_complete(move |outcome| send.send(outcome).unwrap())
                .unwrap();
        }
        drop(send);
        drop(pool);
        for event in &events {
            assert_eq!(event.query(), Ok(EventStatus::Complete));
        }
        let outcomes: Vec<_> = receive.into_iter().collect();
        assert!(outcomes.len() == 4 && outcomes.iter().all(Result::is_ok));
        assert_all_freed(&device);
    });
}

#[test]
fn pools_come_and_go_and_the_device_after_them() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        for _ in 0..rounds(20) {
            let pool = pool(&device, 8);
            on_threads(7, |number| {
                let stream = pool.current().unwrap();
                let buffer = filled(stream, number as f32);
                assert_eq!(value_of(stream, &buffer), Ok(number as f32));
            });
            drop(pool);
            assert_all_freed(&device);
        }
        let weak = Arc::downgrade(&device);
        drop(device);
        until("the device is gone", || weak.strong_count() == 0);
    });
}

#[test]
fn queues_and_their_device_are_dropped_with_work_that_nobody_flushed() {
    let _stage = Stage::new();
    for commands in [1, 7, 8, 9, 100] {
        let Some(device) = device() else { return };
        within(PATIENCE, || {
            let (send, receive) = channel();
            for _ in 0..8 {
                let mut queue = device.create_queue(QueueOptions::default()).unwrap();
                for _ in 0..commands {
                    // SAFETY: it touches no memory.
                    unsafe { queue.encode(&Op::Nop).unwrap() };
                }
                let send = send.clone();
                queue
                    .on_complete(Box::new(move |outcome| send.send(outcome).unwrap()))
                    .unwrap();
            }
            drop((send, device));
            let outcomes: Vec<_> = receive.into_iter().collect();
            assert_eq!(outcomes, vec![Ok(()); 8]);
        });
    }
}
