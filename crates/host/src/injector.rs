//! Delays and faults on request, so that tests meet the races and failures that are rare.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use streampool_device::OpKind;
use streampool_device::lock::Mutex;

use crate::ranks;

/// Which ops an injected fault hits; by default any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpMatcher {
    /// The queue's index, or any queue.
    pub queue: Option<u32>,
    /// The op, or any op.
    pub op: Option<OpKind>,
}

impl OpMatcher {
    /// Any op on any queue.
    pub fn any() -> Self {
        OpMatcher::default()
    }

    /// Only on the queue made with this index.
    pub fn on_queue(mut self, index: u32) -> Self {
        self.queue = Some(index);
        self
    }

    /// Only this op.
    pub fn of_kind(mut self, op: OpKind) -> Self {
        self.op = Some(op);
        self
    }

    fn matches(&self, queue: u32, op: OpKind) -> bool {
        self.queue.is_none_or(|wanted| wanted == queue) && self.op.is_none_or(|wanted| wanted == op)
    }
}

/// Makes a host device slow or faulty on purpose. An op is what [`OpKind`] names: also uploads, downloads,
/// replays, and each op inside a replay.
#[derive(Debug)]
pub struct Injector {
    /// Whether there is any rule; all that an undisturbed device ever looks at.
    active: AtomicBool,
    rules: Mutex<Rules>,
}

#[derive(Debug, Default)]
struct Rules {
    delays: HashMap<u32, Duration>,
    random: Option<RandomDelays>,
    faults: Vec<FaultRule>,
    allocations: usize,
}

#[derive(Debug)]
struct RandomDelays {
    seed: u64,
    max: Duration,
    /// How many ops of each queue were delayed.
    drawn: HashMap<u32, u64>,
}

#[derive(Debug)]
struct FaultRule {
    which: OpMatcher,
    left: u64,
    message: String,
}

impl Injector {
    pub(crate) fn new() -> Self {
        Injector {
            active: AtomicBool::new(false),
            rules: Mutex::new(ranks::RULES, Rules::default()),
        }
    }

    /// Each op of the queue made with this index sleeps this long before it executes.
    pub fn delay_queue(&self, index: u32, delay: Duration) {
        self.change(|rules| {
            rules.delays.insert(index, delay);
        });
    }

    /// Each op sleeps up to `max` before it executes. How long depends only on the seed, on the queue's
    /// index and on how many ops it executed before.
    pub fn random_delays(&self, seed: u64, max: Duration) {
        self.change(|rules| {
            rules.random = Some(RandomDelays {
                seed,
                max,
                drawn: HashMap::new(),
            });
        });
    }

    /// The `nth` op from now that matches fails with this message; the next one is the first.
    pub fn fail_op(&self, which: OpMatcher, nth: u64, message: impl Into<String>) {
        self.change(|rules| {
            rules.faults.push(FaultRule {
                which,
                left: nth.max(1),
                message: message.into(),
            });
        });
    }

    /// The next `count` allocations answer that memory is exhausted.
    pub fn fail_allocations(&self, count: usize) {
        self.change(|rules| rules.allocations = count);
    }

    /// Whether anything is injected: then nobody knows how long an op takes.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Forgets everything injected.
    pub fn clear(&self) {
        *self.rules.lock() = Rules::default();
        self.active.store(false, Ordering::Relaxed);
    }

    fn change(&self, edit: impl FnOnce(&mut Rules)) {
        let mut rules = self.rules.lock();
        edit(&mut rules);
        self.active.store(true, Ordering::Relaxed);
    }

    /// Delays the op that is about to execute, or tells with what it fails.
    pub(crate) fn before(&self, queue: u32, op: OpKind) -> Result<(), String> {
        if !self.active.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut rules = self.rules.lock();
        let delay = rules.delay(queue);
        let fault = rules.fault(queue, op);
        drop(rules);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        fault.map_or(Ok(()), Err)
    }

    pub(crate) fn fails_allocation(&self) -> bool {
        if !self.active.load(Ordering::Relaxed) {
            return false;
        }
        let mut rules = self.rules.lock();
        let fails = rules.allocations > 0;
        rules.allocations -= usize::from(fails);
        fails
    }
}

impl Rules {
    fn delay(&mut self, queue: u32) -> Duration {
        let fixed = self.delays.get(&queue).copied().unwrap_or_default();
        fixed
            + self
                .random
                .as_mut()
                .map_or(Duration::ZERO, |random| random.draw(queue))
    }

    fn fault(&mut self, queue: u32, op: OpKind) -> Option<String> {
        let mut due = None;
        for (index, rule) in self.faults.iter_mut().enumerate() {
            match rule.left {
                _ if !rule.which.matches(queue, op) => {}
                // Two that are due hit two ops, one after the other.
                1 if due.is_none() => due = Some(index),
                1 => {}
                _ => rule.left -= 1,
            }
        }
        due.map(|index| self.faults.remove(index).message)
    }
}

impl RandomDelays {
    fn draw(&mut self, queue: u32) -> Duration {
        let drawn = self.drawn.entry(queue).or_default();
        *drawn += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, queue, *drawn).hash(&mut hasher);
        self.max.mul_f64(hasher.finish() as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_match_fails_once() {
        let injector = Injector::new();
        injector.fail_op(
            OpMatcher::any().on_queue(3).of_kind(OpKind::Copy),
            2,
            "boom",
        );
        assert_eq!(injector.before(3, OpKind::Copy), Ok(()));
        assert_eq!(injector.before(3, OpKind::Fill), Ok(()));
        assert_eq!(injector.before(4, OpKind::Copy), Ok(()));
        assert_eq!(injector.before(3, OpKind::Copy), Err("boom".to_owned()));
        assert_eq!(injector.before(3, OpKind::Copy), Ok(()));
        injector.fail_op(OpMatcher::any(), 1, "again");
        injector.clear();
        assert_eq!(injector.before(3, OpKind::Copy), Ok(()));
    }

    #[test]
    fn random_delays_depend_on_the_seed_and_the_queue_only() {
        let draws = |seed, queue| {
            let mut random = RandomDelays {
                seed,
                max: Duration::from_millis(1),
                drawn: HashMap::new(),
            };
            (0..8)
                .map(|_| {
                    random.draw(queue + 1);
                    random.draw(queue)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draws(7, 1), draws(7, 1));
        assert_ne!(draws(7, 1), draws(7, 2));
        assert_ne!(draws(7, 1), draws(8, 1));
        assert!(
            draws(7, 1)
                .iter()
                .all(|delay| *delay <= Duration::from_millis(1))
        );
    }
}
