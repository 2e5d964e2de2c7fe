//! What a piece of work may take: steps, what its ops go over, and time. It holds for the calling thread, whatever is
//! called there, so that no caller in between has to hand it on.

use std::cell::Cell;
use std::time::Instant;

use crate::settings::{RUN_STEPS, RUN_WORK};
use crate::{Error, Result};

/// More than this no device does in a second, whatever the op.
const FASTEST: u64 = 1 << 50;

/// What a piece of work on one thread may take.
///
/// ```
/// use streampool_runtime::{Budget, Error};
///
/// let budget = Budget { steps: 2, ..Budget::UNLIMITED };
/// let third = budget.spend(|| (0..3).map(|_| Budget::take_step()).last());
/// assert!(matches!(third, Some(Err(Error::OverBudget { limit: 2, .. }))));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How many ops are encoded, and [steps](Budget::take_step) made.
    pub steps: u64,
    /// What the ops go over together: [`Op::work`](crate::Op::work).
    pub work: u64,
    /// When nobody wants the result any more. What is waited for is waited for until then.
    pub deadline: Option<Instant>,
}

/// After so many ops their work is waited for: how much lies ahead of a device stays bounded.
const AT_ONCE: u64 = 1024;

#[derive(Clone, Copy)]
struct State {
    left: Budget,
    /// The steps and the work that were granted, whatever was taken.
    granted: (u64, u64),
    /// Ops since their work was waited for.
    ahead: u64,
}

const NO_LIMIT: State = State {
    left: Budget::UNLIMITED,
    granted: (u64::MAX, u64::MAX),
    ahead: 0,
};

impl State {
    fn is_unlimited(&self) -> bool {
        self.left.deadline.is_none() && self.granted == NO_LIMIT.granted
    }
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(NO_LIMIT) };
}

impl Budget {
    /// No bound.
    pub const UNLIMITED: Budget = Budget {
        steps: u64::MAX,
        work: u64::MAX,
        deadline: None,
    };

    /// When the calling thread's work is of no use any more: the deadline of the budget that it spends.
    pub fn current_deadline() -> Option<Instant> {
        STATE.get().left.deadline
    }

    /// Counts one step of the calling thread's work; fails when it has made as many as it may, or is too late.
    pub fn take_step() -> Result<()> {
        charge(1, || 0)
    }

    /// Takes work out of the calling thread's budget.
    pub fn take_work(work: u64) -> Result<()> {
        charge(0, || work)
    }

    /// Puts work back that was counted and is not done, or is counted again.
    pub fn give_back_work(work: u64) {
        let mut state = STATE.get();
        state.left.work = state.left.work.saturating_add(work).min(state.granted.1);
        STATE.set(state);
    }

    /// Calls `work` with this budget, and no more than what is left of that around it. What it takes counts there, too.
    pub fn spend<R>(self, work: impl FnOnce() -> R) -> R {
        let around = STATE.get();
        // Whose limit is the lower one, that is told.
        let lower = |own: u64, left: u64, granted: u64| match left < own {
            true => (left, granted),
            false => (own, own),
        };
        let (steps, granted_steps) = lower(self.steps, around.left.steps, around.granted.0);
        let (work_left, granted_work) = lower(self.work, around.left.work, around.granted.1);
        let given = Budget {
            steps,
            work: work_left,
            deadline: match (self.deadline, around.left.deadline) {
                (Some(own), Some(other)) => Some(own.min(other)),
                (own, other) => own.or(other),
            },
        };
        let _restored = Restored { around, given };
        STATE.set(State {
            left: given,
            granted: (granted_steps, granted_work),
            ahead: around.ahead,
        });
        work()
    }
}

/// Puts the budget around back, less what was taken, by a panic too.
struct Restored {
    around: State,
    given: Budget,
}

impl Drop for Restored {
    fn drop(&mut self) {
        let State { left, ahead, .. } = STATE.get();
        let mut around = self.around;
        around.ahead = ahead;
        around.left.steps -= self.given.steps.saturating_sub(left.steps);
        around.left.work -= self.given.work.saturating_sub(left.work);
        STATE.set(around);
    }
}

