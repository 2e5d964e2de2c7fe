//! What a queue adds to the function that it calls.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use streampool::batch::{Batch, BatchQueue, Request};

use super::row;
use crate::bench::figure::{Figure, Goal, Measurement, Unit};
use crate::latencies::{Latencies, again_and_again};
use crate::{Result, threads};

/// Numbers of a request.
const LENGTH: usize = 16;

const CALLERS: usize = 64;

/// So many calls between two looks at the clock.
const CHUNK: u64 = 16;

/// Threads take turns on few processors: a round is so much longer that each has had several.
const TURNS: u32 = 8;

/// About how long the function takes that does something.
const WORK: Duration = Duration::from_micros(50);

fn nothing() -> Result<BatchQueue> {
    Ok(BatchQueue::builder().build(Ok::<Batch, Infallible>)?)
}

/// The median time of a call.
fn median(slice: Duration, call: impl FnMut() -> Result<()>) -> Result<f64> {
    let times = again_and_again(slice, call)?;
    Ok(Latencies::new(times).at(0.5).as_nanos() as f64)
}

/// From asking to the answer of a function that does nothing.
pub fn infer() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_infer_ns",
        what: "infer, a no-op, one caller",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(3000.0)),
    };
    let queue = nothing()?;
    Ok(Measurement::new(FIGURE, move |slice| {
        median(slice, || Ok(queue.infer(row(LENGTH)).map(drop)?))
    }))
}

/// The same with a ticket in between.
pub fn submit() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_submit_ns",
        what: "  submit, then wait",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(3000.0)),
    };
    let queue = nothing()?;
    Ok(Measurement::new(FIGURE, move |slice| {
        median(slice, || {
            let ticket = queue.submit(Request::new(row(LENGTH)))?;
            Ok(ticket.wait().map(drop)?)
        })
    }))
}

/// Requests that many callers get through together.
pub fn many_callers() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_callers_64",
        what: "  64 callers",
        unit: Unit::Rate,
        goal: Some(Goal::AtLeast(1e6)),
    };
    let queue = nothing()?;
    Ok(Measurement::new(FIGURE, move |slice| {
        let ask = || Ok(queue.infer(row(LENGTH)).map(drop)?);
        let time = slice * TURNS;
        let count = |(), begin: Instant| {
            let mut calls = 0;
            while begin.elapsed() < time {
                (0..CHUNK).try_for_each(|_| ask())?;
                calls += CHUNK;
            }
            Ok(calls)
        };
        let together = threads::together(0..CALLERS, |_| ask(), || (), count)?;
        let seconds = together.begin.elapsed().as_secs_f64();
        Ok(together.done.iter().sum::<u64>() as f64 / seconds)
    }))
}

/// What a caller pays who has the queue to itself, where the function does something.
pub fn idle() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_idle_ns",
        what: "  added to a function of 50 us",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(5000.0)),
    };
    let rounds = rounds_of_work();
    let queue = BatchQueue::builder().build(move |batch: Batch| {
        work(rounds);
        Ok::<Batch, Infallible>(batch)
    })?;
    Ok(Measurement::new(FIGURE, move |slice| {
        let direct = || {
            median(slice / 2, || {
                work(rounds);
                Ok(())
            })
        };
        // Half of one before and half after the other, so that a drift of the clock speed hits both.
        let before = direct()?;
        let queued = median(slice, || Ok(queue.infer(row(LENGTH)).map(drop)?))?;
        Ok(queued - (before + direct()?) / 2.0)
    }))
}

/// Steps that each need the one before.
fn work(rounds: u64) {
    let mut value = 1u64;
    for round in 0..rounds {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round);
    }
}

/// How many take about [`WORK`].
fn rounds_of_work() -> u64 {
    let mut rounds = 1000;
    loop {
        let begin = Instant::now();
        work(rounds);
        if begin.elapsed() >= WORK {
            return rounds;
        }
        rounds += rounds / 8;
    }
}
