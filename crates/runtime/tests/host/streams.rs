//! Which stream a thread is on: leases, scopes, tasks.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::common::*;
use streampool_runtime::{Error, Pool, WhenExhausted};

fn made(pool: &Pool) -> Vec<u8> {
    let snapshot = pool.snapshot().unwrap();
    snapshot.made.iter().map(|stream| stream.index).collect()
}

fn current(pool: &Pool) -> u8 {
    pool.current().unwrap().index()
}

#[test]
fn streams_are_made_when_they_are_first_used() {
    let pool = pool(&device(), 8);
    assert!(made(&pool).is_empty());
    pool.stream(5).unwrap();
    assert_eq!(made(&pool), [5]);
    assert_eq!(on_thread(|| current(&pool)), 1);
    assert_eq!(made(&pool), [1, 5]);
    assert!(pool.default_stream().unwrap().is_default());
    assert_eq!(made(&pool), [0, 1, 5]);
}

#[test]
fn urgent_streams_are_beyond_those_that_are_leased() {
    let pool = pool(&device(), 4);
    let [one, other, third] = [(); 3].map(|()| pool.urgent().unwrap().index());
    assert_eq!(HashSet::from([one, other]), HashSet::from([4, 5]));
    assert_eq!(third, one);
    assert!(matches!(
        pool.stream(4),
        Err(Error::NoSuchStream { index: 4, last: 3 })
    ));
    let urgent = pool.urgent().unwrap();
    pool.with_stream(urgent, || {
        let buffer = filled(pool.current().unwrap(), 3.0);
        assert_eq!(pool.current().unwrap().index(), urgent.index());
        assert_eq!(value_of(urgent, &buffer).unwrap(), 3.0);
    })
    .unwrap();
    assert_eq!(pool.snapshot().unwrap().free_streams, 3);
    // Of as many streams as there can be none is left for it.
    let full = crate::common::pool(&device(), 64);
    assert_eq!(full.urgent().unwrap().index(), current(&full));
}

#[test]
fn the_first_use_on_a_thread_leases_a_stream_of_its_own() {
    within(FOREVER, || {
        let pool = pool(&device(), 8);
        let all_here = Barrier::new(7);
        let streams = on_threads(7, |_| {
            let first = current(&pool);
            all_here.wait();
            let free = pool.snapshot().unwrap().free_streams;
            all_here.wait();
            assert_eq!(current(&pool), first, "the stream stays");
            (first, free)
        });
        let distinct: HashSet<u8> = streams.iter().map(|(stream, _)| *stream).collect();
        assert_eq!(distinct, (1..8).collect());
        assert!(streams.iter().all(|(_, free)| *free == 0));
        assert_all_returned(&pool);
    });
}

#[test]
fn a_lease_ends_with_its_thread_whose_work_is_finished_first() {
    let device = device();
    let pool = pool(&device, 4);
    device.injector().delay_queue(1, Duration::from_millis(2));
    let result = on_thread(|| {
        let stream = pool.current().unwrap();
        assert_eq!(stream.index(), 1);
        let mut buffers = (filled(stream, 0.0), buffer(stream));
        for _ in 0..10 {
            add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
            add(stream, &buffers.1, &mut buffers.0, 1.0).unwrap();
        }
        buffers.0
    });
    let made = pool.snapshot().unwrap().made;
    assert_eq!(made[0].completed, made[0].encoded);
    assert_eq!(pool.snapshot().unwrap().free_streams, 3);
    assert_eq!(value_of(pool.stream(2).unwrap(), &result).unwrap(), 20.0);
}

#[test]
fn releasing_the_current_stream_finishes_its_work_and_frees_it() {
    let device = device();
    let pool = pool(&device, 4);
    device.injector().delay_queue(1, Duration::from_millis(5));
    on_thread(|| {
        assert!(!pool.release_current_stream(), "there is none yet");
        let stream = pool.current().unwrap();
        drop(filled(stream, 1.0));
        assert!(pool.release_current_stream());
        assert!(stream.is_idle());
        assert_eq!(pool.snapshot().unwrap().free_streams, 3);
        assert!(!pool.release_current_stream());
        let _first = pool.lease().unwrap();
        assert_eq!(current(&pool), 2, "the next use leases another");
    });
    assert_all_returned(&pool);
}

