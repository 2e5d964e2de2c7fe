//! Many threads doing the same at the same time, and how often they do it together.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often per second all `workers` together do what they do, each on a thread of its own, all from the same
/// moment and for about `slice`.
///
/// A call of a worker says how much it did. Before the timing each is called for an eighth of `slice`, so that
/// what happens only once is not counted. The first failure is the result.
pub fn per_second<W, E>(workers: &mut [W], slice: Duration) -> Result<f64, E>
where
    W: FnMut() -> Result<u64, E> + Send,
    E: Send,
{
    let (gate, stop) = (&Barrier::new(workers.len() + 1), &AtomicBool::new(false));
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                scope.spawn(move || {
                    let arrival = Arrival(gate);
                    let warm = warm_up(worker, slice / 8);
                    drop(arrival);
                    warm.and_then(|()| count(worker, stop))
                })
            })
            .collect();
        gate.wait();
        let begin = Instant::now();
        thread::sleep(slice);
        stop.store(true, Ordering::Relaxed);
        let (mut total, mut last) = (0, Instant::now());
        for thread in threads {
            let (done, end) = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            total += done;
            last = last.max(end);
        }
        Ok(total as f64 / (last - begin).as_secs_f64())
    })
}

fn warm_up<E>(worker: &mut impl FnMut() -> Result<u64, E>, time: Duration) -> Result<(), E> {
    let begin = Instant::now();
    worker()?;
    while begin.elapsed() < time {
        worker()?;
    }
    Ok(())
}

/// How much the worker does until it is stopped, and when it was.
fn count<E>(
    worker: &mut impl FnMut() -> Result<u64, E>,
    stop: &AtomicBool,
) -> Result<(u64, Instant), E> {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        done += worker()?;
    }
    Ok((done, Instant::now()))
}

/// Comes to the gate when it is dropped, so that a worker that fails or panics keeps nobody waiting there.
struct Arrival<'a>(&'a Barrier);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Result<u64, String> {
        thread::sleep(Duration::from_millis(1));
        Ok(10)
    }

    #[test]
    fn what_all_do_is_added_up() {
        let rate = per_second(&mut [sleeper; 4], Duration::from_millis(80)).unwrap();
        // Four threads, ten each time, at most a thousand times a second.
        assert!(rate > 1_000.0 && rate <= 40_000.0, "{rate}");
    }

    #[test]
    fn a_failure_is_the_result_whenever_it_comes() {
        let mut at_once = [|| Err("at once")];
        assert_eq!(
            per_second(&mut at_once, Duration::from_millis(5)),
            Err("at once")
        );
        let mut calls = 0;
        let mut later = [move || {
            calls += 1;
            thread::sleep(Duration::from_millis(1));
            if calls > 20 { Err("later") } else { Ok(1) }
        }];
        assert_eq!(
            per_second(&mut later, Duration::from_millis(80)),
            Err("later")
        );
    }

    #[test]
    #[should_panic(expected = "a broken worker")]
    fn a_panic_reaches_the_caller() {
        let broken = || -> Result<u64, ()> { panic!("a broken worker") };
        let _ = per_second(&mut [broken], Duration::from_millis(5));
    }

    #[test]
    fn nobody_does_nothing() {
        let mut nobody: [fn() -> Result<u64, ()>; 0] = [];
        assert_eq!(per_second(&mut nobody, Duration::from_millis(1)), Ok(0.0));
    }
}
