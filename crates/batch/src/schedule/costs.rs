//! What batches of one kind take, and so how large they should be.

use std::time::Duration;

use super::entry::Reason;

/// Sizes are told apart by powers of two: 1, 2, 3 and 4, 5 to 8, and so on.
const CLASSES: usize = 24;
/// How many of the last batches of a size count.
const KEPT: usize = 8;
/// A larger batch has to take less than this part of the time for each row, or it does not pay.
const GAIN: f32 = 0.95;
/// Once in so many choices against larger sizes, the next larger one is tried again.
const TRY_AGAIN: u32 = 16;

/// What batches took.
pub struct Costs {
    classes: [Recent; CLASSES],
    /// How often a smaller size than the full one was chosen since that was chosen last.
    declined: u32,
}

/// The seconds for each row of the last batches of about one size.
#[derive(Clone, Copy)]
struct Recent {
    seconds: [f32; KEPT],
    count: usize,
}

impl Recent {
    const NONE: Recent = Recent {
        seconds: [0.0; KEPT],
        count: 0,
    };

    fn add(&mut self, seconds: f32) {
        self.seconds[self.count % KEPT] = seconds;
        self.count += 1;
    }

    /// One of the fastest: what disturbs a batch, such as being the first, makes it slower, never faster.
    fn typical(&self) -> Option<f32> {
        let known = self.count.min(KEPT);
        let mut seconds = self.seconds;
        seconds[..known].sort_unstable_by(f32::total_cmp);
        (known > 0).then(|| seconds[known / KEPT])
    }
}

fn class(rows: usize) -> usize {
    let class = rows.max(1).next_power_of_two().trailing_zeros();
    (class as usize).min(CLASSES - 1)
}

impl Costs {
    /// Nothing is known.
    pub fn new() -> Self {
        Costs {
            classes: [Recent::NONE; CLASSES],
            declined: 0,
        }
    }

    /// Takes note of a batch.
    pub fn learn(&mut self, rows: usize, took: Duration) {
        self.classes[class(rows)].add(took.as_secs_f32() / rows.max(1) as f32);
    }

    /// What a row takes in batches of about this size, or of the nearest that is known.
    pub fn per_row(&self, rows: usize) -> Duration {
        let at = class(rows);
        let nearest = (0..CLASSES)
            .filter(|&other| self.classes[other].count > 0)
            .min_by_key(|other| other.abs_diff(at));
        let seconds = nearest.and_then(|at| self.classes[at].typical());
        Duration::try_from_secs_f32(seconds.unwrap_or(0.0)).unwrap_or_default()
    }

    /// How many rows a batch should have of those that are there, and why not all.
    ///
    /// That is the size that takes least for each row, if that pays; sizes that were never tried are, each at most twice as
    /// large as the largest that was. With a time that is left, only sizes that keep to it are considered, as long as there is one.
    pub fn choose(
        &mut self,
        full: usize,
        adaptive: bool,
        left: Option<Duration>,
    ) -> (usize, Option<Reason>) {
        let largest_known = (0..CLASSES).rev().find(|&at| self.classes[at].count > 0);
        let Some(largest_known) = largest_known else {
            return (full, None);
        };
        let most = full.min(2 << largest_known);
        let mut sizes: Vec<usize> = (0..class(most)).map(|at| 1 << at).collect();
        sizes.push(most);
        if let Some(left) = left {
            // What was never tried is taken to be like what is a little smaller.
            let (mut in_time, mut fitting) = (true, sizes.len());
            for (at, &size) in sizes.iter().enumerate() {
                in_time = self.takes(size).map_or(in_time, |takes| takes <= left);
                if in_time {
                    fitting = at + 1;
                }
            }
            sizes.truncate(fitting);
        }
        let largest = *sizes.last().unwrap_or(&full);
        let by_time = (largest < most).then_some(Reason::Objective);
        if !adaptive {
            return (largest, by_time);
        }
        let best = self.cheapest(&sizes);
        if best == largest {
            self.declined = 0;
            return (largest, by_time);
        }
        self.declined += 1;
        // No more than the next one: where large batches do not pay, the largest costs most.
        let next = sizes.iter().copied().find(|&size| size > best);
        let size = match next {
            Some(next) if self.declined.is_multiple_of(TRY_AGAIN) => next,
            _ => best,
        };
        let by_gain = (size < largest).then_some(Reason::NoGain);
        (size, by_gain.or(by_time))
    }

    /// Whether twice as many rows in a batch are known not to pay.
    pub fn is_enough(&self, rows: usize) -> bool {
        let twice = [rows, 2 * rows].map(|rows| self.classes[class(rows)].typical());
        matches!(twice, [Some(once), Some(twice)] if twice >= once * GAIN)
    }

    /// The smallest of rising sizes that no larger one beats; one that was never tried, if there is one.
    fn cheapest(&self, sizes: &[usize]) -> usize {
        let mut best = (1, f32::INFINITY);
        for &size in sizes {
            match self.classes[class(size)].typical() {
                // What is small and never came by is no reason to split what is there.
                None if size < sizes[sizes.len() - 1] => {}
                None => return size,
                Some(seconds) if seconds < best.1 * GAIN => best = (size, seconds),
                Some(_) => {}
            }
        }
        best.0
    }

    fn takes(&self, rows: usize) -> Option<Duration> {
        let seconds = self.classes[class(rows)].typical()?;
        Duration::try_from_secs_f32(seconds * rows as f32).ok()
    }
}