#[test]
fn only_streams_of_the_pool_can_be_named() {
    for streams in [1, 2, 32, 64] {
        let pool = pool(&device(), streams);
        for index in 0..streams {
            assert_eq!(usize::from(pool.stream(index).unwrap().index()), index);
        }
        for index in [streams, 64, 255, 256, usize::MAX] {
            let last = streams - 1;
            let outcome = pool.stream(index).map(drop);
            match index < streams {
                true => outcome.unwrap(),
                false => assert_eq!(outcome, Err(Error::NoSuchStream { index, last })),
            }
        }
    }
}

#[test]
fn a_pool_of_one_stream_shares_the_default_stream() {
    let device = device();
    let alone = pool(&device, 1);
    assert_eq!(on_thread(|| current(&alone)), 0);
    let failing = pool_with(
        &device,
        settings().streams(1).exhaustion(WhenExhausted::Fail),
    );
    let outcome = on_thread(|| failing.current().map(drop));
    assert_eq!(outcome, Err(Error::NoFreeStream { limit: 0 }));
    failing.default_stream().unwrap().synchronize().unwrap();
}

#[test]
fn every_stream_of_a_pool_works_whatever_its_size() {
    within(FOREVER, || {
        for streams in [1, 2, 32, 64] {
            let pool = pool(&device(), streams);
            let threads = streams.max(2) - 1;
            let all_here = Barrier::new(threads);
            let used = on_threads(threads, |number| {
                let stream = pool.current().unwrap();
                all_here.wait();
                let buffer = filled(stream, number as f32);
                assert_eq!(value_of(stream, &buffer).unwrap(), number as f32);
                stream.index()
            });
            let used: HashSet<u8> = used.into_iter().collect();
            assert_eq!(used.len(), threads);
            assert_all_returned(&pool);
        }
    });
}

#[test]
fn scopes_nest_and_end() {
    let pool = pool(&device(), 8);
    on_thread(|| {
        let own = current(&pool);
        let inner = pool.with_stream(pool.stream(5).unwrap(), || {
            assert_eq!(current(&pool), 5);
            let inner = pool.with_stream(pool.stream(6).unwrap(), || current(&pool));
            assert_eq!(current(&pool), 5);
            inner.unwrap()
        });
        assert_eq!(inner, Ok(6));
        assert_eq!(current(&pool), own);
    });
}

#[test]
fn a_scope_ends_with_a_panic_too() {
    let pool = pool(&device(), 8);
    on_thread(|| {
        let own = current(&pool);
        let _outer = pool.with_stream(pool.stream(4).unwrap(), || {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                pool.with_stream(pool.stream(5).unwrap(), || {
                    pool.with_stream(pool.stream(6).unwrap(), || panic!("on purpose"))
                })
            }));
            assert!(panicked.is_err());
            assert_eq!(current(&pool), 4);
        });
        assert_eq!(current(&pool), own);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            pool.with_new_stream(|_| panic!("on purpose"))
        }));
        assert!(panicked.is_err());
        assert_eq!(current(&pool), own);
    });
    assert_all_returned(&pool);
}

#[test]
fn two_pools_interleave_on_one_thread() {
    let (one, two) = (pool(&device(), 8), pool(&device(), 8));
    on_thread(|| {
        let _taken = two.lease().unwrap();
        for _ in 0..3 {
            assert_eq!((current(&one), current(&two)), (1, 2));
        }
        one.with_stream(one.stream(5).unwrap(), || {
            assert_eq!((current(&one), current(&two)), (5, 2));
            let _other = two.with_stream(two.stream(6).unwrap(), || {
                assert_eq!((current(&one), current(&two)), (5, 6));
            });
            assert_eq!((current(&one), current(&two)), (5, 2));
        })
        .unwrap();
        assert_eq!((current(&one), current(&two)), (1, 2));
        assert!(one.release_current_stream());
        assert_eq!(current(&two), 2);
    });
    assert_all_returned(&one);
    assert_all_returned(&two);
}

