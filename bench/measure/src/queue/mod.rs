//! `streampool-measure queue`: what a queue that makes batches costs, and what it keeps to.

mod deadline;
mod requests;
mod sleepers;
mod tenants;

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use streampool::batch::{Batch, BatchQueue, Padding, Request};
use streampool::{Array, DType};

use crate::figures::Unit::{Microseconds, Nanoseconds, Rate, Ratio};
use crate::figures::{self, Figure, Goal};
use crate::latencies::{Latencies, again_and_again};
use crate::noise::Noise;
use crate::threads::{per_second, together};
use crate::{Outcome, Result};
use requests::{row, send};

/// Measure the queue that makes batches: its overhead, and how well it keeps deadlines, shares and shapes
///
/// The queue runs functions that take a known time, so that what is measured is the queue. Every figure is the median of
/// many rounds, taken in turn so that a disturbance hits all alike. Takes about a minute; quieten the machine first.
#[derive(Args)]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Fewer and shorter rounds: a first impression in a few seconds
    #[arg(long)]
    quick: bool,
}

/// Measures, and says what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    let (many, batches) = (256, nothing_for(Duration::from_micros(100))?);
    let nothing = || BatchQueue::builder().build(Ok::<Batch, Infallible>);
    let (asked, submitted, crowded) = (nothing()?, nothing()?, nothing()?);
    let at_most = |most| Some(Goal::AtMost(most));
    let ratio = |key, what, goal, size, batch| {
        let measured = tenants::beside_and_alone(size, batch)?;
        Ok::<_, crate::Failure>(Figure::new(key, what, Ratio, Some(goal), measured))
    };
    let (short, long) = (Duration::from_micros(200), Duration::from_millis(2));
    let late = |key, what, part| {
        let measured = deadline::answers(part)?;
        Ok::<_, crate::Failure>(Figure::new(
            key,
            what,
            Microseconds,
            at_most(1000.0),
            measured,
        ))
    };
    let figures = vec![
        Figure::new(
            "queue_infer_ns",
            "infer, a no-op, one caller",
            Nanoseconds,
            at_most(3000.0),
            move |slice| median(slice, || ask(&asked)),
        ),
        Figure::new(
            "queue_submit_ns",
            "  submit, then wait",
            Nanoseconds,
            at_most(3000.0),
            move |slice| {
                median(slice, || {
                    let ticket = submitted.submit(Request::new(row(LENGTH)))?;
                    Ok(ticket.wait().map(drop)?)
                })
            },
        ),
        Figure::new(
            "queue_callers_64",
            "  64 callers",
            Rate,
            Some(Goal::AtLeast(1e6)),
            move |slice| answered(&crowded, 64, 16, slice),
        ),
        idle()?,
        Figure::new(
            "queue_callers_256",
            "256 callers, batches of 100 us",
            Rate,
            None,
            move |slice| answered(&batches, many, 1, slice),
        ),
        // What bounds that: as many threads that do nothing but sleep until all do, and are woken.
        Figure::new(
            "sleepers_256",
            "  256 threads asleep and awake",
            Rate,
            None,
            move |slice| Ok(sleepers::awakenings(many, slice * TURNS)),
        ),
        late("queue_expired_us", "answer after a missed deadline", 0.5)?,
        late("queue_expired_latest_us", "  the latest of 16", 1.0)?,
        ratio(
            "queue_fairness",
            "p99 beside a large tenant / alone",
            Goal::AtMost(2.0),
            1,
            short,
        )?,
        // The small tenant's requests cannot go with the large one's.
        ratio(
            "queue_fairness_between_sizes",
            "  that sends another size",
            Goal::AtMost(2.0),
            2,
            short,
        )?,
        // What is left is the wait for a lane.
        ratio(
            "queue_fairness_of_long_batches",
            "  with batches of 2 ms",
            Goal::AtMost(1.5),
            1,
            long,
        )?,
        mixed_lengths()?,
    ];
    let (quick, json) = (options.quick, options.json);
    let pool = streampool::host_pool()?;
    figures::report("What a queue costs", &pool, figures, quick, json)
}

/// Numbers of a request.
const LENGTH: usize = 16;

/// Threads take turns on few processors: a round is so much longer that each has had several.
const TURNS: u32 = 8;

fn ask(queue: &BatchQueue) -> Result<()> {
    Ok(queue.infer(row(LENGTH)).map(drop)?)
}

