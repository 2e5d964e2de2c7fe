//! What the tests share: pools on the host.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod values;

use std::sync::{Arc, Barrier};

pub use streampool_conformance::rng::Rng;
use streampool_conformance::witness::Witness;
use streampool_host::{HostDevice, HostOptions};
use streampool_tensor::Pool;

fn host() -> Arc<HostDevice> {
    HostDevice::new(HostOptions::default()).unwrap()
}

/// A pool on a host device of its own that compares each op it executes with the reference.
pub fn pool() -> Pool {
    Pool::new(Witness::of(host())).unwrap()
}

/// A pool on a host device as it is: for what several threads do at once, and for faults.
pub fn unwatched_pool() -> Pool {
    Pool::new(host()).unwrap()
}

/// What `run` gives for each case on one thread, it gives on eight at once.
pub fn threads_agree<F: Sync, R: PartialEq + Send + Sync>(
    cases: &[(&'static str, F)],
    run: impl Fn(&'static str, &F) -> R + Sync,
) {
    const THREADS: usize = 8;
    let run = |case: &(&'static str, F)| run(case.0, &case.1);
    let alone: Vec<R> = cases.iter().map(run).collect();
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, alone, run) = (&start, &alone, &run);
            scope.spawn(move || {
                start.wait();
                // Half of the threads are at the same case, the others elsewhere.
                for turn in 0..3 * cases.len() {
                    let place = (turn + thread / 4 * cases.len() / 2 + thread % 2) % cases.len();
                    let name = cases[place].0;
                    assert!(run(&cases[place]) == alone[place], "{name} differs");
                }
            });
        }
    });
}
