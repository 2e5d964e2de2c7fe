//! Buffers used on several streams: ordered, and reused only when all are done, without being asked.

use std::sync::RwLock;
use std::sync::mpsc::channel;
use std::thread;

use super::*;

#[test]
fn producers_and_consumers_agree() {
    with_device(|device| {
        let pool = pool(&device, 32);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for pair in 0..8 {
                let (send, receive) = channel();
                let pool = &pool;
                threads.push(scope.spawn(move || {
                    for round in 0..rounds(300) {
                        let value = (pair * 1000 + round) as f32;
                        let buffer = filled(pool.current().unwrap(), value);
                        send.send((value, buffer)).unwrap();
                    }
                }));
                threads.push(scope.spawn(move || {
                    let stream = pool.current().unwrap();
                    for (value, given) in receive {
                        let mut sum = buffer(stream);
                        add(stream, &given, &mut sum, 0.5).unwrap();
                        drop(given);
                        assert_eq!(value_of(stream, &sum), Ok(value + 0.5));
                    }
                }));
            }
            threads.into_iter().for_each(join);
        });
        assert_all_returned(&pool);
        drop(pool);
        assert_all_freed(&device);
    });
}

#[test]
fn a_chain_of_streams_passes_a_value_on() {
    with_device(|device| {
        let pool = pool(&device, 32);
        let mut value = filled(pool.stream(1).unwrap(), 0.0);
        for round in 0..20 {
            for index in 1..32 {
                let stream = pool.stream(index).unwrap();
                if (round + index) % 13 == 0 {
                    keep_busy(stream);
                }
                let mut next = buffer(stream);
                add(stream, &value, &mut next, 1.0).unwrap();
                // The old one is freed while its reader has not even begun.
                value = next;
            }
        }
        assert_eq!(value_of(pool.stream(5).unwrap(), &value), Ok(20.0 * 31.0));
    });
}

#[test]
fn a_chain_through_all_streams_keeps_its_order() {
    with_device(|device| {
        let pool = pool(&device, 32);
        let mut total = filled(pool.stream(1).unwrap(), 0.0);
        for round in 0..rounds(40) {
            for index in 1..32 {
                let stream = pool.stream(index).unwrap();
                let mut next = buffer(stream);
                add(stream, &total, &mut next, 1.0).unwrap();
                total = next;
            }
            let value = value_of(pool.stream(1).unwrap(), &total);
            assert_eq!(value, Ok(31.0 * (round + 1) as f32));
        }
    });
}

#[test]
fn two_streams_play_ping_pong() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let (ping, pong) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let mut there = filled(ping, 0.0);
        let mut back = buffer(pong);
        for round in 0..rounds(1000) {
            if round % 250 == 0 {
                keep_busy(if round % 500 == 0 { ping } else { pong });
            }
            add(pong, &there, &mut back, 1.0).unwrap();
            add(ping, &back, &mut there, 1.0).unwrap();
        }
        assert_eq!(value_of(pong, &there), Ok(2.0 * rounds(1000) as f32));
        assert!(pool.snapshot().unwrap().made[0].waits > 0);
    });
}

#[test]
fn one_writes_and_many_read() {
    with_device(|device| {
        let pool = pool(&device, 32);
        let first = on_thread(|| filled(pool.current().unwrap(), 0.0));
        let shared = RwLock::new((0u32, first));
        on_threads(16, |number| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(200) {
                if number == 0 {
                    let mut shared = shared.write().unwrap();
                    shared.0 += 1;
                    let value = shared.0 as f32;
                    fill(stream, &mut shared.1, value).unwrap();
                    continue;
                }
                if round == 10 * number {
                    keep_busy(stream);
                }
                let mut seen = buffer(stream);
                let expected = {
                    let shared = shared.read().unwrap();
                    copy(stream, &shared.1, &mut seen).unwrap();
                    shared.0 as f32
                };
                assert_eq!(value_of(stream, &seen), Ok(expected));
            }
        });
        drop(shared);
        assert_all_returned(&pool);
    });
}

#[test]
fn a_late_reader_reads_what_was_written_for_it_though_the_block_is_reused_at_once() {
    with_device(|device| {
        let pool = pool(&device, 4);
        on_thread(|| {
            let producer = pool.current().unwrap();
            let reader = pool.stream(3).unwrap();
            let mut seen = Vec::new();
            for round in 0..rounds(300) {
                if round % 50 == 0 {
                    keep_busy(reader);
                }
                let mut copied = buffer(reader);
                // Dropped at the end of the round: the next one takes the first block that is free.
                let value = filled(producer, round as f32);
                copy(reader, &value, &mut copied).unwrap();
                seen.push(copied);
            }
            for (round, seen) in seen.iter().enumerate() {
                assert_eq!(value_of(reader, seen), Ok(round as f32));
            }
        });
        assert_all_returned(&pool);
    });
}

#[test]
fn a_block_freed_on_a_sixth_thread_waits_for_its_five_readers() {
    with_device(|device| {
        let pool = pool(&device, 16);
        let home = pool.stream(1).unwrap();
        let shared = filled(home, 7.0);
        home.synchronize().unwrap();
        let mut copies = Vec::new();
        for index in 2..7 {
            let reader = pool.stream(index).unwrap();
            keep_busy(reader);
            let mut seen = buffer(reader);
            copy(reader, &shared, &mut seen).unwrap();
            copies.push((reader, seen));
        }
        on_thread(|| {
            pool.with_stream(pool.stream(9).unwrap(), || drop(shared))
                .unwrap();
        });
        // Whoever got the block too early would write over what is still to be read.
        let others: Vec<_> = (0..200).map(|_| filled(home, 9.0)).collect();
        home.synchronize().unwrap();
        for (reader, seen) in &copies {
            assert_eq!(value_of(reader, seen), Ok(7.0));
        }
        drop((others, copies));
        pool.synchronize().unwrap();
        pool.trim().unwrap();
        assert_all_freed(&device);
    });
}
