//! A vector clock: for each queue, up to which of its commands something is ordered.

use streampool_device::Tick;

#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Vec<Tick>);

impl Clock {
    pub fn of(&self, queue: usize) -> Tick {
        self.0.get(queue).copied().unwrap_or(0)
    }

    pub fn covers(&self, queue: usize, tick: Tick) -> bool {
        tick <= self.of(queue)
    }

    pub fn advance(&mut self, queue: usize, tick: Tick) {
        if self.0.len() <= queue {
            self.0.resize(queue + 1, 0);
        }
        self.0[queue] = self.0[queue].max(tick);
    }

    pub fn merge(&mut self, other: &Clock) {
        for (queue, &tick) in other.0.iter().enumerate() {
            if tick > 0 {
                self.advance(queue, tick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_the_later_of_each_queue() {
        let (mut one, mut other) = (Clock::default(), Clock::default());
        one.advance(0, 3);
        one.advance(0, 2);
        other.advance(0, 1);
        other.advance(2, 7);
        one.merge(&other);
        assert_eq!([0, 1, 2, 3].map(|queue| one.of(queue)), [3, 0, 7, 0]);
        assert!(one.covers(2, 7) && !one.covers(2, 8) && !one.covers(1, 1));
    }
}
