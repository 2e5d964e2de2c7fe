//! What the tests share: a pool on the host, and seeded choices.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod values;

use streampool_host::{HostDevice, HostOptions};
use streampool_tensor::Pool;

/// A pool on a host device of its own.
pub fn pool() -> Pool {
    Pool::new(HostDevice::new(HostOptions::default()).unwrap()).unwrap()
}

/// Seeded random numbers (xorshift): the same in each run.
pub struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Choices {
        Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: isize, high: isize) -> isize {
        low + self.below((high - low + 1) as usize) as isize
    }
}
