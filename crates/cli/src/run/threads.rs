//! One session, many threads.

use std::time::Duration;

use serde::Serialize;
use streampool::model::{self, Profiled, RunOptions, Statistics};
use streampool::{Array, Input, Session, Tensor};

use crate::inputs::refer;
use crate::latencies::{self, Latencies};
use crate::{Failure, Result, threads};

/// Runs of each thread before anything is measured: programs are captured, and memory is taken.
const WARM: usize = 2;

/// The most records of a profile.
pub const RECORDS: usize = 1 << 20;

/// Where the inputs and outputs of each run are.
#[derive(Debug, Clone, Copy)]
pub enum Ends {
    /// On the host.
    Host,
    /// On the device.
    Device,
}

/// What threads did that ran a model again and again.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// How many there were.
    pub threads: usize,
    /// From the begin of the first run to the end of the last.
    pub seconds: f64,
    /// The runs of all.
    pub runs: usize,
    /// Those of all in a second.
    pub runs_per_second: f64,
    /// How long a run took.
    pub latency_seconds: Latency,
    /// What else happened meanwhile: nothing of this should.
    pub meanwhile: Meanwhile,
}

/// How long runs took.
#[derive(Debug, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// What happened while runs were measured, besides replays.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Meanwhile {
    /// Programs that were replayed.
    pub replays: u64,
    /// Nodes that ask for values, computed by themselves.
    pub nodes_alone: u64,
    /// Programs that were captured.
    pub captures: u64,
    /// Allocations from the device.
    pub device_allocations: u64,
    /// Kernels that were compiled.
    pub kernels_compiled: u64,
}

/// What counts up.
struct Counters {
    session: Statistics,
    allocations: u64,
    compiled: u64,
}

impl Counters {
    fn of(session: &Session) -> Result<Counters> {
        let pool = session.pool().snapshot()?;
        Ok(Counters {
            session: session.statistics(),
            allocations: pool.memory.device_allocations,
            compiled: pool.caches.iter().map(|cache| cache.compiled).sum(),
        })
    }

    fn since(&self, before: &Counters) -> Meanwhile {
        let (now, then) = (&self.session, &before.session);
        Meanwhile {
            replays: now.replays - then.replays,
            nodes_alone: now.nodes_alone - then.nodes_alone,
            captures: now.captures - then.captures,
            device_allocations: self.allocations - before.allocations,
            kernels_compiled: self.compiled - before.compiled,
        }
    }
}

/// Each thread runs the model on its own inputs for this long, all at the same time.
pub fn repeat(
    session: &Session,
    inputs: &[Vec<Array>],
    time: Duration,
    ends: Ends,
    options: &(dyn Fn() -> RunOptions + Sync),
    profiled: bool,
) -> Result<(Measured, Option<Profiled>)> {
    let together = threads::together(
        inputs.iter(),
        |own| {
            let own = Own::new(session, own, ends)?;
            (0..WARM).try_for_each(|_| own.run(session, &options()))?;
            Ok(own)
        },
        || {
            let before = Counters::of(session)?;
            let recording = profiled.then(|| session.profile(RECORDS)).transpose()?;
            Ok::<_, Failure>((before, recording))
        },
        |own, _| {
            let run = || own.run(session, &options());
            Ok(latencies::again_and_again(time, run)?)
        },
    )?;
    let seconds = together.begin.elapsed().as_secs_f64();
    let (before, recording) = together.before?;
    let meanwhile = Counters::of(session)?.since(&before);
    let profile = recording.map(|recording| recording.finish()).transpose()?;
    let latencies = Latencies::new(together.done.concat());
    let at = |part: f64| latencies.at(part).as_secs_f64();
    let measured = Measured {
        threads: inputs.len(),
        seconds,
        runs: latencies.count(),
        runs_per_second: latencies.count() as f64 / seconds,
        latency_seconds: Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        },
        meanwhile,
    };
    Ok((measured, profile))
}

/// The inputs of one thread, where they are to be.
enum Own<'a> {
    Host(&'a [Array]),
    Device(Vec<Tensor>),
}

impl Own<'_> {
    fn new<'a>(session: &Session, inputs: &'a [Array], ends: Ends) -> model::Result<Own<'a>> {
        Ok(match ends {
            Ends::Host => Own::Host(inputs),
            Ends::Device => {
                let tensors = inputs.iter().map(|array| array.tensor(session.pool()));
                Own::Device(tensors.collect::<Result<_, _>>()?)
            }
        })
    }

    fn run(&self, session: &Session, options: &RunOptions) -> model::Result<()> {
        match self {
            Own::Host(arrays) => session
                .run_positional_with(&refer(arrays), options)
                .map(drop),
            Own::Device(tensors) => {
                let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
                let outputs = session.run_to_tensors(&inputs)?;
                Ok(outputs.iter().try_for_each(Tensor::synchronize)?)
            }
        }
    }
}

/// How many of `threads` threads, which all run the model on the same inputs at the same time, get other outputs than
/// `expected`.
pub fn differing(
    session: &Session,
    inputs: &[Array],
    threads: usize,
    options: &(dyn Fn() -> RunOptions + Sync),
    expected: &streampool::Outputs,
) -> Result<usize> {
    let run = |_, _| {
        let outputs = session.run_positional_with(&refer(inputs), &options())?;
        Ok(!outputs.iter().eq(expected.iter()))
    };
    let together = threads::together(0..threads, Ok, || (), run)?;
    Ok(together.done.into_iter().filter(|&differs| differs).count())
}

/// Whatever the session does while `work` is done.
pub fn recorded<T>(
    session: &Session,
    profiled: bool,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Profiled>)> {
    let recording = profiled.then(|| session.profile(RECORDS)).transpose()?;
    let done = work()?;
    let profile = recording.map(|recording| recording.finish()).transpose()?;
    Ok((done, profile))
}
