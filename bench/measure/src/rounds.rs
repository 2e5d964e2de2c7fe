//! Figures taken in turn, round after round.

use std::time::Duration;

use super::figure::Measurement;
use crate::Result;
use crate::progress::Progress;

/// Takes values of all, and says how many of each. One round of all comes before the next of any: what disturbs the
/// machine for a while hits all alike.
pub fn take(measurements: &mut [Measurement], quick: bool) -> Result<usize> {
    let (rounds, slice) = match quick {
        true => (5, Duration::from_millis(4)),
        false => (31, Duration::from_millis(25)),
    };
    let progress = Progress::new();
    // The first round warms up.
    for round in 0..=rounds {
        for measurement in &mut *measurements {
            progress.step(round + 1, rounds + 1, measurement.figure.what);
            let value = measurement.round(slice)?;
            if round > 0 {
                measurement.values.push(value);
            }
        }
    }
    Ok(rounds)
}
