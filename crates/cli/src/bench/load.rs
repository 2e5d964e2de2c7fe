//! Callers that ask for something: again as soon as they have it, or as requests arrive.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use streampool_simulate::{ArrivalTimes, Arrivals};

use crate::latencies::Latencies;
use crate::{Result, threads};

/// Calls of each caller before anything is measured.
const WARM: usize = 2;

/// Requests arrive at the same times in every run.
const SEED: u64 = 22;

/// What has not begun by so many times the time of a load is given up.
const PATIENCE: u32 = 2;

/// A wait ends late by about as much; what is left of it is waited for awake.
const SLACK: Duration = Duration::from_micros(60);

/// What callers do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// For how long.
    pub time: Duration,
    /// For how long before anything is measured.
    pub warm: Duration,
    /// Requests that arrive each second; without, each caller asks again as soon as it can.
    pub rate: Option<f64>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Calls {
    /// How long each took that had an answer, from when it should have begun.
    pub times: Vec<Duration>,
    /// Those that failed.
    pub failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// How long each has waited that was given up.
    pub given_up: Vec<Duration>,
}

/// What all callers did together.
pub struct Driven<B> {
    /// What was found before they began.
    pub before: B,
    /// From the begin to the last answer.
    pub seconds: f64,
    /// What came of it.
    pub calls: Calls,
}

impl Calls {
    fn note(&mut self, outcome: Result<()>, due: Instant) {
        match outcome {
            Ok(()) => self.times.push(due.elapsed()),
            Err(failure) => {
                self.failed += 1;
                self.failure.get_or_insert_with(|| failure.to_string());
            }
        }
    }

    fn and(mut self, other: Calls) -> Calls {
        self.times.extend(other.times);
        self.failed += other.failed;
        self.failure = self.failure.or(other.failure);
        self.given_up.extend(other.given_up);
        self
    }

    /// How long all took. What was given up would have taken longer than it has waited.
    pub fn latencies(&self) -> Latencies {
        Latencies::new([&self.times[..], &self.given_up].concat())
    }
}

/// Each of `callers` asks on a thread of its own.
pub fn drive<C: Send, B>(
    callers: impl ExactSizeIterator<Item = C>,
    load: Load,
    ask: impl Fn(&C) -> Result<()> + Sync,
    before: impl FnOnce() -> B,
) -> Result<Driven<B>> {
    let arrivals = load.rate.map(|rate| Mutex::new(arrivals(rate, load.time)));
    let warm = |caller: C| {
        let begin = Instant::now();
        (0..WARM).try_for_each(|_| ask(&caller))?;
        while begin.elapsed() < load.warm {
            ask(&caller)?;
        }
        Ok(caller)
    };
    let work = |caller: C, begin| {
        let mut calls = Calls::default();
        match &arrivals {
            Some(arrivals) => answer(arrivals, load.time, begin, || ask(&caller), &mut calls),
            None => repeat(load.time, begin, || ask(&caller), &mut calls),
        }
        Ok((calls, begin.elapsed()))
    };
    let together = threads::together(callers, warm, before, work)?;
    let ends = together.done.iter().map(|(_, end)| end.as_secs_f64());
    // The last request may have arrived, and been answered, before the time was over.
    let least = load.rate.map_or(0.0, |_| load.time.as_secs_f64());
    let seconds = ends.fold(least, f64::max);
    let each = together.done.into_iter().map(|(calls, _)| calls);
    Ok(Driven {
        before: together.before,
        seconds,
        calls: each.fold(Calls::default(), Calls::and),
    })
}

/// When requests arrive that nobody holds back, at so many each second: how long after the begin.
fn arrivals(rate: f64, time: Duration) -> impl Iterator<Item = Duration> + Send {
    let times = ArrivalTimes::new(Arrivals::Poisson { rate }, SEED);
    let times = times.map(Duration::from_secs_f64);
    times.take_while(move |&arrival| arrival < time)
}

