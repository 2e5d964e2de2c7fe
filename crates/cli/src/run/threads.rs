//! One session, many threads.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use streampool::model::{self, Profiled, Statistics};
use streampool::{Array, Exhaustion, Input, Session, Settings, Tensor};

use crate::inputs::refer;
use crate::{Failure, Result};

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

/// Refuses more threads than have streams, where a thread without one would wait for another to end.
pub fn check(threads: usize) -> Result<()> {
    let settings = Settings::builder().build()?;
    let waits = matches!(settings.exhaustion, Exhaustion::Wait(_));
    if waits && threads >= settings.streams {
        return Err(format!(
            "{threads} threads need {} streams, since a thread waits for one here: set STREAMPOOL_STREAMS",
            threads + 1
        )
        .into());
    }
    Ok(())
}

/// Each thread runs the model on its own inputs for this long, all at the same time.
pub fn repeat(
    session: &Session,
    inputs: &[Vec<Array>],
    time: Duration,
    ends: Ends,
    profiled: bool,
) -> Result<(Measured, Option<Profiled>)> {
    let gate = &Barrier::new(inputs.len() + 1);
    thread::scope(|scope| {
        let work = |own| move || again_and_again(session, own, time, ends, gate);
        let running: Vec<_> = inputs.iter().map(|own| scope.spawn(work(own))).collect();
        gate.wait();
        // All are warm and wait: what is counted from here on is theirs.
        let before = Counters::of(session);
        let recording = profiled.then(|| session.profile(RECORDS)).transpose();
        gate.wait();
        let begin = Instant::now();
        let ended = running.into_iter().map(|thread| {
            let ended = thread
                .join()
                .map_err(|_| Failure::from("a thread panicked"))?;
            ended.map_err(Failure::from)
        });
        let times: Vec<Vec<Duration>> = ended.collect::<Result<_>>()?;
        let seconds = begin.elapsed().as_secs_f64();
        let meanwhile = Counters::of(session)?.since(&before?);
        let profile = recording?.map(|recording| recording.finish()).transpose()?;
        let mut all = times.concat();
        all.sort_unstable();
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize].as_secs_f64();
        let measured = Measured {
            threads: inputs.len(),
            seconds,
            runs: all.len(),
            runs_per_second: all.len() as f64 / seconds,
            latency_seconds: Latency {
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                max: at(1.0),
            },
            meanwhile,
        };
        Ok((measured, profile))
    })
}

/// How long each run took, warm-up aside: one at least.
fn again_and_again(
    session: &Session,
    inputs: &[Array],
    time: Duration,
    ends: Ends,
    gate: &Barrier,
) -> model::Result<Vec<Duration>> {
    let tensors = match ends {
        Ends::Host => Vec::new(),
        Ends::Device => {
            let tensors = inputs.iter().map(|array| array.tensor(session.pool()));
            tensors.collect::<model::Result<_>>()?
        }
    };
    let inputs = match ends {
        Ends::Host => refer(inputs),
        Ends::Device => tensors.iter().map(Input::from).collect(),
    };
    let run = || match ends {
        Ends::Host => session.run_in_order(&inputs).map(drop),
        Ends::Device => {
            let outputs = session.run_to_tensors(&inputs)?;
            Ok(outputs.iter().try_for_each(Tensor::synchronize)?)
        }
    };
    let warm = (0..WARM).try_for_each(|_| run());
    // All come here, also one that failed: the others wait for it.
    gate.wait();
    gate.wait();
    warm?;
    let mut times = Vec::new();
    let begin = Instant::now();
    loop {
        let started = Instant::now();
        run()?;
        let ended = Instant::now();
        times.push(ended - started);
        if ended - begin >= time {
            return Ok(times);
        }
    }
}

/// How many of `threads` threads, which all run the model on the same inputs at the same time, get other outputs than
/// `expected`.
pub fn differing(
    session: &Session,
    inputs: &[Array],
    threads: usize,
    expected: &streampool::Outputs,
) -> Result<usize> {
    let gate = &Barrier::new(threads);
    thread::scope(|scope| {
        let work = || {
            gate.wait();
            let outputs = session.run_in_order(&refer(inputs))?;
            Ok(!outputs.iter().eq(expected.iter()))
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|thread| {
            let ended = thread
                .join()
                .map_err(|_| Failure::from("a thread panicked"))?;
            ended.map_err(|error: model::Error| error.into())
        });
        let differ: Vec<bool> = ended.collect::<Result<_>>()?;
        Ok(differ.into_iter().filter(|&differs| differs).count())
    })
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
