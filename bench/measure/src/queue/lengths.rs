//! What sequences of many lengths cost, beside batches in which all are as long.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use streampool::batch::{Batch, BatchQueue, Padding, Request};
use streampool::{Array, DType};

use super::{row, send};
use crate::figure::{Figure, Goal, Measurement, Unit};
use crate::noise::Noise;
use crate::{Result, threads};

const LENGTHS: RangeInclusive<usize> = 8..=128;

/// The most rows of a batch, and how many sequences of each length there are.
const ROWS: usize = 32;

/// So many batches run at the same time.
const IN_FLIGHT: usize = 2;

/// Sequences are filled up to multiples of this.
const STEP: usize = 16;

/// Sequences that are under way.
const UNDER_WAY: usize = 256;

/// What a batch takes: some time, and more for each number in it.
const FIXED: Duration = Duration::from_micros(100);
const EACH: Duration = Duration::from_nanos(250);

/// The throughput of sequences in any order, against the same sequences sorted, so that batches are full and equal.
pub fn mixed() -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "queue_mixed_lengths",
        what: "mixed lengths / sorted ones",
        unit: Unit::Ratio,
        goal: Some(Goal::AtLeast(0.8)),
    };
    let queue = BatchQueue::builder()
        .max_batch_size(ROWS)
        .max_in_flight(IN_FLIGHT)
        .padding(Padding::to_multiples(1, STEP))
        .build(run)?;
    let lengths: Vec<usize> = LENGTHS.flat_map(|length| [length; ROWS]).collect();
    let mixed = shuffled(&lengths);
    Ok(Measurement::new(FIGURE, move |_| {
        let before = sorted()?;
        Ok(before / through(&queue, &mixed)?)
    }))
}

/// As on a device, the processor is free meanwhile.
fn run(batch: Batch) -> Result<Batch, Infallible> {
    let numbers = batch
        .parts(0)
        .into_iter()
        .map(|part| part.bytes().len() / size_of::<f32>());
    thread::sleep(FIXED + EACH * numbers.sum::<usize>() as u32);
    Ok(batch)
}

/// How long batches of sequences take that are all as long, as many at a time as the queue runs.
fn sorted() -> Result<f64> {
    let every_second = |first| {
        for length in LENGTHS.skip(first).step_by(IN_FLIGHT) {
            run(Batch::new(vec![Array::zeros(
                DType::F32,
                &[ROWS, length],
            )?])?)?;
        }
        Ok(())
    };
    let together = threads::together(0..IN_FLIGHT, Ok, || (), |first, _| every_second(first))?;
    Ok(together.begin.elapsed().as_secs_f64())
}

/// How long these take as they come, through the queue.
fn through(queue: &BatchQueue, lengths: &[usize]) -> Result<f64> {
    let begin = Instant::now();
    let requests = lengths.iter().map(|&length| Request::new(row(length)));
    send(queue, requests, UNDER_WAY, || ())?;
    Ok(begin.elapsed().as_secs_f64())
}

fn shuffled(lengths: &[usize]) -> Vec<usize> {
    let keys = Noise::new(1).normal(lengths.len());
    let mut keyed: Vec<(f32, usize)> = keys.into_iter().zip(lengths.iter().copied()).collect();
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    keyed.into_iter().map(|(_, length)| length).collect()
}
