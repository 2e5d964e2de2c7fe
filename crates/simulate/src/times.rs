//! How many times were how long: each known to one part in 128.

use std::time::Duration;

const STEPS: u64 = 128;
const BITS: u32 = STEPS.trailing_zeros();
const CELLS: usize = ((64 - BITS as usize) + 1) * STEPS as usize;

/// Counts of times.
#[derive(Debug, Clone)]
pub struct Times {
    cells: Vec<u64>,
    count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            cells: vec![0; CELLS],
            count: 0,
        }
    }
}

impl Times {
    /// Counts a time in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        let cell = match nanos < STEPS {
            true => nanos,
            false => {
                let power = nanos.ilog2() - BITS;
                (u64::from(power) + 1) * STEPS + (nanos >> power) - STEPS
            }
        };
        self.cells[cell as usize] += 1;
        self.count += 1;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// This part of them took no longer; nothing, where there are none.
    pub fn at(&self, part: f64) -> Option<Duration> {
        let wanted = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let cell = self.cells.iter().position(|&count| {
            seen += count;
            seen >= wanted
        })? as u64;
        let nanos = match cell < STEPS {
            true => cell,
            false => {
                let (power, step) = (cell / STEPS - 1, cell % STEPS);
                // The middle of the cell.
                ((STEPS + step) << power) + ((1 << power) >> 1)
            }
        };
        Some(Duration::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_one_part_in_a_hundred() {
        let mut times = Times::default();
        assert_eq!(times.at(0.5), None);
        (1..=100_000u64).for_each(|number| times.add(number * 1000));
        for part in [0.01, 0.5, 0.99, 0.999] {
            let got = times.at(part).unwrap().as_secs_f64();
            assert!((got / (part * 0.1) - 1.0).abs() < 0.01, "{part}: {got}");
        }
        assert_eq!(times.count(), 100_000);
    }
}
