//! Inputs whose values a plan is made for: small integers that decide what is computed, such as a sampling rate.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::lock::Mutex;

use super::input::Input;
use crate::ranks;

/// Plans are made for the values of no input of more elements.
const MOST_ELEMENTS: usize = 8;

/// After so many plans that were made for values it is asked whether these come back.
const WINDOW: usize = 256;

/// So often at least a value has to be used on average.
const USES: u64 = 2;

/// The inputs of a session for whose values plans are made so far.
pub struct ByValue {
    places: AtomicU64,
    /// Values of these did not come back.
    barred: AtomicU64,
    latest: Mutex<Latest>,
}

/// The plans made for values since the last time it was asked.
#[derive(Default)]
struct Latest {
    plans: usize,
    /// How many runs there had been before.
    runs: u64,
    /// The values, by place, hashed.
    values: HashMap<usize, HashSet<u64>>,
    hasher: RandomState,
}

/// A set of inputs, by place; only the first 64 can be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputSet(u64);

impl InputSet {
    /// Whether the input of this place is in it.
    pub fn contains(self, place: usize) -> bool {
        place < 64 && self.0 & 1 << place != 0
    }

    /// Whether no input is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl ByValue {
    /// None so far.
    pub fn new() -> ByValue {
        ByValue {
            places: AtomicU64::new(0),
            barred: AtomicU64::new(0),
            latest: Mutex::new(ranks::BY_VALUE, Latest::default()),
        }
    }

    /// Those of these inputs. One that is among them for other requests need not be so for a request that gives it at length.
    pub fn places(&self, inputs: &[Input<'_>]) -> InputSet {
        let all = self.places.load(Ordering::Acquire) & !self.barred.load(Ordering::Acquire);
        if all == 0 {
            return InputSet(0);
        }
        let small = inputs.iter().take(64).enumerate();
        let small = small.filter(|(_, input)| can_be(input));
        InputSet(all & small.fold(0, |places, (place, _)| places | 1 << place))
    }

    /// Adds those inputs that values depend on which a trace asked for, if all of them can be. They are counted without
    /// those that were among them for that trace. Says whether there were any.
    pub fn add(&self, before: InputSet, asked: &[usize], inputs: &[Input<'_>]) -> bool {
        let others: Vec<usize> = (0..inputs.len())
            .filter(|&place| !before.contains(place))
            .collect();
        let mut places = 0u64;
        for &number in asked {
            let Some(&place) = others.get(number) else {
                return false;
            };
            if place >= 64 || !can_be(&inputs[place]) {
                return false;
            }
            places |= 1 << place;
        }
        if places & self.barred.load(Ordering::Acquire) != 0 {
            return false;
        }
        self.places.fetch_or(places, Ordering::AcqRel);
        places != 0
    }

    /// Notes that a plan was made for these values, after so many runs. Inputs whose values do not come back are taken
    /// out: making a plan for each takes more than it saves.
    pub fn planned(&self, values: &[(usize, impl AsRef<[u8]>)], runs: u64) {
        if values.is_empty() {
            return;
        }
        let mut latest = self.latest.lock();
        if latest.plans == 0 {
            latest.runs = runs;
        }
        latest.plans += 1;
        for (place, bytes) in values {
            let hash = latest.hasher.hash_one(bytes.as_ref());
            latest.values.entry(*place).or_default().insert(hash);
        }
        if latest.plans < WINDOW {
            return;
        }
        let latest = std::mem::take(&mut *latest);
        if runs.saturating_sub(latest.runs) >= USES * WINDOW as u64 {
            return;
        }
        let varied = latest.values.iter();
        let varied = varied.filter(|(_, values)| values.len() > WINDOW / 2);
        let places = match varied.fold(0u64, |places, (place, _)| places | 1 << place) {
            0 => u64::MAX,
            places => places,
        };
        self.barred.fetch_or(places, Ordering::AcqRel);
    }
}

fn can_be(input: &Input<'_>) -> bool {
    !input.dtype().is_float() && input.shape().iter().product::<usize>() <= MOST_ELEMENTS
}
