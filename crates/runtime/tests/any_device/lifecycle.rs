//! Which thread is on which stream, and the end of pools with work in flight.

use std::collections::HashSet;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};

use streampool_runtime::EventStatus;

use super::*;

#[test]
fn dropping_the_pool_completes_the_work_in_flight() {
    with_device(|device| {
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
fn a_thread_ends_with_its_work_done() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let result = on_thread(|| {
            let stream = pool.current().unwrap();
            keep_busy(stream);
            filled(stream, 20.0)
        });
        let made = &pool.snapshot().unwrap().made[0];
        assert_eq!(made.completed, made.encoded);
        assert_eq!(value_of(pool.stream(2).unwrap(), &result), Ok(20.0));
        drop(result);
        assert_all_returned(&pool);
    });
}

#[test]
fn sixty_four_threads_share_thirty_one_streams() {
    with_device(|device| {
        let pool = pool(&device, 32);
        let all_here = Barrier::new(64);
        let used = on_threads(64, |number| {
            let stream = pool.current().unwrap();
            all_here.wait();
            for round in 0..rounds(50) {
                let value = (number * 100 + round) as f32;
                let one = filled(stream, value);
                let mut two = buffer(stream);
                add(stream, &one, &mut two, 0.5).unwrap();
                assert_eq!(value_of(stream, &two), Ok(value + 0.5));
            }
            assert_eq!(
                pool.current().unwrap(),
                stream,
                "a thread stays where it is"
            );
            stream.index()
        });
        let distinct: HashSet<u8> = used.into_iter().collect();
        assert_eq!(distinct, (1..32).collect());
        assert_all_returned(&pool);
    });
}

#[test]
fn pools_come_and_go_and_the_device_after_them() {
    with_device(|device| {
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
fn a_thread_may_end_with_work_under_way() {
    with_device(|device| {
        let pool = pool(&device, 2);
        for _ in 0..rounds(20) {
            // What the thread's end does comes after the end of all that others keep for a thread.
            on_thread(|| keep_busy(pool.current().unwrap()));
        }
        pool.synchronize().unwrap();
        assert_all_returned(&pool);
    });
}
