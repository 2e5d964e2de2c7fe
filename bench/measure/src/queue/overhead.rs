//! What a queue adds to the function that it calls.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use streampool::batch::{Batch, BatchQueue, Request};

use super::row;
use crate::Result;
use crate::figure::{Figure, Goal, Measurement, Unit};
use crate::latencies::{Latencies, again_and_again};

/// Numbers of a request.
pub const LENGTH: usize = 16;

/// About how long the function takes that does something.
const WORK: Duration = Duration::from_micros(50);

/// A queue whose function does nothing.
pub fn nothing() -> Result<BatchQueue> {
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
