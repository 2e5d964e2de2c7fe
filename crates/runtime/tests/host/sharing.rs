//! Buffers used on several streams: ordered, and reused only when all are done, without being asked.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_runtime::{Activation, DType, MatMul, Op};

const M: usize = 12;
const K: usize = 20;
const COLUMNS: usize = 9;

/// Small integers, so that sums of products are exact.
fn matrix(rows: usize, columns: usize, seed: usize) -> Vec<f32> {
    (0..rows * columns)
        .map(|place| ((place * 7 + seed * 13) % 11) as f32 - 5.0)
        .collect()
}

fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; M * COLUMNS];
    for (place, sum) in out.iter_mut().enumerate() {
        let (row, column) = (place / COLUMNS, place % COLUMNS);
        *sum = (0..K)
            .map(|k| a[row * K + k] * b[k * COLUMNS + column])
            .sum();
    }
    out
}

#[test]
fn thirty_one_threads_multiply_with_shared_weights_and_all_are_right() {
    within(FOREVER, || {
        let pool = pool(&device(), 32);
        let weights = matrix(K, COLUMNS, 1000);
        let shared = on_thread(|| {
            let stream = pool.current().unwrap();
            let mut shared = stream.allocate(K * COLUMNS * 4).unwrap();
            stream.upload(&mut shared, &weights).unwrap();
            shared
        });
        let all_here = Barrier::new(31);
        on_threads(31, |number| {
            let stream = pool.current().unwrap();
            all_here.wait();
            for round in 0..rounds(100) {
                let input = matrix(M, K, number * 100 + round);
                let mut a = stream.allocate(M * K * 4).unwrap();
                let mut out = stream.allocate(M * COLUMNS * 4).unwrap();
                stream.upload(&mut a, &input).unwrap();
                stream
                    .encode(Op::MatMul(MatMul {
                        a: a.read(DType::F32, &[M, K]).unwrap(),
                        b: shared.read(DType::F32, &[K, COLUMNS]).unwrap(),
                        out: out.write(DType::F32, &[M, COLUMNS]).unwrap(),
                        bias: None,
                        activation: Activation::None,
                        alpha: 1.0,
                    }))
                    .unwrap();
                let result = stream.download::<f32>(&out).unwrap();
                assert_eq!(result, product(&input, &weights));
            }
        });
        drop(shared);
        assert_all_returned(&pool);
    });
}

#[test]
fn producers_and_consumers_with_random_delays_agree() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        device
            .injector()
            .random_delays(42, Duration::from_micros(200));
        thread::scope(|scope| {
            for pair in 0..3 {
                let (send, receive) = channel();
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..rounds(200) {
                        let value = (pair * 1000 + round) as f32;
                        let buffer = filled(pool.current().unwrap(), value);
                        send.send((value, buffer)).unwrap();
                    }
                });
                scope.spawn(move || {
                    let stream = pool.current().unwrap();
                    for (value, given) in receive {
                        let mut sum = buffer(stream);
                        add(stream, &given, &mut sum, 0.5).unwrap();
                        drop(given);
                        assert_eq!(value_of(stream, &sum).unwrap(), value + 0.5);
                    }
                });
            }
        });
        device.injector().clear();
        let memory = pool.snapshot().unwrap().memory;
        assert_eq!((memory.in_use, memory.pending), (0, 0));
    });
}

#[test]
fn a_block_with_five_consumers_freed_on_a_sixth_thread_waits_for_all_five() {
    within(FOREVER, || {
        let device = device_of(8, 1 << 30);
        let pool = pool(&device, 16);
        let gate = Gate::new(&device);
        let home = pool.stream(1).unwrap();
        let consumers: Vec<_> = (2..7).map(|index| pool.stream(index).unwrap()).collect();
        let shared = filled(home, 7.0);
        home.synchronize().unwrap();
        let place = shared.span();
        let mut copies = Vec::new();
        for consumer in &consumers {
            gate.hold(consumer);
            let mut seen = buffer(consumer);
            copy(consumer, &shared, &mut seen).unwrap();
            copies.push(seen);
        }
        on_thread(|| {
            pool.with_stream(pool.stream(9).unwrap(), || drop(shared))
                .unwrap();
        });
        let mut others = Vec::new();
        // The last used, the first and then those between: each of them counts.
        for done in [4, 0, 2, 1, 3] {
            let other = filled(home, 9.0);
            assert_ne!(other.span(), place, "reused before all are done");
            assert!(pool.snapshot().unwrap().memory.pending >= N * 4);
            others.push(other);
            gate.open(consumers[done]);
            consumers[done].synchronize().unwrap();
        }
        let reused = buffer(home);
        assert_eq!(reused.span(), place, "not reused when all are done");
        for (consumer, seen) in consumers.iter().zip(&copies) {
            assert_eq!(value_of(consumer, seen).unwrap(), 7.0);
        }
    });
}

#[test]
fn a_block_used_at_home_only_is_reused_at_once() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let home = pool.stream(1).unwrap();
    pool.with_stream(home, || {
        gate.hold(home);
        let first = filled(home, 1.0);
        let place = first.span();
        drop(first);
        // The stream's order protects it: what comes next comes after.
        let second = filled(home, 2.0);
        assert_eq!(second.span(), place);
        // On another stream it is not: that one has to wait.
        drop(second);
        let mut third = buffer(home);
        assert_eq!(third.span(), place);
        let other = pool.stream(2).unwrap();
        fill(other, &mut third, 3.0).unwrap();
        assert!(other.synchronize_timeout(Duration::from_millis(5)).is_err());
        gate.open_all();
        assert_eq!(value_of(home, &third).unwrap(), 3.0);
    })
    .unwrap();
}

