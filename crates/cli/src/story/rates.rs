//! How often models are run, by one thread or by many.

use std::time::Duration;

use streampool::Session;

use super::chapter::Now;
use super::setting::Subject;
use crate::threads::per_second;
use crate::{Failure, Result};

/// Each figure is taken so often, in turn with those it is compared with, each time in a part of the slice. The best counts:
/// what disturbs a machine only ever makes it slower.
pub const ROUNDS: u32 = 5;

/// The best rate of each case. `rate` takes one, in turn with those of the other cases.
pub fn best_of_rounds<C>(
    cases: &[C],
    subject: &Subject,
    now: Now<'_>,
    told: impl Fn(&C) -> String,
    mut rate: impl FnMut(&C) -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut best = vec![0f64; cases.len()];
    for round in 1..=ROUNDS {
        for (case, best) in cases.iter().zip(&mut best) {
            let (name, what) = (&subject.name, told(case));
            now(&format!("{name}, {what}, round {round} of {ROUNDS}"));
            *best = best.max(rate(case)?);
        }
    }
    match best.iter().all(|&rate| rate > 0.0) {
        true => Ok(best),
        false => Err(Failure::from("nothing was measured")),
    }
}

/// How much all `workers` together do per second, in a round.
pub fn in_a_round<W>(workers: &mut [W], slice: Duration) -> Result<f64>
where
    W: FnMut() -> Result<u64> + Send,
{
    per_second(workers, slice / ROUNDS)
}

/// Runs per second of as many threads as there are sessions, each running its own.
pub fn of_threads(subject: &Subject, sessions: &[&Session], slice: Duration) -> Result<f64> {
    let worker = |(number, session): (usize, &&Session)| {
        let (session, inputs) = ((*session).clone(), subject.inputs(number));
        move || {
            session.run_positional(&inputs)?;
            Ok(1)
        }
    };
    let mut workers: Vec<_> = sessions.iter().enumerate().map(worker).collect();
    in_a_round(&mut workers, slice)
}

/// So many seconds of a processor may go to handing a run to another thread and back, in which its own could have begun another.
const HANDING_OVER: f64 = 5e-6;

/// A rate of `processors`, as it is if each run is handed over.
pub fn handed_over(rate: f64, processors: usize) -> f64 {
    1.0 / (1.0 / rate + HANDING_OVER / processors as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handing_over_takes_its_time() {
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 1e-9;
        assert!(near(handed_over(200e3, 1), 100e3));
        assert!(near(handed_over(200e3, 2), 200e3 / 1.5));
        assert!(near(handed_over(100.0, 1), 100.0 / 1.0005));
    }
}
