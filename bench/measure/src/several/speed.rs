//! One device beside all: rates, waits, and whether the bits are the same.

use std::time::Duration;

use serde::Serialize;
use streampool::DeviceSet;

use super::workload::{Pace, Workload};
use crate::Result;

/// How much longer a wait may be before it counts as worse: so much it differs from run to run.
const NOISE: f64 = 1.05;

/// All devices have to do at least this part of what they would do one by one.
const LEAST: f64 = 0.95;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Speed {
    pub model: &'static str,
    pub threads_per_device: usize,
    /// Each device alone, with threads for one.
    pub one: Vec<Pace>,
    /// All devices together, with threads for all.
    pub all: Pace,
    /// How many times as much all do as one does.
    pub ratio: f64,
    /// Whether that is at least 0.95 times the number of devices.
    pub scales: bool,
    /// Whether the p99 of all is no worse than that of one.
    pub p99_no_worse: bool,
    pub same_bits: bool,
}

/// Runs `workload` on each device alone, and on all.
pub fn measure(set: &DeviceSet, workload: &Workload, time: Duration) -> Result<Speed> {
    let sessions = workload.load(set)?;
    let same_bits = workload.same_bits(&sessions)?;
    let mut one = Vec::new();
    for pool in set.pools() {
        let alone = workload.load(&DeviceSet::new([pool.clone()])?)?;
        one.push(workload.pace(&alone, workload.threads, time, || ())?);
    }
    let all = workload.pace(&sessions, workload.threads * set.len(), time, || ())?;
    let sum: f64 = one.iter().map(|pace| pace.per_second).sum();
    let worst = one.iter().map(|pace| pace.p99).fold(0.0, f64::max);
    Ok(Speed {
        model: workload.name,
        threads_per_device: workload.threads,
        ratio: all.per_second / (sum / one.len() as f64),
        scales: all.per_second >= LEAST * sum,
        p99_no_worse: all.p99 <= NOISE * worst,
        same_bits,
        one,
        all,
    })
}
