//! How soon a request that waits in vain is told so.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use streampool::batch::{self, Batch, BatchQueue, Request, Ticket};

use super::row;
use crate::Result;
use crate::figure::{Figure, Goal, Measurement, Unit};
use crate::latencies::Latencies;

/// Requests that wait in vain, of which each may wait this much longer than the one before.
const REQUESTS: u32 = 16;
const STEP: Duration = Duration::from_millis(1);

/// Half of them know by then.
pub fn median() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_expired_us",
        what: "answer after a missed deadline",
        unit: Unit::Microseconds,
        goal: Some(Goal::AtMost(1000.0)),
    };
    measurement(FIGURE, 0.5)
}

/// All of them know by then.
pub fn latest() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_expired_latest_us",
        what: "  the latest of 16",
        unit: Unit::Microseconds,
        goal: Some(Goal::AtMost(1000.0)),
    };
    measurement(FIGURE, 1.0)
}

fn measurement(figure: Figure, part: f64) -> Result<Measurement> {
    let door = Arc::new(Door::default());
    let inside = door.clone();
    let queue = BatchQueue::builder()
        .max_in_flight(1)
        .build(move |batch: Batch| {
            inside.keep();
            Ok::<Batch, Infallible>(batch)
        })?;
    Ok(Measurement::new(figure, move |_| {
        let times = late(&queue, &door);
        door.open.store(true, Ordering::Release);
        Ok(Latencies::new(times?).at(part).as_secs_f64() * 1e6)
    }))
}

/// Keeps a batch inside until it is opened.
#[derive(Default)]
struct Door {
    inside: AtomicBool,
    open: AtomicBool,
}

impl Door {
    fn keep(&self) {
        self.inside.store(true, Ordering::Release);
        while !self.open.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        self.inside.store(false, Ordering::Release);
    }
}

/// How long after its deadline each request gets its answer, while the queue is busy with another.
fn late(queue: &BatchQueue, door: &Door) -> Result<Vec<Duration>> {
    while door.inside.load(Ordering::Acquire) {
        thread::yield_now();
    }
    door.open.store(false, Ordering::Release);
    let _kept = queue.submit(Request::new(row(1)))?;
    // Who waits for an answer runs what there is to run: that has to be under way.
    while !door.inside.load(Ordering::Acquire) {
        thread::yield_now();
    }
    let submit = |number: u32| {
        let time = STEP * (number + 1);
        let due = Instant::now() + time;
        Ok((queue.submit(Request::new(row(1)).within(time))?, due))
    };
    let waiting = (0..REQUESTS).map(submit).collect::<Result<Vec<_>>>()?;
    let late = waiting.into_iter().map(|(ticket, due)| answer(ticket, due));
    late.collect()
}

fn answer(ticket: Ticket, due: Instant) -> Result<Duration> {
    match ticket.wait() {
        Err(batch::Error::Expired) => Ok(due.elapsed()),
        Err(other) => Err(other.into()),
        Ok(_) => Err("a request ran after its deadline".into()),
    }
}