/// Counts one step, of so much work.
#[inline]
pub(crate) fn spend(work: impl FnOnce() -> u64) -> Result<()> {
    charge(1, work)
}

/// Whether the thread has encoded so much that it should wait for it, with this op.
#[inline]
pub(crate) fn is_far_ahead() -> bool {
    let mut state = STATE.get();
    if state.is_unlimited() {
        return false;
    }
    state.ahead = (state.ahead + 1) % AT_ONCE;
    STATE.set(state);
    state.ahead == 0
}

#[inline]
fn charge(steps: u64, work: impl FnOnce() -> u64) -> Result<()> {
    let mut state = STATE.get();
    if state.is_unlimited() {
        return Ok(());
    }
    let work = work();
    if let Some(deadline) = state.left.deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || work as f64 > FASTEST as f64 * left.as_secs_f64() {
            return Err(Error::Deadline);
        }
    }
    let over = |what, setting, asked, limit| Error::OverBudget {
        what,
        asked,
        limit,
        setting,
    };
    let (most_steps, most_work) = state.granted;
    let Some(left) = state.left.steps.checked_sub(steps) else {
        let asked = most_steps.saturating_add(1);
        return Err(over("steps", RUN_STEPS.name, asked, most_steps));
    };
    state.left.steps = left;
    let Some(left) = state.left.work.checked_sub(work) else {
        let asked = most_work - state.left.work;
        let asked = asked.saturating_add(work);
        return Err(over("elements", RUN_WORK.name, asked, most_work));
    };
    state.left.work = left;
    STATE.set(state);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn steps(count: u64) -> Budget {
        Budget {
            steps: count,
            ..Budget::UNLIMITED
        }
    }

    fn limit(result: Result<()>) -> Option<u64> {
        match result {
            Err(Error::OverBudget { limit, .. }) => Some(limit),
            _ => None,
        }
    }

    #[test]
    fn what_is_taken_inside_is_missing_outside() {
        steps(3).spend(|| {
            Budget::take_step().unwrap();
            steps(1).spend(|| {
                Budget::take_step().unwrap();
                assert_eq!(limit(Budget::take_step()), Some(1));
            });
            steps(5).spend(|| Budget::take_step().unwrap());
            assert_eq!(limit(Budget::take_step()), Some(3));
            // Nobody gets more by asking for it.
            assert_eq!(limit(steps(9).spend(Budget::take_step)), Some(3));
        });
        assert_eq!(Budget::take_step(), Ok(()));
    }

    #[test]
    fn a_panic_gives_the_budget_back() {
        let panicked = std::panic::catch_unwind(|| steps(0).spend(|| panic!("inside")));
        assert!(panicked.is_err());
        assert_eq!(Budget::take_step(), Ok(()));
    }

    #[test]
    fn work_and_time_are_bounded() {
        let budget = Budget {
            work: 10,
            ..Budget::UNLIMITED
        };
        budget.spend(|| {
            Budget::take_work(6).unwrap();
            let over = Budget::take_work(5).unwrap_err().to_string();
            assert!(over.contains("11") && over.contains("10"), "{over}");
            assert!(over.contains("STREAMPOOL_RUN_WORK"), "{over}");
            Budget::give_back_work(6);
            Budget::take_work(10).unwrap();
        });
        let late = Budget {
            deadline: Some(Instant::now()),
            ..Budget::UNLIMITED
        };
        assert_eq!(late.spend(Budget::take_step), Err(Error::Deadline));
        let soon = Budget {
            deadline: Instant::now().checked_add(Duration::from_secs(60)),
            ..Budget::UNLIMITED
        };
        soon.spend(|| {
            assert_eq!(Budget::take_work(u64::MAX), Err(Error::Deadline));
            assert_eq!(Budget::take_work(1 << 40), Ok(()));
        });
    }
}
