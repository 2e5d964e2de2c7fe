//! Threads that share a turn: the scenario of `Turns.tla`.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

#[allow(dead_code)]
#[path = "../../../crates/model/src/session/turns.rs"]
mod shipped;

/// What `turns.rs` looks at of a run's options.
mod options {
    pub struct RunOptions {
        pub deadline: Option<std::time::Instant>,
        pub urgent: bool,
    }
}

/// Free turns, and who waits in the line with how often each may still be overtaken.
pub fn inside(state: *const ()) -> (u64, String) {
    // SAFETY: the recorder calls this with what a mutex of this type guards, whose lock is held.
    let state = unsafe { &*state.cast::<shipped::State>() };
    let mut line = String::new();
    for waiting in &state.waiting {
        let left = waiting.overtakes_left.load(Ordering::Relaxed);
        let _ = write!(line, "{}:{left} ", waiting.wake.1);
    }
    (state.free as u64, line)
}

pub fn execution() {
    crate::record::begin(crate::record::Of::Turns);
    let turns = shipped::Turns::new(1);
    let threads = [false, true, true].map(|urgent| {
        let turns = turns.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                let soon = Duration::from_nanos(thread_rng().gen_range(0..20_000));
                let deadline = thread_rng().gen_bool(0.3).then(|| Instant::now() + soon);
                // As a run does it.
                let turn = turns
                    .free()
                    .or_else(|| turns.next(&options::RunOptions { deadline, urgent }));
                thread::yield_now();
                drop(turn);
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}
