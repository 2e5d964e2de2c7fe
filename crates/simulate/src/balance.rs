//! To which replica a request goes.

use crate::random::Random;

/// How a balancer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// The replica with the fewest requests.
    LeastOutstanding,
    /// Of two at random, the one with fewer requests.
    PowerOfTwo,
    /// One after the other.
    RoundRobin,
}

/// The replicas that take requests, by how many each has.
pub struct Balancer {
    by: Balance,
    /// Those that take requests, in any order, and where each is among them.
    taking: Vec<usize>,
    place: Vec<Option<usize>>,
    outstanding: Vec<usize>,
    /// For the fewest: those of each count, and where each is among them.
    counts: Vec<Vec<usize>>,
    among: Vec<usize>,
    next: usize,
    random: Random,
}

impl Balancer {
    /// Of so many replicas, none of which takes requests yet.
    pub fn new(by: Balance, replicas: usize, seed: u64) -> Balancer {
        Balancer {
            by,
            taking: Vec::new(),
            place: vec![None; replicas],
            outstanding: vec![0; replicas],
            counts: vec![Vec::new()],
            among: vec![0; replicas],
            next: 0,
            random: Random::new(seed),
        }
    }

    /// How many take requests.
    pub fn taking(&self) -> usize {
        self.taking.len()
    }

    /// Whether a replica takes requests.
    pub fn takes(&self, replica: usize) -> bool {
        self.place[replica].is_some()
    }

    /// A replica that takes requests, if there is one.
    pub fn any(&self) -> Option<usize> {
        self.taking.last().copied()
    }

    /// Requests of all that take some.
    pub fn total(&self) -> usize {
        self.taking
            .iter()
            .map(|&replica| self.outstanding[replica])
            .sum()
    }

    /// Whether a replica takes requests, from now on.
    pub fn set(&mut self, replica: usize, takes: bool) {
        match (self.place[replica], takes) {
            (None, true) => {
                self.place[replica] = Some(self.taking.len());
                self.taking.push(replica);
                self.count_in(replica);
            }
            (Some(place), false) => {
                self.count_out(replica);
                self.taking.swap_remove(place);
                if let Some(&moved) = self.taking.get(place) {
                    self.place[moved] = Some(place);
                }
                self.place[replica] = None;
            }
            _ => {}
        }
    }

    /// A replica has so many requests.
    pub fn has(&mut self, replica: usize, requests: usize) {
        let counted = self.place[replica].is_some();
        if counted {
            self.count_out(replica);
        }
        self.outstanding[replica] = requests;
        if counted {
            self.count_in(replica);
        }
    }

    fn count_in(&mut self, replica: usize) {
        let count = self.outstanding[replica];
        if self.counts.len() <= count {
            self.counts.resize_with(count + 1, Vec::new);
        }
        self.among[replica] = self.counts[count].len();
        self.counts[count].push(replica);
    }

    fn count_out(&mut self, replica: usize) {
        let (count, at) = (self.outstanding[replica], self.among[replica]);
        self.counts[count].swap_remove(at);
        if let Some(&moved) = self.counts[count].get(at) {
            self.among[moved] = at;
        }
    }

    /// The replica for the next request; nothing, if none takes any.
    pub fn choose(&mut self) -> Option<usize> {
        if self.taking.is_empty() {
            return None;
        }
        let some = |random: &mut Random, of: &[usize]| of[random.below(of.len())];
        Some(match self.by {
            Balance::RoundRobin => {
                self.next = (self.next + 1) % self.taking.len();
                self.taking[self.next]
            }
            Balance::PowerOfTwo => {
                let one = some(&mut self.random, &self.taking);
                let other = some(&mut self.random, &self.taking);
                match self.outstanding[other] < self.outstanding[one] {
                    true => other,
                    false => one,
                }
            }
            Balance::LeastOutstanding => {
                let fewest = self.counts.iter().find(|of| !of.is_empty())?;
                some(&mut self.random, fewest)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_is_found_as_counts_change() {
        let mut balancer = Balancer::new(Balance::LeastOutstanding, 5, 1);
        assert_eq!(balancer.choose(), None);
        (0..5).for_each(|replica| balancer.set(replica, true));
        let mut random = Random::new(2);
        let mut known = [0; 5];
        for _ in 0..1000 {
            let chosen = balancer.choose().unwrap();
            assert_eq!(known[chosen], *known.iter().min().unwrap());
            known[chosen] += 1;
            balancer.has(chosen, known[chosen]);
            let other = random.below(5);
            known[other] = random.below(10);
            balancer.has(other, known[other]);
        }
        assert_eq!(balancer.total(), known.iter().sum::<usize>());
        balancer.set(2, false);
        balancer.has(2, 0);
        for _ in 0..20 {
            assert_ne!(balancer.choose(), Some(2));
        }
        balancer.set(2, true);
        assert_eq!(balancer.taking(), 5);
    }

    #[test]
    fn round_robin_goes_round_and_two_are_better_than_one() {
        let mut balancer = Balancer::new(Balance::RoundRobin, 3, 1);
        (0..3).for_each(|replica| balancer.set(replica, true));
        let mut chosen: Vec<_> = (0..6).map(|_| balancer.choose().unwrap()).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 0, 1, 1, 2, 2]);
        let mut balancer = Balancer::new(Balance::PowerOfTwo, 2, 1);
        (0..2).for_each(|replica| balancer.set(replica, true));
        balancer.has(0, 9);
        let to_the_full_one = (0..1000).filter(|_| balancer.choose() == Some(0)).count();
        assert!((150..350).contains(&to_the_full_one), "{to_the_full_one}");
    }
}
