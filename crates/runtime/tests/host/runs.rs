//! Runs take a stream for as long as they last, in the order of coming.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use streampool_host::OpMatcher;
use streampool_runtime::{Error, Op, Pool, WhenExhausted};

/// The stream of a run that does a little.
fn run(pool: &Pool) -> u8 {
    let ran = pool.for_run(None, |stream| {
        assert_eq!(pool.current().unwrap(), stream, "it is the current one");
        assert_eq!(value_of(stream, &filled(stream, 2.0)), Ok(2.0));
        stream.index()
    });
    ran.unwrap()
}

fn free(pool: &Pool) -> usize {
    pool.snapshot().unwrap().free_streams
}

#[test]
fn a_thread_that_runs_holds_no_stream_between_runs_and_comes_back_to_its_own() {
    let pool = pool(&device(), 8);
    let other = pool.lease().unwrap();
    on_thread(|| {
        let own = run(&pool);
        assert_ne!(own, other.index());
        assert_eq!(free(&pool), 6, "it holds none");
        for _ in 0..10 {
            assert_eq!(run(&pool), own);
        }
        let another = on_thread(|| run(&pool));
        assert_ne!(another, own, "a thread that comes leaves others theirs");
    });
}

#[test]
fn a_run_is_where_its_thread_is_put() {
    let pool = pool(&device(), 8);
    on_thread(|| {
        let stream = pool.stream(5).unwrap();
        assert_eq!(pool.with_stream(stream, || run(&pool)).unwrap(), 5);
        let nested = pool.for_run(None, |outer| (outer.index(), run(&pool)));
        let (outer, inner) = nested.unwrap();
        assert_eq!(outer, inner);
        let leased = pool.current().unwrap().index();
        assert_eq!(run(&pool), leased);
        assert_eq!(pool.current().unwrap().index(), leased, "nobody waits");
    });
    assert_all_returned(&pool);
}

#[test]
fn a_crowd_of_threads_gets_turns_in_order() {
    within(FOREVER, || {
        for exhaustion in [WhenExhausted::Share, WhenExhausted::Wait(None)] {
            // A busy machine may keep one thread from a processor for many turns of the others, but not each time.
            assert!(
                (0..5).any(|_| a_crowd_is_even(exhaustion)),
                "{exhaustion:?}"
            );
        }
    });
}

/// Whether each of many threads ran at least half as often as any other.
fn a_crowd_is_even(exhaustion: WhenExhausted) -> bool {
    let pool = pool_with(&device(), settings().streams(4).exhaustion(exhaustion));
    let stop = AtomicBool::new(false);
    let counts: [AtomicUsize; 40] = std::array::from_fn(|_| AtomicUsize::new(0));
    let now = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let is_even = std::thread::scope(|scope| {
        let threads = counts.each_ref().map(|count| {
            let (pool, stop) = (&pool, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    run(pool);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        // Threads do not all start at once.
        until("all run", || now().iter().all(|count| *count > 5));
        let begun = now();
        let since = || -> Vec<usize> {
            let counts = now().into_iter().zip(begun);
            counts.map(|(now, begun)| now - begun).collect()
        };
        until("all ran often", || {
            since().iter().all(|count| *count >= rounds(100))
        });
        let runs = since();
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(join);
        let (fewest, most) = (runs.iter().min(), runs.iter().max());
        println!("{exhaustion:?}: {runs:?}");
        fewest.unwrap() * 2 >= *most.unwrap()
    });
    assert_all_returned(&pool);
    is_even
}

#[test]
fn a_lease_goes_to_who_waits_when_a_run_on_it_ends() {
    within(FOREVER, || {
        let wait = settings().streams(2).exhaustion(WhenExhausted::Wait(None));
        let pool = pool_with(&device(), wait);
        let leased = Barrier::new(2);
        std::thread::scope(|scope| {
            let pool = &pool;
            let leased = &leased;
            let first = scope.spawn(move || {
                pool.current().unwrap();
                leased.wait();
                until("the other waits", || {
                    pool.snapshot().unwrap().waiting_threads == 1
                });
                assert_eq!(run(pool), 1);
                // Its next use waits in its turn.
                assert_eq!(pool.current().unwrap().index(), 1);
            });
            leased.wait();
            assert_eq!(join(scope.spawn(move || run(pool))), 1);
            join(first);
        });
        assert_all_returned(&pool);
    });
}

#[test]
fn where_leases_have_all_streams_a_run_shares_one() {
    within(FOREVER, || {
        let pool = pool(&device(), 3);
        let leases = [(); 2].map(|()| pool.lease().unwrap());
        on_thread(|| {
            for _ in 0..3 {
                assert!([1, 2].contains(&run(&pool)));
            }
        });
        drop(leases);
        assert_eq!(on_thread(|| run(&pool)), 1);
        assert_all_returned(&pool);
    });
}

#[test]
fn a_run_waits_until_its_deadline_and_fails_where_it_must_not_wait() {
    let soon = || Some(Instant::now() + Duration::from_millis(5));
    let wait = settings().streams(2).exhaustion(WhenExhausted::Wait(None));
    let pool = pool_with(&device(), wait);
    let lease = pool.lease().unwrap();
    let late = on_thread(|| pool.for_run(soon(), |_| ()));
    assert_eq!(late, Err(Error::Deadline));
    drop(lease);
    let later = || Some(Instant::now() + FOREVER);
    on_thread(|| pool.for_run(later(), |_| ()).unwrap());
    let fail = settings().streams(2).exhaustion(WhenExhausted::Fail);
    let pool = pool_with(&device(), fail);
    let _lease = pool.lease().unwrap();
    let refused = on_thread(|| pool.for_run(None, |_| ()));
    assert_eq!(refused, Err(Error::NoFreeStream { limit: 1 }));
}

#[test]
fn after_a_panic_or_a_fault_the_stream_is_good_for_the_next() {
    let device = device();
    let pool = pool(&device, 2);
    on_thread(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            pool.for_run(None, |_| panic!("on purpose")).unwrap()
        }));
        assert!(panicked.is_err());
        let which = OpMatcher::any().on_queue(1);
        device.injector().fail_op(which, 1, "broken on purpose");
        let failed = pool.for_run(None, |stream| {
            stream.encode(Op::Nop).unwrap();
            stream.synchronize()
        });
        assert!(failed.unwrap().is_err());
        assert_eq!(run(&pool), 1);
    });
    assert_all_returned(&pool);
}
