//! Random numbers, and random layouts made of them.

use streampool_device::Layout;

/// A small generator (SplitMix64): the same numbers for the same seed, everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to just below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// From `first` to `last`.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// From -1.5 to 1.5: products of a few of these stay small.
    pub fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 3.0 - 1.5
    }

    /// A shape of a few small dimensions, one of them long at times.
    pub fn shape(&mut self, least_rank: usize, most_rank: usize) -> Vec<usize> {
        let rank = self.between(least_rank, most_rank);
        let mut shape: Vec<usize> = (0..rank).map(|_| self.between(1, 9)).collect();
        if rank > 0 && self.once_in(4) {
            let long = self.below(rank);
            shape[long] = self.between(10, 700);
        }
        shape
    }

    /// A shape that broadcasts to `shape`.
    pub fn broadcasting(&mut self, shape: &[usize]) -> Vec<usize> {
        let dropped = match self.once_in(4) {
            true => self.below(shape.len() + 1),
            false => 0,
        };
        let kept = shape[dropped..].iter();
        kept.map(|&size| if self.once_in(4) { 1 } else { size })
            .collect()
    }

    /// A layout of this shape: row-major half of the time; else its dimensions in any order, with gaps.
    pub fn layout(&mut self, shape: &[usize]) -> Layout {
        if self.once_in(2) {
            return Layout::contiguous(shape).unwrap();
        }
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        for place in (1..rank).rev() {
            order.swap(place, self.below(place + 1));
        }
        let gaps: Vec<_> = shape
            .iter()
            .map(|_| (self.below(3), self.between(1, 2)))
            .collect();
        let in_memory: Vec<usize> = order
            .iter()
            .map(|&axis| gaps[axis].0 + shape[axis] * gaps[axis].1)
            .collect();
        let mut back = vec![0; rank];
        for (place, &axis) in order.iter().enumerate() {
            back[axis] = place;
        }
        let whole = Layout::contiguous(&in_memory).unwrap();
        let mut layout = whole.permute(&back).unwrap();
        for (axis, (lead, step)) in gaps.into_iter().enumerate() {
            let end = lead + shape[axis] * step;
            layout = layout.slice(axis, lead, end, step).unwrap();
        }
        layout
    }
}
