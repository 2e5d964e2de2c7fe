//! What the cache promises under threads, failures and pressure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use streampool_kernels::Cache;

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

#[test]
fn sixty_four_threads_compile_one_key_once() {
    let cache: Cache<u64, u64> = Cache::new("test", 1000);
    for key in 0..20 {
        let compiles = AtomicUsize::new(0);
        let start = Barrier::new(64);
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    start.wait();
                    let value = cache.get_or_compile(&key, || {
                        compiles.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        Ok(key * 10)
                    });
                    assert_eq!(value.as_deref(), Ok(&(key * 10)));
                });
            }
        });
        assert_eq!(count(&compiles), 1, "key {key}");
    }
    let report = cache.report();
    assert_eq!(
        (report.entries, report.compiled, report.loaded),
        (20, 20, 0)
    );
}

#[test]
fn one_blocked_compile_blocks_no_other_key() {
    let cache: Cache<u64, u64> = Cache::new("test", 1000);
    let (release, released) = mpsc::channel::<()>();
    let (entered, has_entered) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let cache = &cache;
        let blocked = scope.spawn(move || {
            cache.get_or_compile(&u64::MAX, || {
                entered.send(()).map_err(|error| error.to_string())?;
                released.recv().map_err(|error| error.to_string())?;
                Ok(1)
            })
        });
        has_entered.recv().unwrap();
        // More keys than shards: some share the blocked key's shard.
        for key in 0..200 {
            assert_eq!(cache.get_or_compile(&key, || Ok(key)).as_deref(), Ok(&key));
            assert_eq!(cache.get_or_compile(&key, || Ok(9999)).as_deref(), Ok(&key));
        }
        assert!(!blocked.is_finished());
        release.send(()).unwrap();
        assert_eq!(blocked.join().unwrap().as_deref(), Ok(&1));
    });
}

#[test]
fn a_failure_reaches_all_who_waited_and_is_not_remembered() {
    let cache: Cache<u64, u64> = Cache::new("test", 1000);
    let compiles = AtomicUsize::new(0);
    let asking = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                asking.fetch_add(1, Ordering::SeqCst);
                let answer = cache.get_or_compile(&5, || {
                    compiles.fetch_add(1, Ordering::SeqCst);
                    while count(&asking) < 8 {
                        thread::yield_now();
                    }
                    Err("no compiler".to_owned())
                });
                assert_eq!(answer.err().as_deref(), Some("no compiler"));
            });
        }
    });
    assert!(count(&compiles) <= 8);
    assert_eq!(cache.report().entries, 0);
    assert_eq!(cache.report().compiled, 0);
    assert_eq!(cache.get_or_compile(&5, || Ok(50)).as_deref(), Ok(&50));
}

#[test]
fn a_panic_releases_who_waits_and_they_try_again() {
    let cache: Cache<u64, u64> = Cache::new("test", 1000);
    let (entered, has_entered) = mpsc::channel::<()>();
    let waiting = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (cache, waiting) = (&cache, &waiting);
        let leader = scope.spawn(move || {
            catch_unwind(AssertUnwindSafe(|| {
                cache.get_or_compile(&1, || {
                    entered.send(()).map_err(|error| error.to_string())?;
                    while count(waiting) < 7 {
                        thread::yield_now();
                    }
                    panic!("the compiler crashed")
                })
            }))
        });
        has_entered.recv().unwrap();
        let others: Vec<_> = (0..7)
            .map(|_| {
                scope.spawn(move || {
                    waiting.fetch_add(1, Ordering::SeqCst);
                    cache.get_or_compile(&1, || Ok(11))
                })
            })
            .collect();
        assert!(leader.join().unwrap().is_err());
        for other in others {
            assert_eq!(other.join().unwrap().as_deref(), Ok(&11));
        }
    });
    assert_eq!(cache.report().compiled, 1);
}

#[test]
fn it_stays_within_its_capacity_and_keeps_what_is_used() {
    let cache: Cache<u64, u64> = Cache::new("test", 256);
    let hot = 1_000_000;
    let hot_compiles = AtomicUsize::new(0);
    for key in 0..20_000 {
        cache.get_or_compile(&key, || Ok(key)).unwrap();
        let value = cache.get_or_compile(&hot, || {
            hot_compiles.fetch_add(1, Ordering::SeqCst);
            Ok(hot)
        });
        assert_eq!(value.as_deref(), Ok(&hot));
    }
    let entries = cache.report().entries;
    assert!((16..=256).contains(&entries), "{entries} entries");
    assert_eq!(count(&hot_compiles), 1);
}

#[test]
fn a_compile_may_ask_for_other_keys() {
    let cache: Cache<u64, u64> = Cache::new("test", 1000);
    fn sum(cache: &Cache<u64, u64>, key: u64) -> Result<u64, String> {
        let value = cache.get_or_compile(&key, || match key {
            0 => Ok(0),
            _ => Ok(key + sum(cache, key - 1)?),
        })?;
        Ok(*value)
    }
    assert_eq!(sum(&cache, 100), Ok(5050));
}
