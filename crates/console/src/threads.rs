//! Several threads that begin at the same time.

use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use streampool::{Settings, WhenExhausted};

use crate::{Failure, Result};

/// What threads did together.
pub struct Together<B, T> {
    /// What was found when all were ready and none had begun.
    pub before: B,
    /// When they began.
    pub begin: Instant,
    /// What each did.
    pub done: Vec<T>,
}

/// Refuses more threads than have streams, where a thread without one would wait for another to end.
pub fn check(threads: usize) -> Result<()> {
    let settings = Settings::builder().build()?;
    let waits = matches!(settings.exhaustion, WhenExhausted::Wait(_));
    if waits && threads >= settings.streams {
        return Err(format!(
            "{threads} threads need {} streams, since a thread waits for one here: set STREAMPOOL_STREAMS",
            threads + 1
        )
        .into());
    }
    Ok(())
}

/// A thread for each of `callers`: it prepares, waits until all have, and works. `before` is called in between.
pub fn together<C: Send, P, B, T: Send>(
    callers: impl ExactSizeIterator<Item = C>,
    prepare: impl Fn(C) -> Result<P> + Sync,
    before: impl FnOnce() -> B,
    work: impl Fn(P, Instant) -> Result<T> + Sync,
) -> Result<Together<B, T>> {
    let gate = &Barrier::new(callers.len() + 1);
    let begin = &OnceLock::new();
    let (prepare, work) = (&prepare, &work);
    thread::scope(|scope| {
        let run = |caller| {
            let prepared = prepare(caller);
            // All come here, also one that failed: the others wait for it.
            gate.wait();
            gate.wait();
            work(prepared?, *begin.get_or_init(Instant::now))
        };
        let running: Vec<_> = callers
            .map(|caller| scope.spawn(move || run(caller)))
            .collect();
        gate.wait();
        let before = before();
        gate.wait();
        let begin = *begin.get_or_init(Instant::now);
        let ended = running.into_iter().map(|thread| {
            thread
                .join()
                .map_err(|_| Failure::from("a thread panicked"))?
        });
        let done = ended.collect::<Result<_>>()?;
        Ok(Together {
            before,
            begin,
            done,
        })
    })
}

/// How much all `workers` together do per second, each on a thread of its own; a call says how much it did.
///
/// Each is timed from when the first begins until it has done its last piece, since where threads are more than processors some
/// begin late. Who is through goes on uncounted until all are, so that the last ones do not have the machine to themselves.
pub fn per_second<W>(workers: &mut [W], slice: Duration) -> Result<f64>
where
    W: FnMut() -> Result<u64> + Send,
{
    // Counts who is not through: one that fails gives its back, too.
    let counted = Arc::new(());
    let warm = |(worker, token)| {
        until(slice / 8, Instant::now(), worker).map(|(worker, ..)| (worker, token))
    };
    let count = |(worker, token), begin| {
        let (worker, done, end) = until::<W>(slice, begin, worker)?;
        drop(token);
        while Arc::strong_count(&counted) > 1 {
            worker()?;
        }
        Ok(done as f64 / (end - begin).as_secs_f64())
    };
    let tokens = workers.iter().map(|_| counted.clone()).collect::<Vec<_>>();
    let workers = workers.iter_mut().zip(tokens);
    let rates = together(workers, warm, || (), count)?.done;
    Ok(rates.iter().sum())
}

/// Calls a worker until so much time is over, once at least; says how much it did, and when it ended.
fn until<W: FnMut() -> Result<u64>>(
    time: Duration,
    begin: Instant,
    worker: &mut W,
) -> Result<(&mut W, u64, Instant)> {
    let mut done = 0;
    loop {
        done += worker()?;
        let now = Instant::now();
        if now - begin >= time {
            return Ok((worker, done, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn nobody_works_before_all_are_ready() {
        let ready = AtomicUsize::new(0);
        let done = together(
            0..8,
            |number| {
                ready.fetch_add(1, Ordering::Relaxed);
                Ok(number)
            },
            || ready.load(Ordering::Relaxed),
            |number, begin| Ok((number, begin, ready.load(Ordering::Relaxed))),
        )
        .unwrap();
        assert_eq!(done.before, 8);
        let expected: Vec<_> = (0..8).map(|number| (number, done.begin, 8)).collect();
        assert_eq!(done.done, expected);
    }

    #[test]
    fn one_that_fails_keeps_nobody_waiting() {
        let prepare = |number| match number {
            3 => Err("the fourth is not ready".into()),
            _ => Ok(()),
        };
        let outcome = together(0..8, prepare, || (), |(), _| Ok(()));
        let error = outcome.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("the fourth is not ready"));
    }

    fn sleeper() -> Result<u64> {
        thread::sleep(Duration::from_millis(1));
        Ok(10)
    }

    #[test]
    fn what_all_do_is_added_up() {
        let rate = || per_second(&mut [sleeper; 4], Duration::from_millis(48)).unwrap();
        // Four threads, ten each time, at most a thousand times a second. On a busy machine some sleep much longer.
        let is_enough = (0..10).any(|_| {
            let rate = rate();
            assert!(rate <= 40_000.0, "{rate}");
            rate > 1_000.0
        });
        assert!(is_enough);
        let mut nobody: [fn() -> Result<u64>; 0] = [];
        assert_eq!(per_second(&mut nobody, Duration::ZERO).unwrap(), 0.0);
    }

    #[test]
    fn a_failure_is_the_result_whenever_it_comes() {
        // At once, at the first call that counts, and in the midst of many.
        let long = Duration::from_secs(30);
        for (good, slice) in [(0, long), (1, Duration::ZERO), (20, long)] {
            let mut calls = 0;
            let later = move || {
                calls += 1;
                thread::sleep(Duration::from_millis(1));
                if calls > good {
                    Err("it broke".into())
                } else {
                    Ok(1)
                }
            };
            let outcome = per_second(&mut [later], slice);
            assert_eq!(outcome.unwrap_err().to_string(), "it broke");
        }
    }
}
