//! Completion handlers use the pool as freely as anybody.

use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};

use crate::common::*;
use streampool_host::OpMatcher;
use streampool_runtime::{Error, Op, WhenExhausted};

#[test]
fn a_handler_encodes_allocates_and_synchronises() {
    within(FOREVER, || {
        for workers in [1, 2, 4] {
            let device = device_of(workers, 1 << 30);
            let pool = pool(&device, 8);
            let stream = pool.stream(1).unwrap().clone();
            let input = filled(&stream, 20.0);
            let (send, receive) = channel();
            let inside = (pool.clone(), stream.clone());
            stream
                .on_complete(move |outcome| {
                    let (pool, stream) = inside;
                    outcome.unwrap();
                    // The stream whose handler this is is the current one; another works as well.
                    assert_eq!(pool.current().unwrap(), &stream);
                    let other = pool.lease().unwrap();
                    for stream in [&*other, &stream] {
                        let mut sum = buffer(stream);
                        add(stream, &input, &mut sum, 1.0).unwrap();
                        send.send(value_of(stream, &sum).unwrap()).unwrap();
                        stream.synchronize().unwrap();
                    }
                    pool.synchronize().unwrap();
                    pool.trim().unwrap();
                })
                .unwrap();
            assert_eq!(receive.recv_timeout(FOREVER), Ok(21.0));
            assert_eq!(receive.recv_timeout(FOREVER), Ok(21.0));
            assert!(receive.recv_timeout(FOREVER).is_err(), "the handler ended");
            assert_all_returned(&pool);
        }
    });
}

#[test]
fn a_handler_that_is_encoded_by_a_handler_is_called() {
    within(FOREVER, || {
        let pool = pool(&device_of(1, 1 << 30), 4);
        let stream = pool.stream(1).unwrap().clone();
        let (send, receive) = channel();
        let again = stream.clone();
        stream
            .on_complete(move |_| {
                again.encode(Op::Nop).unwrap();
                again
                    .on_complete(move |outcome| send.send(outcome).unwrap())
                    .unwrap();
            })
            .unwrap();
        assert_eq!(receive.recv_timeout(FOREVER), Ok(Ok(())));
    });
}

#[test]
fn a_handler_drops_the_last_handle_of_a_buffer() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let (home, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for round in 0..rounds(200) {
            let last = filled(home, round as f32);
            let mut seen = buffer(user);
            copy(user, &last, &mut seen).unwrap();
            let (send, receive) = channel();
            user.on_complete(move |_| {
                drop(last);
                send.send(()).unwrap();
            })
            .unwrap();
            receive.recv_timeout(FOREVER).unwrap();
            assert_eq!(value_of(user, &seen).unwrap(), round as f32);
        }
        pool.synchronize().unwrap();
        let memory = pool.snapshot().unwrap().memory;
        assert_eq!((memory.in_use, memory.pending), (0, 0));
    });
}

#[test]
fn a_handler_drops_the_last_handle_of_the_pool_and_the_device() {
    within(FOREVER, || {
        for _ in 0..rounds(50) {
            let device = device_of(2, 1 << 30);
            let pool = pool(&device, 4);
            let stream = pool.stream(1).unwrap().clone();
            let other = pool.stream(2).unwrap().clone();
            let kept = filled(&stream, 5.0);
            let (go, gone) = channel::<()>();
            let (send, receive) = channel();
            let last = pool.clone();
            stream
                .on_complete(move |_| {
                    gone.recv().unwrap();
                    // The worker has a lease of its own while the pool goes.
                    drop(filled(last.current().unwrap(), 1.0));
                    drop(last);
                    send.send(()).unwrap();
                })
                .unwrap();
            for _ in 0..20 {
                other.encode(Op::Nop).unwrap();
            }
            drop(pool);
            go.send(()).unwrap();
            receive.recv_timeout(FOREVER).unwrap();
            assert_eq!(other.encode(Op::Nop), Err(Error::ShutDown));
            drop((stream, other, kept));
            until("the memory is back", || in_use(&device) == 0);
            let weak: Weak<_> = Arc::downgrade(&device);
            drop(device);
            until("the device is gone", || weak.strong_count() == 0);
        }
    });
}

#[test]
fn a_panicking_handler_harms_nobody() {
    within(FOREVER, || {
        let pool = pool(&device_of(1, 1 << 30), 4);
        let stream = pool.stream(1).unwrap();
        let held = filled(stream, 1.0);
        stream
            .on_complete(move |_| {
                let _held = held;
                panic!("on purpose");
            })
            .unwrap();
        let (send, receive) = channel();
        stream
            .on_complete(move |outcome| send.send(outcome).unwrap())
            .unwrap();
        assert_eq!(receive.recv_timeout(FOREVER), Ok(Ok(())));
        let buffer = filled(stream, 2.0);
        assert_eq!(value_of(stream, &buffer), Ok(2.0));
        drop(buffer);
        assert_all_returned(&pool);
    });
}

#[test]
fn the_handlers_of_a_stream_are_called_in_order() {
    within(FOREVER, || {
        let pool = pool(&device(), 4);
        let (send, receive) = channel();
        let (one, two) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for number in 0..500 {
            for stream in [one, two] {
                stream.encode(Op::Nop).unwrap();
                let send = send.clone();
                let index = stream.index();
                stream
                    .on_complete(move |_| send.send((index, number)).unwrap())
                    .unwrap();
            }
        }
        drop(send);
        let called: Vec<_> = receive.into_iter().collect();
        for stream in [1, 2] {
            let numbers = called.iter().filter(|(index, _)| *index == stream);
            let numbers: Vec<i32> = numbers.map(|(_, number)| *number).collect();
            assert_eq!(numbers, (0..500).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_handler_is_on_its_own_stream_and_takes_no_other() {
    within(FOREVER, || {
        let settings = settings().streams(2).exhaustion(WhenExhausted::Fail);
        let pool = pool_with(&device_of(1, 1 << 30), settings);
        let only = pool.lease().unwrap();
        let (send, receive) = channel();
        let inside = pool.clone();
        only.on_complete(move |_| {
            let current = inside.current().map(|stream| stream.index());
            send.send((current, inside.lease().map(drop))).unwrap();
        })
        .unwrap();
        let outcome = receive.recv_timeout(FOREVER).unwrap();
        let no_other = Err(Error::NoFreeStream { limit: 1 });
        assert_eq!(outcome, (Ok(only.index()), no_other));
    });
}

#[test]
fn a_handler_that_is_refused_may_own_a_lease() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let lease = pool.lease().unwrap();
        let stream = (*lease).clone();
        let which = OpMatcher::any().on_queue(stream.index().into());
        device.injector().fail_op(which, 1, "broken on purpose");
        stream.encode(Op::Nop).unwrap();
        assert!(stream.synchronize().is_err());
        assert!(stream.on_complete(move |_| drop(lease)).is_err());
        assert_eq!(
            pool.snapshot().unwrap().free_streams,
            3,
            "the lease is over"
        );
    });
}
