//! How values are spread: counts by size, in steps of at most a sixteenth.

use serde::{Serialize, Serializer};

/// Steps between a power of two and the next.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const CELLS: usize = ((64 - STEP_BITS as usize) + 1) * STEPS as usize;

/// How often values of about each size came by. A value is known to a sixteenth of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    cells: Box<[u64; CELLS]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            cells: Box::new([0; CELLS]),
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

/// In which cell a value counts.
fn cell(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let power = value.ilog2() - STEP_BITS;
    let step = (value >> power) - STEPS;
    ((u64::from(power) + 1) * STEPS + step) as usize
}

/// The largest value of a cell.
fn last_of(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < STEPS {
        return cell;
    }
    let (power, step) = (cell / STEPS - 1, cell % STEPS);
    let first = u128::from(STEPS + step) << power;
    u64::try_from(first + (1u128 << power) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.cells[cell(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (cell, more) in self.cells.iter_mut().zip(other.cells.iter()) {
            *cell += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Their mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The value that this part of them does not exceed, to a sixteenth. `None` if there are none.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let cell = self.cells.iter().position(|&count| {
            seen += count;
            seen >= wanted
        })?;
        Some(last_of(cell).min(self.max))
    }

    /// Each size that came by, and how often: the largest value that counts there, and the count.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let cells = self.cells.iter().enumerate();
        cells
            .filter(|(_, count)| **count > 0)
            .map(|(cell, &count)| (last_of(cell), count))
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.counts()).finish()
    }
}

impl Serialize for Histogram {
    /// Its figures, not its cells.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Figures {
            count: u64,
            mean: f64,
            p50: Option<u64>,
            p90: Option<u64>,
            p99: Option<u64>,
            max: u64,
        }
        let figures = Figures {
            count: self.count,
            mean: self.mean(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.max,
        };
        figures.serialize(serializer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_small_values_are_exact() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for value in 1..=10 {
            histogram.add(value);
        }
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert_eq!(histogram.quantile(0.5), Some(5));
        assert_eq!(histogram.quantile(0.91), Some(10));
        assert_eq!((histogram.count(), histogram.max()), (10, 10));
        assert_eq!(histogram.mean(), 5.5);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_cell_that_ends_within_a_sixteenth(value: u64) {
            let last = last_of(cell(value));
            prop_assert!(last >= value);
            prop_assert!(last - value <= value / STEPS);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(mut values in prop::collection::vec(0u64..1 << 40, 1..200), part in 0.0..1.0f64) {
            let mut halves = [Histogram::default(), Histogram::default()];
            for (at, &value) in values.iter().enumerate() {
                halves[at % 2].add(value);
            }
            let [mut all, other] = halves;
            all.merge(&other);
            values.sort_unstable();
            let wanted = values[((part * values.len() as f64).ceil() as usize).max(1) - 1];
            let got = all.quantile(part).unwrap();
            prop_assert!(got >= wanted && got - wanted <= wanted / STEPS, "{got} for {wanted}");
        }
    }
}
