//! Every interleaving of the spin lock. Built with `--cfg planted`, its unlocking orders nothing, which must
//! be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
mod loom_support;
#[allow(dead_code)]
#[path = "../src/spin.rs"]
mod spin;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use loom::sync::Arc;
use loom_support::outcomes_bounded;
use spin::SpinLock;

/// Every section sees all that the sections before it did.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn sections_exclude_and_see_one_another() {
    let orders = outcomes_bounded(|turns| {
        let lock = Arc::new(SpinLock::new(Vec::new()));
        let threads = [1, 2].map(|thread| {
            let lock = lock.clone();
            turns.spawn(move || lock.lock().push(thread))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        let order = lock.lock().clone();
        assert_eq!(order.len(), 2);
        order
    });
    assert_eq!(Vec::from_iter(orders), [[1, 2], [2, 1]]);
}
