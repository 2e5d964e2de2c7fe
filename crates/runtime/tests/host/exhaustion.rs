//! More threads than streams, under each policy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_runtime::{Error, Pool, WhenExhausted};

/// How many threads are alive at once.
const CROWDS: [usize; 2] = [64, 200];

/// A little work whose result tells whether anything else came between.
fn work(pool: &Pool, number: usize) {
    let stream = pool.current().unwrap();
    let one = filled(stream, number as f32);
    let mut two = buffer(stream);
    add(stream, &one, &mut two, 0.5).unwrap();
    assert_eq!(value_of(stream, &two).unwrap(), number as f32 + 0.5);
}

#[test]
fn sharing_spreads_a_crowd_evenly_and_all_its_work_is_right() {
    within(FOREVER, || {
        for crowd in CROWDS {
            let pool = pool(&device(), 32);
            let all_here = Barrier::new(crowd);
            let streams = on_threads(crowd, |number| {
                let stream = pool.current().unwrap().index();
                all_here.wait();
                for round in 0..5 {
                    work(&pool, number * 10 + round);
                }
                stream
            });
            let mut counts: HashMap<u8, usize> = HashMap::new();
            for stream in streams {
                *counts.entry(stream).or_default() += 1;
            }
            assert_eq!(counts.len(), 31, "every worker stream is used");
            let (least, most) = (counts.values().min(), counts.values().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
            assert_all_returned(&pool);
        }
    });
}

#[test]
fn waiting_for_ever_serves_everyone_and_no_stream_has_two_holders() {
    within(FOREVER, || {
        for crowd in CROWDS {
            let settings = settings().streams(8).exhaustion(WhenExhausted::Wait(None));
            let pool = pool_with(&device(), settings);
            let all_here = Barrier::new(crowd);
            let held: [AtomicBool; 8] = Default::default();
            on_threads(crowd, |number| {
                all_here.wait();
                let stream = usize::from(pool.current().unwrap().index());
                assert!((1..8).contains(&stream));
                assert!(!held[stream].swap(true, Ordering::SeqCst));
                work(&pool, number);
                held[stream].store(false, Ordering::SeqCst);
            });
            assert_all_returned(&pool);
        }
    });
}

#[test]
fn waiting_is_first_come_first_served() {
    within(FOREVER, || {
        let settings = settings().streams(2).exhaustion(WhenExhausted::Wait(None));
        let pool = pool_with(&device(), settings);
        let only = pool.lease().unwrap();
        let served = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let threads: Vec<_> = (0..20)
                .map(|place| {
                    let (pool, served) = (&pool, &served);
                    let thread = scope.spawn(move || {
                        assert_eq!(pool.current().unwrap().index(), 1);
                        served.lock().unwrap().push(place);
                    });
                    until("the thread waits", || {
                        pool.snapshot().unwrap().waiting_threads == place + 1
                    });
                    thread
                })
                .collect();
            drop(only);
            threads.into_iter().for_each(join);
        });
        assert_eq!(served.into_inner().unwrap(), (0..20).collect::<Vec<_>>());
        assert_all_returned(&pool);
    });
}

#[test]
fn waiting_too_long_is_an_error_that_names_the_limit() {
    within(FOREVER, || {
        let waited = Duration::from_millis(30);
        let settings = settings()
            .streams(3)
            .exhaustion(WhenExhausted::Wait(Some(waited)));
        let pool = pool_with(&device(), settings);
        for crowd in CROWDS {
            let all = (pool.lease().unwrap(), pool.lease().unwrap());
            let all_here = Barrier::new(crowd);
            for error in on_threads(crowd, |_| {
                all_here.wait();
                pool.current().map(drop).unwrap_err()
            }) {
                assert_eq!(error, Error::WaitTimedOut { limit: 2, waited });
                let message = error.to_string();
                assert!(message.contains("all 2"), "{message}");
                assert!(message.contains("STREAMPOOL_WAIT_TIMEOUT_MS"), "{message}");
            }
            drop(all);
            assert_all_returned(&pool);
            on_thread(|| work(&pool, 1));
        }
    });
}

#[test]
fn failing_is_at_once_and_names_the_limit() {
    within(FOREVER, || {
        for crowd in CROWDS {
            let settings = settings().streams(32).exhaustion(WhenExhausted::Fail);
            let pool = pool_with(&device(), settings);
            let all_here = Barrier::new(crowd);
            let outcomes = on_threads(crowd, |number| {
                all_here.wait();
                let outcome = pool.current().map(drop);
                all_here.wait();
                if outcome.is_ok() {
                    work(&pool, number);
                }
                outcome
            });
            let (served, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|o| o.is_ok());
            assert_eq!((served.len(), refused.len()), (31, crowd - 31));
            for outcome in refused {
                let error = outcome.unwrap_err();
                assert_eq!(error, Error::NoFreeStream { limit: 31 });
                assert!(error.to_string().contains("STREAMPOOL_STREAMS"), "{error}");
            }
            assert_all_returned(&pool);
        }
    });
}

#[test]
fn a_refused_thread_can_try_again() {
    let settings = settings().streams(2).exhaustion(WhenExhausted::Fail);
    let pool = pool_with(&device(), settings);
    let only = pool.lease().unwrap();
    on_thread(|| {
        assert_eq!(
            pool.current().map(drop),
            Err(Error::NoFreeStream { limit: 1 })
        );
        drop(only);
        work(&pool, 1);
    });
}

#[test]
fn ten_thousand_short_lived_threads_leave_no_slot_and_no_byte_behind() {
    const WAVE: usize = 40;
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 32);
        let handed_over = Mutex::new(Vec::new());
        for wave in 0..rounds(10_000) / WAVE {
            on_threads(WAVE, |number| {
                let stream = pool.current().unwrap();
                let mine = filled(stream, number as f32);
                // Some buffers outlive their thread and are freed by another.
                let other = handed_over.lock().unwrap().pop();
                if let Some((value, other)) = other {
                    assert_eq!(value_of(stream, &other).unwrap(), value);
                }
                if number % 2 == 0 {
                    handed_over.lock().unwrap().push((number as f32, mine));
                }
            });
            if wave % 50 == 0 {
                handed_over.lock().unwrap().clear();
                assert_all_returned(&pool);
            }
        }
        handed_over.lock().unwrap().clear();
        assert_all_returned(&pool);
        let (pool, kept) = (Arc::new(pool), Arc::downgrade(&device));
        drop((pool, device));
        until("the device is gone", || kept.strong_count() == 0);
    });
}
