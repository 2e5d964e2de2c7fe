//! What the machine could do at most: by it one knows how much is left.

use std::time::Duration;

use serde::Serialize;
use streampool::Tensor;
use streampool_measure::host;

use super::case::{Call, Stage};
use crate::Result;
use crate::noise::Noise;

/// Rows and columns of a product that fills a GPU.
const SIZE: usize = 4096;

/// Bytes of the activations of a wide layer: what one operator on the host reads or writes.
const HOST_BYTES: usize = 128 * 1536 * 4;

/// The rates that bound every operator.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Peak {
    /// Floating-point operations per second: of multiply-adds in registers on the host, of a large product on a GPU.
    pub flop_per_s: f64,
    /// Bytes read and written per second by a copy: on the host of memory that stays in the caches, as that of the
    /// operators does.
    pub bytes_per_s: f64,
}

impl Peak {
    /// The share of the bounding peak that an operator reaches which takes so many seconds, and which peak it is.
    pub fn share(&self, flops: f64, bytes: f64, seconds: f64) -> (f64, Bound) {
        let of_flops = flops / self.flop_per_s / seconds;
        let of_bytes = bytes / self.bytes_per_s / seconds;
        if of_flops > of_bytes {
            (of_flops, Bound::Flops)
        } else {
            (of_bytes, Bound::Bytes)
        }
    }
}

/// What keeps an operator from being faster on a perfect device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Flops,
    /// Memory.
    Bytes,
}

impl Bound {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Flops => "flops",
            Bound::Bytes => "bytes",
        }
    }
}

/// How the peaks are measured.
pub enum Ceiling {
    /// By so many threads that do nothing else.
    Host { threads: usize },
    /// By a large product; for memory by the operator `copy`.
    Device { product: Call },
}

impl Ceiling {
    /// The ceiling of what `stage` runs on.
    pub fn new(stage: &Stage) -> Result<Ceiling> {
        if stage.is_host() {
            let threads = stage.pool.device().properties().compute_units;
            return Ok(Ceiling::Host { threads });
        }
        let mut noise = Noise::new(16);
        let mut square =
            || -> Result<Tensor> { Ok(stage.input(&mut noise, &[SIZE, SIZE], 1.0)?.tensor) };
        let (a, b) = (square()?, square()?);
        let product = Box::new(move || a.matmul(&b));
        Ok(Ceiling::Device { product })
    }

    /// Floating-point operations per second.
    pub fn flop_per_s(&self, stage: &Stage, slice: Duration) -> Result<f64> {
        match self {
            Ceiling::Host { threads } => host::flops(*threads, slice),
            Ceiling::Device { product } => {
                let operations = 2.0 * (SIZE * SIZE * SIZE) as f64;
                Ok(operations / stage.seconds(slice, product)?)
            }
        }
    }

    /// Bytes read and written per second, where no operator tells.
    pub fn bytes_per_s(&self, slice: Duration) -> Result<Option<f64>> {
        match *self {
            Ceiling::Host { threads } => {
                host::copied_bytes(threads, HOST_BYTES / threads, slice).map(Some)
            }
            Ceiling::Device { .. } => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcer_of_both_bounds() {
        let peak = Peak {
            flop_per_s: 100.0,
            bytes_per_s: 10.0,
        };
        assert_eq!(peak.share(50.0, 1.0, 1.0), (0.5, Bound::Flops));
        assert_eq!(peak.share(50.0, 8.0, 2.0), (0.4, Bound::Bytes));
        assert_eq!(peak.share(0.0, 8.0, 1.0), (0.8, Bound::Bytes));
    }
}
