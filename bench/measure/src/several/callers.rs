//! Many callers of a queue over all devices: how even the work is, and that each gets its own answer once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use streampool::{Array, BatchQueue, DeviceSet, ForSession};

use super::workload::Workload;
use crate::errors::difference;
use crate::fairness::mlp;
use crate::latencies::{Latencies, again_and_again};
use crate::noise::Noise;
use crate::{Result, threads};

/// How far an answer may be from that of a run alone: a batch is summed in another order.
const ALLOWANCE: f64 = 1e-3;

/// Each caller sends one of so many rows.
const ROWS: usize = 64;

/// How often the devices are looked at.
const LOOK: Duration = Duration::from_millis(1);

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Callers {
    pub callers: usize,
    pub per_second: f64,
    pub p99: f64,
    /// The same callers, with the first device alone.
    pub per_second_of_one: f64,
    /// How far the device with the most requests under way was above the mean, as a fraction of it: in the mean, and at most in 99 of
    /// 100 looks.
    pub uneven: f64,
    pub uneven_p99: f64,
    /// Whether the mean is at most 5 %.
    pub balanced: bool,
    pub looks: usize,
    pub answered: usize,
    /// Answers that were another row's, or wrong.
    pub wrong: usize,
    /// What the queues say that they answered.
    pub completed: u64,
    /// Whether each request was answered once.
    pub each_once: bool,
}

/// Has so many callers send row after row.
pub fn measure(set: &DeviceSet, callers: usize, time: Duration) -> Result<Callers> {
    let first = set.pools().next().ok_or("there is no device")?.clone();
    let one = crowd(&DeviceSet::new([first])?, callers, time)?;
    let all = crowd(set, callers, time)?;
    Ok(Callers {
        per_second_of_one: one.per_second,
        ..all
    })
}

fn crowd(set: &DeviceSet, callers: usize, time: Duration) -> Result<Callers> {
    let sessions = Workload::mlp(1)?.load(set)?;
    let settings = || BatchQueue::builder().max_batch_size(128).capacity(1 << 20);
    let queues = sessions.map(|session| BatchQueue::for_session(session, settings()))?;
    let single = sessions.iter().next().ok_or("there is no device")?;
    let mut rows = Vec::new();
    for seed in 0..ROWS as u64 {
        let row = Array::new(&Noise::new(seed).normal(mlp::INPUTS), &[1, mlp::INPUTS])?;
        let answer = single.run([("x", &row)])?.into_arrays().remove(0);
        rows.push((row, answer.values::<f32>()?.to_vec()));
    }
    let call = |turn: &mut usize, wrong: &mut usize| -> Result<()> {
        let (row, expected) = &rows[*turn % ROWS];
        *turn += 1;
        let outputs = queues.infer(row.clone())?;
        *wrong += usize::from(difference(outputs[0].values::<f32>()?, expected) > ALLOWANCE);
        Ok(())
    };
    let (begun, stop) = (&AtomicBool::new(false), AtomicBool::new(false));
    let (together, looks) = std::thread::scope(|scope| {
        let together = scope.spawn(|| {
            let call = &call;
            let done = threads::together(
                0..callers,
                |caller| {
                    let (mut turn, mut wrong) = (caller * 7, 0);
                    let times = again_and_again(time / 2, || call(&mut turn, &mut wrong))?;
                    Ok((turn, wrong, times.len()))
                },
                || begun.store(true, Ordering::Relaxed),
                |(mut turn, mut wrong, before), begin| {
                    let times = again_and_again(time, || call(&mut turn, &mut wrong))?;
                    Ok((wrong, before, times, begin.elapsed()))
                },
            );
            stop.store(true, Ordering::Relaxed);
            done
        });
        let mut looks = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            let counts = set
                .status()
                .into_iter()
                .map(|device| device.under_way as f64);
            let counts: Vec<f64> = counts.collect();
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            // While callers come and go there are fewer.
            if begun.load(Ordering::Relaxed) && mean * counts.len() as f64 >= callers as f64 * 0.5 {
                looks.push(counts.iter().copied().fold(0.0, f64::max) / mean - 1.0);
            }
        }
        (together.join(), looks)
    });
    let done = together.map_err(|_| "a thread panicked")??.done;
    let mut looks = looks;
    looks.sort_by(f64::total_cmp);
    let uneven = looks.iter().sum::<f64>() / looks.len().max(1) as f64;
    let place = (looks.len() * 99 / 100).min(looks.len().saturating_sub(1));
    let answered = done
        .iter()
        .map(|(_, before, times, _)| before + times.len())
        .sum();
    let rates = done
        .iter()
        .map(|(_, _, times, took)| times.len() as f64 / took.as_secs_f64());
    let per_second = rates.sum();
    let completed = queues
        .iter()
        .map(|queue| queue.statistics().requests.completed)
        .sum();
    let begun: u64 = set
        .status()
        .iter()
        .map(|device| device.under_way as u64)
        .sum();
    let wrong = done.iter().map(|(wrong, ..)| wrong).sum();
    let times = Latencies::new(
        done.into_iter()
            .flat_map(|(_, _, times, _)| times)
            .collect(),
    );
    Ok(Callers {
        callers,
        per_second,
        p99: times.at(0.99).as_secs_f64(),
        per_second_of_one: per_second,
        uneven,
        uneven_p99: looks.get(place).copied().unwrap_or(0.0),
        balanced: uneven <= 0.05,
        looks: looks.len(),
        answered,
        wrong,
        completed,
        each_once: completed == answered as u64 && begun == 0 && wrong == 0,
    })
}
