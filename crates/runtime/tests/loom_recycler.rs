//! Every interleaving of the pool of idle objects. Built with `--cfg planted`, claiming a cell does not order
//! its users, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
mod loom_support;
#[allow(dead_code)]
#[path = "../src/recycler.rs"]
mod recycler;
#[allow(dead_code)]
#[path = "../src/slots.rs"]
mod slots;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use loom::sync::Arc;
use loom_support::{outcomes, outcomes_bounded};
use recycler::Recycler;

/// An object; loom reports it if it is never dropped, or touched after that.
fn object() -> Arc<()> {
    Arc::new(())
}

/// One cell, emptied by one thread while another fills it again: their touches of the cell are ordered.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn a_cell_passes_between_putter_and_taker() {
    let transfers = outcomes(|turns| {
        let pool = Arc::new(Recycler::new(1));
        let other = pool.clone();
        let taker_turns = turns.clone();
        let taker = turns.spawn(move || {
            let first = other.take().is_some();
            taker_turns.next();
            usize::from(first) + usize::from(other.take().is_some())
        });
        let put = [(); 2].map(|()| {
            turns.next();
            usize::from(pool.put(object()).is_ok())
        });
        let put = put[0] + put[1];
        let taken = taker.join().unwrap();
        assert_eq!(pool.len(), put - taken);
        (put, taken)
    });
    assert_eq!(Vec::from_iter(transfers), [(1, 0), (1, 1), (2, 1), (2, 2)]);
}

/// Two threads each take an object and put it back; nobody gets the other's, none is lost.
#[cfg(not(planted))]
#[test]
fn two_threads_never_hold_the_same_object() {
    outcomes_bounded(|turns| {
        let pool = Arc::new(Recycler::new(2));
        for _ in 0..2 {
            assert!(pool.put(object()).is_ok());
        }
        let borrow = |pool: &Recycler<Arc<()>>| {
            let mine = pool.take().expect("an object for each of two");
            assert_eq!(Arc::strong_count(&mine), 1);
            assert!(pool.put(mine).is_ok());
        };
        let other = pool.clone();
        let thread = turns.spawn(move || borrow(&other));
        turns.next();
        borrow(&pool);
        thread.join().unwrap();
        assert_eq!(pool.len(), 2);
    });
}

/// A pool that is full gives the object back, and never overwrites one.
#[cfg(not(planted))]
#[test]
fn puts_into_the_last_cell_do_not_collide() {
    let winners = outcomes(|turns| {
        let pool = Arc::new(Recycler::new(1));
        let other = pool.clone();
        let thread = turns.spawn(move || other.put(object()).is_ok());
        turns.next();
        let mine = pool.put(object()).is_ok();
        assert!(mine ^ thread.join().unwrap());
        assert_eq!(pool.len(), 1);
        assert!(pool.take().is_some() && pool.take().is_none());
        mine
    });
    assert_eq!(Vec::from_iter(winners), [false, true]);
}
