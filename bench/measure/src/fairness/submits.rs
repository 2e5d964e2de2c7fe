//! Thousands of runs that one thread submits before it waits for the first.

use std::time::Instant;

use serde::Serialize;
use streampool::Pool;
use streampool::model::{Pending, Session, SessionOptions};

use super::first::input;
use super::mlp;
use crate::Result;
use crate::machine;
use crate::text::{bytes, time};

/// How many runs.
const RUNS: usize = 5000;

/// What they took, in seconds and bytes.
#[derive(Serialize)]
pub struct Submits {
    runs: usize,
    /// From the first submit to the last answer, by a session that has never run.
    seconds: f64,
    /// The same runs again, when the programs are there: what the runs themselves take.
    again: f64,
    programs: usize,
    /// How much larger the process became, where the system tells.
    memory: Option<usize>,
}

impl Submits {
    /// Measures it with a session of its own.
    pub fn measure(pool: &Pool) -> Result<Submits> {
        let session = Session::from_bytes(pool, mlp::onnx()?, &SessionOptions::default())?;
        // What a process does once is not what is asked for.
        let other = Session::from_bytes(pool, mlp::onnx()?, &SessionOptions::default())?;
        submitted(&other, 2)?;
        let before = machine::memory();
        let (first, after) = submitted(&session, RUNS)?;
        let (again, _) = submitted(&session, RUNS)?;
        Ok(Submits {
            runs: RUNS,
            seconds: first,
            again,
            programs: session.statistics().programs,
            memory: before
                .zip(after)
                .map(|(before, after)| after.saturating_sub(before)),
        })
    }

    /// A line for a terminal.
    pub fn line(&self) -> String {
        let memory = self.memory.map_or_else(String::new, |more| {
            format!(", the process {} larger", bytes(more))
        });
        format!(
            "{} runs submitted by one thread before it waits for the first: {},\n{} programs{memory}. Again: {}.\n",
            self.runs,
            time(self.seconds),
            self.programs,
            time(self.again),
        )
    }
}

/// Submits so many runs, then waits for all. Says how long it took, and the memory when all were over.
fn submitted(session: &Session, runs: usize) -> Result<(f64, Option<usize>)> {
    let row = input(1);
    let begun = Instant::now();
    let pending: Vec<Pending> = (0..runs)
        .map(|_| session.submit([("x", &row)]))
        .collect::<Result<_, _>>()?;
    let mut outputs = Vec::with_capacity(runs);
    for one in pending {
        outputs.push(one.wait()?);
    }
    Ok((begun.elapsed().as_secs_f64(), machine::memory()))
}
