//! Inputs whose values a plan is made for: small integers that decide what is computed, such as a sampling rate.

use std::sync::atomic::{AtomicU64, Ordering};

use super::input::Input;

/// Inputs of more elements are never special.
const MOST_ELEMENTS: usize = 8;

/// Which inputs of a session are special so far.
#[derive(Default)]
pub struct Special(AtomicU64);

/// A set of inputs, by place; only the first 64 can be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places(u64);

impl Places {
    /// Whether the input of this place is in it.
    pub fn contains(self, place: usize) -> bool {
        place < 64 && self.0 & 1 << place != 0
    }
}

impl Special {
    /// Those so far.
    pub fn places(&self) -> Places {
        Places(self.0.load(Ordering::Acquire))
    }

    /// Makes those inputs special that values depend on which a trace asked for, if all of them can be. They are counted
    /// without those that were special for that trace. Says whether there were any.
    pub fn add(&self, before: Places, asked: &[usize], inputs: &[Input<'_>]) -> bool {
        let others: Vec<usize> = (0..inputs.len())
            .filter(|&place| !before.contains(place))
            .collect();
        let mut places = 0u64;
        for &number in asked {
            let Some(&place) = others.get(number) else {
                return false;
            };
            let input = inputs[place];
            let small = input.shape().iter().product::<usize>() <= MOST_ELEMENTS;
            if place >= 64 || input.dtype().is_float() || !small {
                return false;
            }
            places |= 1 << place;
        }
        self.0.fetch_or(places, Ordering::AcqRel);
        places != 0
    }
}
