//! Autorelease pools, a stack of them for each thread.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use super::layout::Id;
use crate::report::{Rule, violation};

thread_local! {
    /// The objects of all open pools of the thread, and where each pool begins. It is never dropped, because pools are
    /// opened while a thread ends, too; without an open pool it holds nothing.
    static POOLS: ManuallyDrop<RefCell<(Vec<Id>, Vec<usize>)>> =
        const { ManuallyDrop::new(RefCell::new((Vec::new(), Vec::new()))) };
}

/// Opens a pool and says how many were open.
pub(super) fn push() -> usize {
    POOLS.with(|pools| {
        let (objects, starts) = &mut *pools.borrow_mut();
        starts.push(objects.len());
        starts.len()
    })
}

/// Closes the pool that `push` gave, and those opened in it.
pub(super) fn pop(pool: usize) {
    let begin = POOLS.with(|pools| pools.borrow().1.get(pool.wrapping_sub(1)).copied());
    let Some(start) = begin else {
        return violation(
            Rule::Pools,
            "an autorelease pool is closed that is not open on this thread".to_owned(),
        );
    };
    // A release may autorelease in its turn, so what is borrowed is given back in between.
    while let Some(object) = POOLS.with(|pools| {
        let objects = &mut pools.borrow_mut().0;
        if objects.len() > start {
            objects.pop()
        } else {
            None
        }
    }) {
        object.release();
    }
    POOLS.with(|pools| {
        let mut pools = pools.borrow_mut();
        pools.1.truncate(pool - 1);
        if pools.1.is_empty() {
            *pools = (Vec::new(), Vec::new());
        }
    });
}

/// Leaves a reference to the innermost pool.
pub(crate) fn autorelease(object: Id) -> Id {
    if object.is_null() || !object.check_alive(|| "autorelease".to_owned()) {
        return object;
    }
    let pooled = POOLS.with(|pools| {
        let (objects, starts) = &mut *pools.borrow_mut();
        let open = !starts.is_empty();
        if open {
            objects.push(object);
        }
        open
    });
    if !pooled {
        let class = object.class_name();
        violation(
            Rule::Pools,
            format!("an object of class {class} is autoreleased with no pool in place: it leaks"),
        );
    }
    object
}

/// A pool for as long as it is in scope.
pub(crate) struct Pool(usize);

impl Pool {
    pub(crate) fn open() -> Pool {
        Pool(push())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        pop(self.0);
    }
}
