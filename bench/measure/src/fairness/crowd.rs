//! A crowd: threads that run one session flat out, while others come.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use streampool::model::Session;

use super::first::{Firsts, Newcomers, News, Took, input};
use crate::latencies::Latencies;
use crate::{Failure, Result};

/// What a thread waits in its first moments is told as a first answer, not as a wait.
const FIRST_MOMENTS: Duration = Duration::from_millis(10);

/// How long a newcomer rests before the next thing.
const REST: Duration = Duration::from_millis(20);

/// What a crowd came to. Times are in seconds.
#[derive(Debug, Serialize)]
pub struct Crowd {
    pub threads: usize,
    /// Of these, so many ran flat out.
    pub steady: usize,
    pub runs_per_second: f64,
    /// Runs of the steady thread that got the fewest, and of the one that got the most, from the moment when each had its
    /// first answer.
    pub fewest: u64,
    pub most: u64,
    pub fewest_by_most: f64,
    pub p99_9: Option<f64>,
    pub longest_wait: f64,
    /// First answers of the other threads.
    pub firsts: Firsts,
}

/// What one steady thread did.
struct Done {
    times: Vec<Duration>,
    /// Those after the first answer of the last thread: a thread that started earlier had the device for itself.
    compared: u64,
    longest: Duration,
}

/// Runs `session` on so many threads for about `slice`. A quarter of them are newcomers, one at least.
pub fn run(
    session: &Session,
    newcomers: &Newcomers<'_>,
    threads: usize,
    slice: Duration,
) -> Result<Crowd> {
    let others = (threads / 4).max(1);
    let steady = threads.saturating_sub(others).max(1);
    let stop = &AtomicBool::new(false);
    let to_begin = &AtomicUsize::new(steady);
    let begun = Instant::now();
    let (done, firsts) = std::thread::scope(|scope| {
        let flat_out: Vec<_> = (0..steady)
            .map(|_| scope.spawn(|| flat_out(session, to_begin, stop)))
            .collect();
        let coming: Vec<_> = (0..others)
            .map(|number| scope.spawn(move || come(newcomers, number, stop)))
            .collect();
        // Those that wait for their first answer in vain are not waited for.
        let late = Instant::now() + slice;
        while to_begin.load(Ordering::Relaxed) > 0 && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(slice);
        stop.store(true, Ordering::Relaxed);
        let done: Result<Vec<Done>> = flat_out.into_iter().map(ended).collect();
        let firsts: Result<Vec<Vec<_>>> = coming.into_iter().map(ended).collect();
        Ok::<_, Failure>((done?, firsts?.concat()))
    })?;
    let took = begun.elapsed();
    let compared = || done.iter().map(|done| done.compared);
    let fewest = compared().min().unwrap_or(0);
    let most = compared().max().unwrap_or(0);
    let total: usize = done.iter().map(|done| done.times.len()).sum();
    let longest = done.iter().map(|done| done.longest).max();
    let times = done.into_iter().flat_map(|done| done.times).collect();
    Ok(Crowd {
        threads,
        steady,
        runs_per_second: total as f64 / took.as_secs_f64(),
        fewest,
        most,
        fewest_by_most: fewest as f64 / most.max(1) as f64,
        p99_9: Latencies::new(times).percentiles().p99_9,
        longest_wait: longest.unwrap_or_default().as_secs_f64(),
        firsts: Firsts::of(&firsts),
    })
}

fn ended<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let ended = thread.join();
    ended.map_err(|_| Failure::from("a thread panicked"))?
}

/// Runs again and again.
fn flat_out(session: &Session, to_begin: &AtomicUsize, stop: &AtomicBool) -> Result<Done> {
    let row = input(1);
    let counts_from = Instant::now() + FIRST_MOMENTS;
    let mut done = Done {
        times: Vec::new(),
        compared: 0,
        longest: Duration::ZERO,
    };
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        session.run([("x", &row)])?;
        let ended = Instant::now();
        if done.times.is_empty() {
            to_begin.fetch_sub(1, Ordering::Relaxed);
        }
        done.compared += u64::from(to_begin.load(Ordering::Relaxed) == 0);
        done.times.push(ended - begun);
        let waited = ended.saturating_duration_since(begun.max(counts_from));
        done.longest = done.longest.max(waited);
    }
    Ok(done)
}

/// Brings one piece of news after the other; neighbours bring different ones.
fn come(newcomers: &Newcomers<'_>, number: usize, stop: &AtomicBool) -> Result<Vec<(News, Took)>> {
    let mut firsts = Vec::new();
    let news = News::ALL.iter().cycle().skip(number % News::ALL.len());
    for &news in news {
        std::thread::sleep(REST);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        firsts.push((news, newcomers.first(news)?));
    }
    Ok(firsts)
}
