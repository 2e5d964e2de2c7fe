//! How often models are run, by one thread or by many.

use std::time::Duration;

use streampool::Session;

use super::setting::Subject;
use crate::threads::per_second;
use crate::{Failure, Result};

/// Each figure is taken so often, in turn with those it is compared with, each time in a part of the slice. The best counts:
/// what disturbs a machine only ever makes it slower.
pub const ROUNDS: usize = 5;

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
    per_second(&mut workers, slice / ROUNDS as u32)
}

/// So many seconds of a processor may go to handing a run to another thread and back, in which its own could have begun another.
const HANDING_OVER: f64 = 5e-6;

/// A rate of `processors`, as it is if each run is handed over.
pub fn handed_over(rate: f64, processors: usize) -> f64 {
    1.0 / (1.0 / rate + HANDING_OVER / processors as f64)
}

/// The largest of some rates.
pub fn best(rates: &[f64]) -> Result<f64> {
    let best = rates.iter().copied().max_by(f64::total_cmp);
    best.ok_or_else(|| Failure::from("nothing was measured"))
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

    #[test]
    fn the_best_is_the_largest() {
        assert_eq!(best(&[3.0, 1.0, 3.5, 2.0]).unwrap(), 3.5);
        assert!(best(&[]).is_err());
    }
}
