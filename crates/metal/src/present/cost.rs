//! How much the GPU has to do for one command buffer.
//!
//! With a display on, macOS 26 kills a command buffer that keeps the screen waiting ("Impacting Interactivity", code 14:
//! mlx#3267), and one large product was enough on an M1 Max (cubecl#1523). So a page ends by what it costs, and an op that
//! costs more is divided.

use std::iter::Sum;

/// The multiplications, or elements that are gone over, of one page: some milliseconds of a GPU of 10^12 operations a second.
pub(crate) const MOST_WORK: u64 = 1 << 31;
/// The bytes of operands of one page: four milliseconds of a memory of 64 GB a second.
pub(crate) const MOST_BYTES: u64 = 256 << 20;
/// What a step costs at least, as work: to launch it takes time, too.
const LEAST_WORK: u64 = 1 << 20;

/// What one or several steps cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    work: u64,
    bytes: u64,
}

impl Cost {
    /// Of one step.
    pub fn new(work: u64, bytes: u64) -> Cost {
        Cost {
            work: work.max(LEAST_WORK),
            bytes,
        }
    }

    pub fn is_nothing(&self) -> bool {
        *self == Cost::default()
    }

    pub fn plus(self, other: Cost) -> Cost {
        Cost {
            work: self.work.saturating_add(other.work),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Whether it is more than a page should have.
    pub fn is_too_much(&self) -> bool {
        self.work > MOST_WORK || self.bytes > MOST_BYTES
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Cost::plus)
    }
}
