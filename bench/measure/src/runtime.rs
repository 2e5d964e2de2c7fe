//! `streampool-measure runtime`: what the runtime itself costs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use streampool::device::DeviceKind;
use streampool::{Activation, Buffer, DType, Lease, Op, Pool, Stream};

use crate::crew::Crew;
use crate::dense::{Dense, User};
use crate::device::On;
use crate::figures::Unit::{Nanoseconds, Ratio};
use crate::figures::{self, Figure, Goal, Spread, per_call};
use crate::noise::Noise;
use crate::{Failure, Outcome, Result, bare, gpu};

/// Measure the runtime's own overheads: streams, memory, ordering, launches
///
/// Every figure is the median of many short rounds, taken in turn so that a disturbance hits all alike,
/// with the smallest and the largest beside it. Takes about half a minute; quieten the machine first.
///
/// On a GPU the figures are rates, each beside what bare calls of the driver reach in the same process, and
/// every result is checked. Takes about a minute.
#[derive(Args)]
pub struct Options {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// Fewer and shorter rounds: a first impression in a few seconds
    #[arg(long)]
    quick: bool,
}

/// Measures, and says what it came to.
pub fn run(options: &Options) -> Result<Outcome> {
    if options.device == On::Cuda {
        return gpu::run(options.json, options.quick);
    }
    let pool = options.device.pool()?;
    let mut figures = lookups(&pool);
    figures.extend(memory(&pool)?);
    figures.extend(order(&pool)?);
    figures.extend(linear(&pool)?);
    let title = "What the runtime costs";
    figures::report(title, &pool, figures, options.quick, options.json)
}

fn at_most(most: f64) -> Option<Goal> {
    Some(Goal::AtMost(most))
}

fn at_least(least: f64) -> Option<Goal> {
    Some(Goal::AtLeast(least))
}

/// Finding the current stream, and taking one.
fn lookups(pool: &Pool) -> Vec<Figure> {
    let current = pool.clone();
    let current = move |slice| {
        per_call(slice, || {
            black_box(black_box(&current).current()?);
            Ok(())
        })
    };
    let lease = pool.clone();
    let lease = move |slice| {
        per_call(slice, || {
            drop(black_box(lease.lease_alone()?));
            Ok(())
        })
    };
    let what = "look up the current stream";
    vec![
        Figure::new("current_ns", what, Nanoseconds, at_most(5.0), current),
        Figure::new(
            "lease_ns",
            "lease a stream and return it",
            Nanoseconds,
            at_most(60.0),
            lease,
        ),
    ]
}

/// The size that is allocated.
const BYTES: usize = 64 << 10;

/// Calls between two looks at the clock, where the clock decides.
const CHUNK: u64 = 64;

/// Buffers that one thread hands to another at a time, and batches before the arena has seen all it needs.
const HANDED: usize = 256;
const WARM: usize = 4;

/// Slices of several threads are so much longer: those that were just woken may share a processor for a while.
const LONGER: u32 = 4;

/// Taking and giving back memory.
fn memory(pool: &Pool) -> Result<Vec<Figure>> {
    let cycle = |stream: &Stream| -> streampool::runtime::Result<()> {
        drop(black_box(stream.allocate(BYTES)?));
        Ok(())
    };
    let (own, stream) = (pool.clone(), pool.lease_alone()?);
    let alone = move |slice| own.with_stream(&stream, || per_call(slice, || cycle(&stream)))?;
    let crew = Crew::new(pool, 2)?;
    let scaling = move |slice: Duration| {
        let rate = |threads| {
            crew.rate(&mut vec![(); threads], slice * LONGER, |stream, ()| {
                (0..CHUNK).try_for_each(|_| cycle(stream))?;
                Ok(CHUNK)
            })
        };
        let one = rate(1)?;
        Ok(rate(2)? / one)
    };
    let crew = Crew::new(pool, 2)?;
    let malloc = |slice| {
        per_call(slice, || {
            drop(black_box(Vec::<u8>::with_capacity(black_box(BYTES))));
            Ok(())
        })
    };
    Ok(vec![
        Figure::new(
            "alloc_free_ns",
            "allocate and free 64 KiB",
            Nanoseconds,
            at_most(40.0),
            alone,
        ),
        Figure::new(
            "alloc_scaling_2",
            "  two threads, against one",
            Ratio,
            at_least(1.8),
            scaling,
        ),
        Figure::new(
            "remote_free_ns",
            "  free on another thread",
            Nanoseconds,
            at_most(150.0),
            move |slice| remote_free(&crew, slice),
        ),
        Figure::new(
            "malloc_ns",
            "  malloc and free, to compare",
            Nanoseconds,
            None,
            malloc,
        ),
    ])
}

/// Freeing what another thread allocated on its own stream.
fn remote_free(Crew { streams, pool }: &Crew, slice: Duration) -> Result<f64> {
    let (send, receive) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let there = scope.spawn(move || pool.with_stream(&streams[1], || free_all(receive)));
        pool.with_stream(&streams[0], || allocate_for(slice, &streams[0], send))??;
        let freed = there.join();
        let (took, freed) = freed.map_err(|_| Failure::from("a thread panicked"))??;
        Ok(took.as_nanos() as f64 / freed.max(1) as f64)
    })
}