/// Asks again as soon as there is an answer.
fn repeat(time: Duration, begin: Instant, ask: impl Fn() -> Result<()>, calls: &mut Calls) {
    loop {
        let due = Instant::now();
        calls.note(ask(), due);
        if begin.elapsed() >= time {
            return;
        }
    }
}

/// Takes what arrives next, and asks for it; late, if all callers were busy when it arrived.
fn answer(
    arrivals: &Mutex<impl Iterator<Item = Duration>>,
    time: Duration,
    begin: Instant,
    ask: impl Fn() -> Result<()>,
    calls: &mut Calls,
) {
    let next = || {
        arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    while let Some(arrival) = next() {
        let end = time * PATIENCE;
        if begin.elapsed() > end {
            calls.given_up.push(end - arrival);
            continue;
        }
        let due = begin + arrival;
        wait_until(due);
        calls.note(ask(), due);
    }
}

fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    thread::sleep(left.saturating_sub(SLACK));
    while Instant::now() < due {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn load(milliseconds: u64, rate: Option<f64>) -> Load {
        Load {
            time: Duration::from_millis(milliseconds),
            warm: Duration::ZERO,
            rate,
        }
    }

    #[test]
    fn callers_ask_until_the_time_is_over() {
        let asked = AtomicUsize::new(0);
        let ask = |_: &usize| {
            asked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(MILLISECOND);
            Ok(())
        };
        let before = || asked.load(Ordering::Relaxed);
        let driven = drive(0..3, load(20, None), ask, before).unwrap();
        assert_eq!(driven.before, 3 * WARM);
        let measured = asked.load(Ordering::Relaxed) - driven.before;
        assert_eq!(driven.calls.times.len(), measured);
        assert!((3..=3 * 21).contains(&measured), "{measured}");
        assert!(driven.calls.times.iter().all(|time| *time >= MILLISECOND));
        assert!(driven.seconds >= 0.02);
    }

    #[test]
    fn waiting_counts_from_the_arrival() {
        // One caller, and twice as many requests as it can answer: each waits for all before it.
        let ask = |_: &()| {
            thread::sleep(MILLISECOND * 2);
            Ok(())
        };
        let callers = std::iter::once(());
        let calls = drive(callers, load(200, Some(1000.0)), ask, || ())
            .unwrap()
            .calls;
        let arrived = arrivals(1000.0, MILLISECOND * 200).count();
        assert_eq!(calls.times.len() + calls.given_up.len(), arrived);
        let longest = calls.times.iter().max().copied().unwrap_or_default();
        assert!(longest > MILLISECOND * 20, "{longest:?}");
        assert_eq!(calls.latencies().count(), arrived);
    }

    #[test]
    fn what_nobody_gets_to_is_given_up() {
        let ask = |_: &()| {
            thread::sleep(MILLISECOND * 30);
            Ok(())
        };
        let callers = std::iter::once(());
        let calls = drive(callers, load(40, Some(1000.0)), ask, || ())
            .unwrap()
            .calls;
        assert!(
            calls.times.len() <= 4 && calls.given_up.len() > 10,
            "{calls:?}"
        );
        // It came before the time was over, and waited until twice the time.
        assert!(calls.given_up.iter().all(|time| *time >= MILLISECOND * 40));
    }

    #[test]
    fn failures_are_counted_with_the_first_reason() {
        let asked = AtomicUsize::new(0);
        let ask = |_: &()| match asked.fetch_add(1, Ordering::Relaxed) {
            early if early < WARM => Ok(()),
            number => Err(format!("number {number}").into()),
        };
        let callers = std::iter::once(());
        let calls = drive(callers, load(1, None), ask, || ()).unwrap().calls;
        assert_eq!(calls.failure.as_deref(), Some("number 2"));
        assert!(calls.failed >= 1 && calls.times.is_empty());
    }
}