#[test]
fn buffers_are_freed_by_others_while_their_owner_ends() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        for _ in 0..rounds(200) {
            let (send, receive) = channel();
            thread::scope(|scope| {
                let owner = scope.spawn(|| {
                    let stream = pool.current().unwrap();
                    for value in 0..8 {
                        send.send(filled(stream, value as f32)).unwrap();
                    }
                    drop(send);
                });
                let freeing = scope.spawn(|| {
                    let stream = pool.current().unwrap();
                    for (value, given) in receive.into_iter().enumerate() {
                        if value % 2 == 0 {
                            let mut seen = buffer(stream);
                            copy(stream, &given, &mut seen).unwrap();
                            drop(given);
                            assert_eq!(value_of(stream, &seen).unwrap(), value as f32);
                        }
                    }
                });
                join(owner);
                join(freeing);
            });
        }
        assert_all_returned(&pool);
        drop(pool);
        assert_eq!(in_use(&device), 0);
    });
}

#[test]
fn a_write_waits_for_the_reads_before_it() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (reader, writer) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let mut shared = filled(writer, 1.0);
    writer.synchronize().unwrap();
    gate.hold(reader);
    let mut seen = buffer(reader);
    copy(reader, &shared, &mut seen).unwrap();
    fill(writer, &mut shared, 2.0).unwrap();
    writer.flush().unwrap();
    assert!(!writer.is_idle(), "it cannot be done before the read");
    gate.open_all();
    assert_eq!(value_of(reader, &seen).unwrap(), 1.0);
    assert_eq!(value_of(writer, &shared).unwrap(), 2.0);
}

#[test]
fn a_write_waits_for_the_write_before_it() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (first, second) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    gate.hold(first);
    let mut shared = filled(first, 1.0);
    fill(second, &mut shared, 2.0).unwrap();
    second.flush().unwrap();
    assert!(
        !second.is_idle(),
        "it cannot be done before the first write"
    );
    gate.open_all();
    pool.synchronize().unwrap();
    assert_eq!(value_of(first, &shared).unwrap(), 2.0);
}

#[test]
fn one_wait_orders_after_everything_before_it() {
    let device = device();
    let pool = pool(&device, 8);
    let gate = Gate::new(&device);
    let stream = |index| pool.stream(index).unwrap();
    gate.hold(stream(1));
    let mut a = filled(stream(1), 1.0);
    let mut b = buffer(stream(2));
    add(stream(2), &a, &mut b, 1.0).unwrap();
    let mut c = buffer(stream(3));
    add(stream(3), &b, &mut c, 1.0).unwrap();
    // Stream 3 waits for 2, which waits for 1: it may write what 1 and 2 use without another wait.
    fill(stream(3), &mut a, 10.0).unwrap();
    assert_eq!(pool.snapshot().unwrap().made[2].waits, 1);
    assert!(!stream(3).is_idle());
    gate.open_all();
    assert_eq!(value_of(stream(4), &a).unwrap(), 10.0);
    assert_eq!(value_of(stream(5), &b).unwrap(), 2.0);
    assert_eq!(value_of(stream(6), &c).unwrap(), 3.0);
}

#[test]
fn what_is_known_to_be_complete_is_not_waited_for() {
    let pool = pool(&device(), 4);
    let (writer, reader) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let weights = filled(writer, 5.0);
    writer.synchronize().unwrap();
    for _ in 0..10 {
        let mut seen = buffer(reader);
        copy(reader, &weights, &mut seen).unwrap();
        assert_eq!(value_of(reader, &seen).unwrap(), 5.0);
    }
    assert_eq!(pool.snapshot().unwrap().made[1].waits, 0);
}

#[test]
fn waiting_for_a_stream_orders_what_nothing_else_orders() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (first, second) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    gate.hold(first);
    second.wait_for_stream(first).unwrap();
    second.flush().unwrap();
    assert!(!second.is_idle(), "it waits");
    gate.open_all();
    second.synchronize().unwrap();
    assert!(first.is_idle());
}

#[test]
fn many_threads_upload_to_and_download_from_what_they_share() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        device
            .injector()
            .random_delays(7, Duration::from_micros(100));
        let shared = Arc::new(on_thread(|| filled(pool.current().unwrap(), 4.0)));
        on_threads(12, |number| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(40) {
                assert_eq!(value_of(stream, &shared).unwrap(), 4.0);
                let values = vec![(number * 100 + round) as f32; N];
                let mut own = buffer(stream);
                stream.upload(&mut own, &values).unwrap();
                assert_eq!(stream.download::<f32>(&own).unwrap(), values);
            }
        });
    });
}

#[test]
fn many_threads_on_one_stream_keep_their_work_apart() {
    within(FOREVER, || {
        let pool = pool(&device(), 2);
        let all_here = Barrier::new(16);
        on_threads(16, |number| {
            let stream = pool.current().unwrap();
            assert_eq!(stream.index(), 1);
            all_here.wait();
            let mut buffers = (filled(stream, number as f32), buffer(stream));
            for _ in 0..rounds(100) {
                add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
                add(stream, &buffers.1, &mut buffers.0, 1.0).unwrap();
            }
            let expected = (number + 2 * rounds(100)) as f32;
            assert_eq!(value_of(stream, &buffers.0).unwrap(), expected);
        });
        assert_all_returned(&pool);
    });
}