fn allocate_for(
    slice: Duration,
    owner: &Lease,
    to: SyncSender<Vec<Buffer>>,
) -> streampool::runtime::Result<()> {
    let begin = Instant::now();
    let mut batches = 0;
    while batches <= WARM || begin.elapsed() < slice {
        let batch = (0..HANDED).map(|_| owner.allocate(BYTES));
        if to.send(batch.collect::<Result<_, _>>()?).is_err() {
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
        let (count, begin) = (batch.len(), Instant::now());
        drop(batch);
        let took = begin.elapsed();
        if arrived >= WARM {
            total = (total.0 + took, total.1 + count);
        }
    }
    total
}

/// Ops between two waits: so few that no device wakes a worker for them.
const READS: u32 = 24;

/// Launching, and the order between streams.
fn order(pool: &Pool) -> Result<Vec<Figure>> {
    let (own, stream) = (pool.clone(), pool.lease_alone()?);
    let empty = move |slice| {
        own.with_stream(&stream, || {
            per_call(slice, || {
                stream.encode(Op::Nop)?;
                stream.synchronize()
            })
        })?
    };
    let (stream, other) = (pool.lease_alone()?, pool.lease_alone()?);
    let written_on = |stream: &Stream| -> Result<Buffer> {
        let mut buffer = stream.allocate(DType::F32.size())?;
        stream.upload(&mut buffer, &[1.0f32])?;
        stream.synchronize()?;
        Ok(buffer)
    };
    let (local, foreign) = (written_on(&stream)?, written_on(&other)?);
    let mut out = stream.allocate(DType::F32.size())?;
    let own = pool.clone();
    // What an op costs more that reads what another stream wrote some time ago: a difference, so it may come out below zero.
    let ordered = move |slice| {
        own.with_stream(&stream, || {
            let mut took = |source| reads(&stream, source, &mut out);
            let begin = Instant::now();
            let mut differences = Vec::new();
            while differences.is_empty() || begin.elapsed() < slice {
                let first = took(&local)?;
                let between = took(&foreign)? + took(&foreign)?;
                let around = first + took(&local)?;
                differences.push((between - around) / 2.0);
            }
            Ok(Spread::of(&differences)?.median)
        })?
    };
    Ok(vec![
        Figure::new(
            "empty_op_ns",
            "launch an empty op, and wait for it",
            Nanoseconds,
            at_most(300.0),
            empty,
        ),
        Figure::new(
            "order_ns",
            "order a read after another stream",
            Nanoseconds,
            at_most(10.0),
            ordered,
        ),
    ])
}

/// Nanoseconds of encoding one op that reads `source`.
fn reads(stream: &Stream, source: &Buffer, out: &mut Buffer) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..READS {
        let src = source.read(DType::F32, &[1])?;
        let dst = out.write(DType::F32, &[1])?;
        stream.encode(Op::Copy { src, dst })?;
    }
    let took = begin.elapsed();
    stream.synchronize()?;
    Ok(took.as_nanos() as f64 / f64::from(READS))
}

/// Threads that share a layer, and rows of each.
const THREADS: usize = 8;
const ROWS: usize = 4;

/// A small layer of a model: what threads gain, and what the runtime adds to the kernel.
fn linear(pool: &Pool) -> Result<Vec<Figure>> {
    let (crew, own) = (Crew::new(pool, THREADS)?, pool.clone());
    let first = &crew.streams[0];
    let layer = Arc::new(Dense::new(
        first,
        &mut Noise::new(1),
        (256, 128),
        Activation::None,
    )?);
    let user = |stream: &Stream| User::of(stream, &layer, ROWS, &mut Noise::new(2));
    let run = {
        let layer = layer.clone();
        move |stream: &Stream, user: &mut User| layer.run(stream, user)
    };
    let mut users = crew.streams.iter().map(|stream| user(stream));
    let mut users: Vec<User> = users.by_ref().collect::<Result<_>>()?;
    let (stream, beside) = (pool.lease_alone()?, pool.lease_alone()?);
    let (mut alone, mut compared) = (user(&stream)?, user(&beside)?);
    let mut bare = bare::Layer::new(layer.clone(), user(&beside)?)?;
    let one = {
        let (own, run) = (own.clone(), run.clone());
        move |slice| own.with_stream(&stream, || per_call(slice, || run(&stream, &mut alone)))?
    };
    let scaling = {
        let run = run.clone();
        move |slice: Duration| {
            let work = |stream: &Stream, user: &mut User| {
                (0..CHUNK).try_for_each(|_| run(stream, user))?;
                Ok(CHUNK)
            };
            let one = crew.rate(&mut users[..1], slice * LONGER, work)?;
            Ok(crew.rate(&mut users, slice * LONGER, work)? / one)
        }
    };
    let against_bare = move |slice: Duration| {
        own.with_stream(&beside, || {
            // Half of one before and half after the other, so that a drift of the clock speed hits both.
            let mut ours = || per_call(slice / 2, || run(&beside, &mut compared));
            let before = ours()?;
            let bare = per_call(slice, || bare.run())?;
            Ok(bare / ((before + ours()?) / 2.0))
        })?
    };
    let mut figures = vec![
        Figure::new(
            "linear_ns",
            "Linear 256 to 128, 4 rows",
            Nanoseconds,
            None,
            one,
        ),
        Figure::new(
            "linear_scaling_8",
            "  8 threads, against one",
            Ratio,
            at_least(1.8),
            scaling,
        ),
    ];
    // Only the host's kernels can be called without a queue.
    if pool.device().properties().kind == DeviceKind::Host {
        figures.push(Figure::new(
            "linear_vs_bare",
            "  one thread, against the bare kernel",
            Ratio,
            at_least(0.8),
            against_bare,
        ));
    }
    Ok(figures)
}
