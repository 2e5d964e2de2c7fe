//! Taking and giving back memory.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use streampool::{Buffer, Lease, Pool, Stream};

use super::figure::{Figure, Goal, Measurement, Unit};
use super::timing::{per_call, rate};
use crate::{Failure, Result};

/// The size that is measured.
const BYTES: usize = 64 << 10;

/// Buffers that one thread hands to another at a time.
const BATCH: usize = 256;

/// Batches before the arena has seen all it needs.
const WARM_BATCHES: usize = 4;

/// Allocating and freeing on the owner's stream.
pub fn alloc_free(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "alloc_free_ns",
        what: "allocate and free 64 KiB",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(40.0)),
    };
    let (pool, stream) = (pool.clone(), pool.lease_alone()?);
    Ok(Measurement::new(FIGURE, move |slice| {
        pool.with_stream(&stream, || per_call(slice, || cycle(&stream)))?
    }))
}

/// What two threads that do so reach together.
pub fn alloc_scaling(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "alloc_scaling_2",
        what: "  two threads, against one",
        unit: Unit::Ratio,
        goal: Some(Goal::AtLeast(1.8)),
    };
    let streams = [pool.lease_alone()?, pool.lease_alone()?];
    let pool = pool.clone();
    Ok(Measurement::new(FIGURE, move |slice| {
        let one = rate(&pool, &streams, &mut [cycle], slice)?;
        let two = rate(&pool, &streams, &mut [cycle, cycle], slice)?;
        Ok(two / one)
    }))
}

fn cycle(stream: &Stream) -> streampool::Result<()> {
    drop(black_box(stream.allocate(BYTES)?));
    Ok(())
}

/// Freeing what another thread allocated on its own stream.
pub fn remote_free(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "remote_free_ns",
        what: "  free on another thread",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(150.0)),
    };
    let (owner, other) = (pool.lease_alone()?, pool.lease_alone()?);
    let pool = pool.clone();
    Ok(Measurement::new(FIGURE, move |slice| {
        let (send, receive) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let other = &other;
            let pool_there = &pool;
            let there = scope.spawn(move || pool_there.with_stream(other, || free_all(receive)));
            pool.with_stream(&owner, || allocate_for(slice, &owner, send))??;
            let (took, freed) = there
                .join()
                .map_err(|_| Failure::from("a thread panicked"))??;
            Ok(took.as_nanos() as f64 / freed.max(1) as f64)
        })
    }))
}

fn allocate_for(
    slice: Duration,
    owner: &Lease,
    to: SyncSender<Vec<Buffer>>,
) -> streampool::Result<()> {
    let begin = Instant::now();
    let mut batches = 0;
    while batches <= WARM_BATCHES || begin.elapsed() < slice {
        let batch = (0..BATCH)
            .map(|_| owner.allocate(BYTES))
            .collect::<Result<_, _>>()?;
        if to.send(batch).is_err() {
            break;
        }
        batches += 1;
    }
    Ok(())
}

/// Frees what arrives; says how long it took and how much it was, warm-up aside.
fn free_all(from: Receiver<Vec<Buffer>>) -> (Duration, usize) {
    let mut total = (Duration::ZERO, 0);
    for (arrived, batch) in from.into_iter().enumerate() {
        let count = batch.len();
        let begin = Instant::now();
        drop(batch);
        let took = begin.elapsed();
        if arrived >= WARM_BATCHES {
            total.0 += took;
            total.1 += count;
        }
    }
    total
}

/// The same size from the C library's allocator.
pub fn malloc() -> Measurement {
    const FIGURE: Figure = Figure {
        key: "malloc_ns",
        what: "  malloc and free, to compare",
        unit: Unit::Nanoseconds,
        goal: None,
    };
    Measurement::new(FIGURE, |slice| {
        per_call(slice, || {
            drop(black_box(Vec::<u8>::with_capacity(black_box(BYTES))));
            Ok(())
        })
    })
}
