//! What the models share: exploring them, and proving that the exploration was a real one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::JoinHandle;

/// Runs every interleaving of `model`, and returns all the outcomes that it had; so that a test can demand
/// that each was met, not only that none was wrong.
pub fn outcomes<T: Ord + Send + 'static>(
    model: impl Fn(Turns) -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    explore(loom::model::Builder::new(), model)
}

/// As [`outcomes`], with at most three preemptions in each run, where all of them are too many.
pub fn outcomes_bounded<T: Ord + Send + 'static>(
    model: impl Fn(Turns) -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    explore(builder, model)
}

fn explore<T: Ord + Send + 'static>(
    builder: loom::model::Builder,
    model: impl Fn(Turns) -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let record = seen.clone();
    builder.check(move || {
        let outcome = model(Turns(Arc::new(AtomicUsize::new(0))));
        record.lock().unwrap().insert(outcome);
    });
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

/// The order of the threads' operations, of which loom is made to try every one.
///
/// By itself loom does not: it compares an access with the last one to the same place only, so a thread that
/// loads and then exchanges hides its exchange from the earlier load of another thread. Taking a turn before
/// each operation makes the operations' order matter to loom. It orders nothing in the memory model.
#[derive(Clone)]
pub struct Turns(Arc<AtomicUsize>);

impl Turns {
    /// Comes before each operation of the model.
    pub fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread that starts with a turn.
    pub fn spawn<R: 'static>(&self, work: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
        let turns = self.clone();
        loom::thread::spawn(move || {
            turns.next();
            work()
        })
    }
}
