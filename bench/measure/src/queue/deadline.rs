//! How soon a request that waits in vain is told so.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use streampool::batch::{self, Batch, BatchQueue, Request, Ticket};

use super::requests::row;
use crate::Result;
use crate::latencies::Latencies;

/// Requests that wait in vain, of which each may wait this much longer than the one before.
const REQUESTS: u32 = 16;
const STEP: Duration = Duration::from_millis(1);

/// In how many microseconds this part of them is told so.
pub fn answers(part: f64) -> Result<impl FnMut(Duration) -> Result<f64>> {
    let barrier = Arc::new(Barrier::default());
    let inside = barrier.clone();
    let queue = BatchQueue::builder()
        .max_in_flight(1)
        .build(move |batch: Batch| {
            inside.keep();
            Ok::<Batch, Infallible>(batch)
        })?;
    Ok(move |_| {
        let times = late(&queue, &barrier);
        barrier.open.store(true, Ordering::Release);
        Ok(Latencies::new(times?).at(part).as_secs_f64() * 1e6)
    })
}

/// Keeps a batch from ending until it is opened.
#[derive(Default)]
struct Barrier {
    inside: AtomicBool,
    open: AtomicBool,
}

impl Barrier {
    fn keep(&self) {
        self.inside.store(true, Ordering::Release);
        while !self.open.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        self.inside.store(false, Ordering::Release);
    }
}

/// How long after its deadline each request gets its answer, while the queue is busy with another.
fn late(queue: &BatchQueue, barrier: &Barrier) -> Result<Vec<Duration>> {
    while barrier.inside.load(Ordering::Acquire) {
        thread::yield_now();
    }
    barrier.open.store(false, Ordering::Release);
    let _kept = queue.submit(Request::new(row(1)))?;
    // Who waits for an answer runs what there is to run: that has to be under way.
    while !barrier.inside.load(Ordering::Acquire) {
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