/// A queue whose function takes its time, whatever is in a batch: as on a device, the processor is free meanwhile.
fn nothing_for(time: Duration) -> Result<BatchQueue> {
    let function = move |batch: Batch| {
        thread::sleep(time);
        Ok::<Batch, Infallible>(batch)
    };
    Ok(BatchQueue::builder().max_batch_size(256).build(function)?)
}

/// The median time of a call, in nanoseconds.
fn median(slice: Duration, call: impl FnMut() -> Result<()>) -> Result<f64> {
    let times = again_and_again(slice, call)?;
    Ok(Latencies::new(times).at(0.5).as_nanos() as f64)
}

/// Requests of so many callers in a second.
fn answered(queue: &BatchQueue, callers: usize, chunk: u64, slice: Duration) -> Result<f64> {
    let caller = move || {
        (0..chunk).try_for_each(|_| ask(queue))?;
        Ok(chunk)
    };
    per_second(&mut vec![caller; callers], slice * TURNS)
}

/// What a caller pays who has the queue to itself, where the function takes about 50 us.
fn idle() -> Result<Figure> {
    // Steps that each need the one before.
    fn work(rounds: u64) {
        let mut value = 1u64;
        for round in 0..rounds {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round);
        }
    }
    let took = |rounds| {
        let begin = Instant::now();
        work(rounds);
        begin.elapsed()
    };
    let mut rounds = 1000;
    while took(rounds) < Duration::from_micros(50) {
        rounds += rounds / 8;
    }
    let queue = BatchQueue::builder().build(move |batch: Batch| {
        work(rounds);
        Ok::<Batch, Infallible>(batch)
    })?;
    let direct = move |slice| {
        median(slice, || {
            work(rounds);
            Ok(())
        })
    };
    let what = "  added to a function of 50 us";
    let goal = Some(Goal::AtMost(5000.0));
    Ok(Figure::new(
        "queue_idle_ns",
        what,
        Nanoseconds,
        goal,
        move |slice| {
            // Half of one before and half after the other, so that a drift of the clock speed hits both.
            let before = direct(slice / 2)?;
            let queued = median(slice, || ask(&queue))?;
            Ok(queued - (before + direct(slice / 2)?) / 2.0)
        },
    ))
}

const LENGTHS: RangeInclusive<usize> = 8..=128;

/// The most rows of a batch, and how many sequences of each length there are.
const ROWS: usize = 32;

/// So many batches run at the same time.
const IN_FLIGHT: usize = 2;

/// The throughput of sequences in any order, against the same sequences sorted, so that batches are full and equal.
fn mixed_lengths() -> Result<Figure> {
    let queue = BatchQueue::builder()
        .max_batch_size(ROWS)
        .max_in_flight(IN_FLIGHT)
        .padding(Padding::to_multiples(1, 16))
        .build(by_numbers)?;
    let lengths = LENGTHS.flat_map(|length| [length; ROWS]).collect();
    let mixed = Noise::new(1).shuffled(lengths);
    let what = "mixed lengths / sorted ones";
    let goal = Some(Goal::AtLeast(0.8));
    Ok(Figure::new(
        "queue_mixed_lengths",
        what,
        Ratio,
        goal,
        move |_| {
            let sorted = together(0..IN_FLIGHT, Ok, || (), |first, _| every_second(first))?;
            let sorted = sorted.begin.elapsed().as_secs_f64();
            let begin = Instant::now();
            let requests = mixed.iter().map(|&length| Request::new(row(length)));
            send(&queue, requests, 256, || ())?;
            Ok(sorted / begin.elapsed().as_secs_f64())
        },
    ))
}

/// Takes some time, and more for each number in the batch. As on a device, the processor is free meanwhile.
fn by_numbers(batch: Batch) -> Result<Batch, Infallible> {
    let parts = batch.parts(0).into_iter();
    let numbers = parts.map(|part| part.bytes().len() / size_of::<f32>());
    let each = Duration::from_nanos(250) * numbers.sum::<usize>() as u32;
    thread::sleep(Duration::from_micros(100) + each);
    Ok(batch)
}

/// Runs batches of sequences that are all as long, every second length.
fn every_second(first: usize) -> Result<()> {
    for length in LENGTHS.skip(first).step_by(IN_FLIGHT) {
        let rows = Array::zeros(DType::F32, &[ROWS, length])?;
        by_numbers(Batch::new(vec![rows])?)?;
    }
    Ok(())
}
