//! How often models are run, by one thread or by many.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use streampool::Session;

use super::setting::Subject;
use crate::threads::together;
use crate::{Failure, Result};

/// Each figure is taken so often, in turn with those it is compared with, each time in a part of the slice. The best counts:
/// what disturbs a machine only ever makes it slower.
pub const ROUNDS: usize = 5;

/// How much all `workers` together do per second, each on a thread of its own; a call says how much it did.
///
/// Each is timed from when the first begins until it has done its last piece, since where threads are more than processors some
/// begin late. Who is through goes on uncounted until all are, so that the last ones do not have the machine to themselves.
pub fn per_second<W>(workers: &mut [W], slice: Duration) -> Result<f64>
where
    W: FnMut() -> Result<u64> + Send,
{
    let slice = slice / ROUNDS as u32;
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

/// Runs per second of as many threads as there are sessions, each running its own.
pub fn of_threads(subject: &Subject, sessions: &[&Session], slice: Duration) -> Result<f64> {
    let worker = |(number, session): (usize, &&Session)| {
        let (session, inputs) = ((*session).clone(), subject.inputs(number));
        move || {
            session.run_positional(&inputs)?;
            Ok(1)
        }
    };
    let mut workers: Vec<_> = sessions.iter().enumerate().map(worker).collect();
    per_second(&mut workers, slice)
}

/// So many seconds of a processor may go to handing a run to another thread and back, in which its own could have begun another.
const HANDING_OVER: f64 = 5e-6;

/// A rate of `processors`, as it is if each run is handed over.
pub fn handed_over(rate: f64, processors: usize) -> f64 {
    1.0 / (1.0 / rate + HANDING_OVER / processors as f64)
}

/// The processors that there are.
pub fn processors() -> usize {
    available_parallelism().map_or(1, |cores| cores.get())
}

/// The largest of some rates.
pub fn best(rates: &[f64]) -> Result<f64> {
    let best = rates.iter().copied().max_by(f64::total_cmp);
    best.ok_or_else(|| Failure::from("nothing was measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Result<u64> {
        std::thread::sleep(Duration::from_millis(1));
        Ok(10)
    }

    #[test]
    fn what_all_do_is_added_up() {
        let rate = per_second(&mut [sleeper; 4], Duration::from_millis(240)).unwrap();
        // Four threads, ten each time, at most a thousand times a second.
        assert!(rate > 1_000.0 && rate <= 40_000.0, "{rate}");
    }

    #[test]
    fn a_failure_is_the_result_whenever_it_comes() {
        for good in [0, 20] {
            let mut calls = 0;
            let later = move || {
                calls += 1;
                std::thread::sleep(Duration::from_millis(1));
                if calls > good {
                    Err("it broke".into())
                } else {
                    Ok(1)
                }
            };
            let outcome = per_second(&mut [later], Duration::from_secs(1));
            assert_eq!(outcome.unwrap_err().to_string(), "it broke");
        }
    }

    #[test]
    fn handing_over_takes_its_time() {
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 1e-9;
        assert!(near(handed_over(200e3, 1), 100e3));
        assert!(near(handed_over(200e3, 2), 200e3 / 1.5));
        assert!(near(handed_over(100.0, 1), 100.0 / 1.0005));
    }

    #[test]
    fn the_best_is_the_largest() {
        assert_eq!(best(&[3.0, 1.0, 3.5, 2.0]).unwrap(), 3.5);
        assert!(best(&[]).is_err());
    }
}