#[test]
fn a_stream_of_another_pool_is_refused() {
    let device = device();
    let (one, two) = (pool(&device, 2), pool(&device, 2));
    let foreign = two.stream(1).unwrap();
    assert_eq!(one.with_stream(foreign, || ()), Err(Error::ForeignStream));
    let task = one.bind_future(foreign, async {}).map(drop);
    assert_eq!(task, Err(Error::ForeignStream));
    let waiting = one.stream(1).unwrap().wait_for_stream(foreign);
    assert_eq!(waiting, Err(Error::ForeignStream));
}

#[test]
fn a_fresh_stream_is_nobody_elses_and_goes_back() {
    let pool = pool(&device(), 3);
    on_thread(|| {
        let own = current(&pool);
        let fresh = pool.with_new_stream(|fresh| {
            assert_eq!(current(&pool), fresh.index());
            let none_left = pool.with_new_stream(|_| ()).unwrap_err();
            assert_eq!(none_left, Error::NoFreeStream { limit: 2 });
            fresh.index()
        });
        assert_ne!(fresh, Ok(own));
        assert_eq!(current(&pool), own);
        assert_eq!(pool.snapshot().unwrap().free_streams, 1);
    });
    assert_all_returned(&pool);
}

#[test]
fn a_thread_that_shares_a_stream_stays_on_it() {
    let (device, other) = (device(), pool(&device(), 4));
    let pool = pool(&device, 4);
    let _all: Vec<_> = (0..3).map(|_| pool.lease().unwrap()).collect();
    on_thread(|| {
        let shared = current(&pool);
        for _ in 0..3 {
            pool.with_stream(pool.stream(0).unwrap(), || ()).unwrap();
            assert_eq!(current(&pool), shared);
            current(&other);
            assert_eq!(current(&pool), shared);
        }
        assert!(pool.release_current_stream());
        assert_ne!(current(&pool), shared, "round robin");
    });
}

/// Lets others run so many times, and asserts each time that it is on its stream.
struct Yields<'a> {
    pool: &'a Pool,
    stream: u8,
    left: usize,
    threads: &'a Mutex<HashSet<ThreadId>>,
}

impl Future for Yields<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.threads.lock().unwrap().insert(thread::current().id());
        assert_eq!(current(self.pool), self.stream);
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Poll::Ready(()),
        }
        Poll::Pending
    }
}

#[test]
fn a_tasks_stream_follows_it_from_thread_to_thread() {
    let pool = &pool(&device(), 8);
    let threads: Vec<Mutex<HashSet<ThreadId>>> = (0..3).map(|_| Mutex::default()).collect();
    let done = Mutex::new(Vec::new());
    let mut tasks: VecDeque<_> = (0..3u8)
        .map(|task| {
            let (stream, done) = (task + 4, &done);
            let yields = |left| Yields {
                pool,
                stream,
                left,
                threads: &threads[usize::from(task)],
            };
            let (before, after) = (yields(5), yields(5));
            let future = async move {
                let filled = filled(pool.current().unwrap(), f32::from(task));
                before.await;
                let mut sum = buffer(pool.current().unwrap());
                add(pool.current().unwrap(), &filled, &mut sum, 1.0).unwrap();
                after.await;
                let value = value_of(pool.current().unwrap(), &sum).unwrap();
                done.lock().unwrap().push(value);
            };
            let stream = pool.stream(usize::from(stream)).unwrap();
            Box::pin(pool.bind_future(stream, future).unwrap())
        })
        .collect();
    // The executor: every poll happens on a thread of its own.
    while let Some(mut task) = tasks.pop_front() {
        let pending = on_thread(|| {
            let own = current(pool);
            let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(current(pool), own, "the thread has its own stream back");
            polled.is_pending()
        });
        if pending {
            tasks.push_back(task);
        }
    }
    assert!(threads.iter().all(|ids| ids.lock().unwrap().len() > 5));
    drop(tasks);
    let mut done = done.into_inner().unwrap();
    done.sort_by(f32::total_cmp);
    assert_eq!(done, [1.0, 2.0, 3.0]);
    assert_all_returned(pool);
}
