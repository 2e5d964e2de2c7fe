//! Which queues a thread is in: so that none waits for itself.

use std::cell::RefCell;

/// What a thread does for a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is one of the queue's own, or runs a batch of it.
    Works,
    /// It is in the queue's function.
    Calls,
}

thread_local! {
    /// What this thread does, and for which queue; what it began last comes last.
    static ROLES: RefCell<Vec<(*const (), Role)>> = const { RefCell::new(Vec::new()) };
}

/// Does some work, and notes as long as it lasts what it is to a queue.
pub fn inside<Q, R>(queue: &Q, role: Role, work: impl FnOnce() -> R) -> R {
    ROLES.with_borrow_mut(|roles| roles.push((address(queue), role)));
    let _until_the_end = Noted;
    work()
}

/// The note goes even if the work panics.
struct Noted;

impl Drop for Noted {
    fn drop(&mut self) {
        ROLES.with_borrow_mut(|roles| roles.pop());
    }
}

/// Whether this thread does anything for a queue.
pub fn is_inside<Q>(queue: &Q) -> bool {
    count(queue, |_| true) > 0
}

/// How many calls of a queue's function this thread is in.
pub fn calls<Q>(queue: &Q) -> usize {
    count(queue, |role| role == Role::Calls)
}

/// A thread that is at its end, and has no notes any more, does nothing for anybody.
fn count<Q>(queue: &Q, is_meant: impl Fn(Role) -> bool) -> usize {
    let own = |&&(of, role): &&(*const (), Role)| of == address(queue) && is_meant(role);
    let counted = ROLES.try_with(|roles| roles.borrow().iter().filter(own).count());
    counted.unwrap_or(0)
}

fn address<Q>(queue: &Q) -> *const () {
    std::ptr::from_ref(queue).cast()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_thread_is_inside_as_long_as_its_work_lasts() {
        let (one, other) = (1, 2);
        inside(&one, Role::Works, || {
            inside(&one, Role::Calls, || {
                inside(&other, Role::Calls, || {
                    assert_eq!((calls(&one), calls(&other)), (1, 1));
                });
                assert!(is_inside(&one) && !is_inside(&other));
            });
            assert!(is_inside(&one));
            assert_eq!(calls(&one), 0);
        });
        assert!(!is_inside(&one));
    }

    #[test]
    fn work_that_panics_leaves_nothing_behind() {
        let queue = 1;
        let work = AssertUnwindSafe(|| inside(&queue, Role::Calls, || panic!("on purpose")));
        assert!(catch_unwind(work).is_err());
        assert!(!is_inside(&queue));
    }
}
