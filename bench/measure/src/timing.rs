//! Timing one thing over and over, on one thread or on several together.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use streampool::{Lease, Pool, Stream};

use crate::{Failure, Result};

/// So many calls between two looks at the clock, where the clock decides.
const CHUNK: u64 = 64;

/// Nanoseconds of one call, of as many as fill `slice`.
pub fn per_call(slice: Duration, mut call: impl FnMut() -> streampool::Result<()>) -> Result<f64> {
    Ok(1e9 * seconds_per_call(slice, |calls| time(calls, &mut call))?)
}

/// Seconds of one call, of as many as fill `slice`; `time` makes so many calls and says how long they took.
pub fn seconds_per_call(
    slice: Duration,
    mut time: impl FnMut(u64) -> Result<Duration>,
) -> Result<f64> {
    let mut calls = 1;
    loop {
        let elapsed = time(calls)?;
        if elapsed * 8 >= slice {
            let rest = slice.as_secs_f64() / elapsed.as_secs_f64();
            let calls = ((calls as f64 * rest) as u64).max(1);
            return Ok(time(calls)?.as_secs_f64() / calls as f64);
        }
        calls *= 2;
    }
}

/// How long this many calls take.
pub fn time(calls: u64, call: &mut impl FnMut() -> streampool::Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(begin.elapsed())
}

/// What one thread did between two times.
struct Run {
    begin: Instant,
    end: Instant,
    calls: u64,
}

/// Calls per second of all `workers` together, each on a thread of its own, with a stream of its own as the
/// current one.
pub fn rate<W>(pool: &Pool, streams: &[Lease], workers: &mut [W], slice: Duration) -> Result<f64>
where
    W: FnMut(&Stream) -> streampool::Result<()> + Send,
{
    let start = &Barrier::new(workers.len().min(streams.len()));
    let runs = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .zip(streams)
            .map(|(worker, stream)| {
                scope.spawn(move || {
                    pool.with_stream(stream, || work(worker, stream, slice, start))?
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| Failure::from("a thread panicked"))?
                    .map_err(Failure::from)
            })
            .collect::<Result<Vec<Run>>>()
    })?;
    let begin = runs.iter().map(|run| run.begin).min();
    let end = runs.iter().map(|run| run.end).max();
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err("no thread was measured".into());
    };
    let calls: u64 = runs.iter().map(|run| run.calls).sum();
    Ok(calls as f64 / (end - begin).as_secs_f64())
}

fn work(
    worker: &mut impl FnMut(&Stream) -> streampool::Result<()>,
    stream: &Stream,
    slice: Duration,
    start: &Barrier,
) -> streampool::Result<Run> {
    let warm = (0..CHUNK).try_for_each(|_| worker(stream));
    // All come here, also one that failed: the others wait for it.
    start.wait();
    warm?;
    // Threads that were just woken may share a processor for a while, though another is idle: what is
    // counted begins when the scheduler has had the time to spread them.
    run(worker, stream, slice)?;
    run(worker, stream, slice)
}

fn run(
    worker: &mut impl FnMut(&Stream) -> streampool::Result<()>,
    stream: &Stream,
    slice: Duration,
) -> streampool::Result<Run> {
    let begin = Instant::now();
    let mut calls = 0;
    loop {
        for _ in 0..CHUNK {
            worker(stream)?;
        }
        calls += CHUNK;
        let end = Instant::now();
        if end - begin >= slice {
            return Ok(Run { begin, end, calls });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_the_time_it_takes() {
        let call = || {
            thread::sleep(Duration::from_micros(200));
            Ok(())
        };
        let took = per_call(Duration::from_millis(4), call).unwrap();
        assert!(took >= 200_000.0, "{took} ns");
    }

    #[test]
    fn a_failing_call_ends_the_timing() {
        let call = || Err(streampool::Error::ShutDown);
        assert!(per_call(Duration::from_millis(1), call).is_err());
    }
}
