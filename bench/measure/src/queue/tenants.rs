//! What a tenant notices of another one that sends a hundred times as much.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{iter, thread};

use streampool::batch::{Batch, BatchQueue, Request};

use super::requests::{row, send};
use crate::latencies::Latencies;
use crate::{Failure, Result};

/// The large tenant sends so many requests for one of the small tenant.
const TIMES: u64 = 100;

/// So many requests of the large tenant are under way, from so many threads.
const SENDERS: usize = 2;
const UNDER_WAY: usize = 128;

/// A round is so much longer that its 99th percentile says something.
const LONGER: u32 = 16;

/// The small tenant's 99th percentile beside the large one, against its own without. Its requests have so many numbers, and a
/// batch takes so long, whatever is in it: as on a device, the processor is free meanwhile.
pub fn beside_and_alone(
    size: usize,
    batch: Duration,
) -> Result<impl FnMut(Duration) -> Result<f64>> {
    let queue = BatchQueue::builder()
        .max_batch_size(32)
        .tenant("small", 1.0)
        .tenant("large", 1.0)
        .build(move |rows: Batch| {
            thread::sleep(batch);
            Ok::<Batch, Infallible>(rows)
        })?;
    Ok(move |slice| {
        let time = slice * LONGER;
        let alone = small(&queue, size, time, || thread::sleep(batch))?;
        let beside = beside_large(&queue, size, time, batch)?;
        let p99 = |times| Latencies::new(times).at(0.99).as_secs_f64();
        Ok(p99(beside) / p99(alone))
    })
}

/// How long the requests of the small tenant take, each of so many numbers and sent after a `pause`.
fn small(
    queue: &BatchQueue,
    size: usize,
    time: Duration,
    pause: impl Fn(),
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < time {
        pause();
        let sent = Instant::now();
        queue.infer(Request::new(row(size)).tenant("small"))?;
        times.push(sent.elapsed());
    }
    Ok(times)
}

/// The same while the large tenant keeps the queue full, and sends so many times as much.
fn beside_large(
    queue: &BatchQueue,
    size: usize,
    time: Duration,
    batch: Duration,
) -> Result<Vec<Duration>> {
    let (answered, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        let sender = || large(queue, answered, over);
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
        let sent = Cell::new(0);
        let pause = || {
            sent.set(sent.get() + 1);
            while answered.load(Ordering::Relaxed) < TIMES * sent.get()
                && !over.load(Ordering::Relaxed)
            {
                thread::sleep(batch / 4);
            }
        };
        let times = small(queue, size, time, pause);
        over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender
                .join()
                .map_err(|_| Failure::from("a thread panicked"))??;
        }
        times
    })
}

/// Sends again for each answer, until it is over.
fn large(queue: &BatchQueue, answered: &AtomicU64, over: &AtomicBool) -> Result<()> {
    let again = || Request::new(row(1)).tenant("large");
    let requests = iter::repeat_with(again).take_while(|_| !over.load(Ordering::Relaxed));
    let count = || {
        answered.fetch_add(1, Ordering::Relaxed);
    };
    // The small tenant would wait for ever for a large one that has failed.
    send(queue, requests, UNDER_WAY, count).inspect_err(|_| over.store(true, Ordering::Relaxed))
}
