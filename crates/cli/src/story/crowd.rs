//! Many threads doing the same thing at the same time.

use std::sync::Barrier;
use std::thread;

use streampool::{Pool, Stream};

use crate::{Failure, Result};

/// What `work` gives on each of `threads` threads, each with its own stream of `pool` and its own number.
/// All have their stream before any begins, and all have ended, streams returned, when this returns.
pub fn on_own_streams<T: Send>(
    pool: &Pool,
    threads: usize,
    work: impl Fn(usize, &Stream) -> streampool::Result<T> + Sync,
) -> Result<Vec<T>> {
    let all_there = &Barrier::new(threads);
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    let stream = pool.current();
                    // Those without a stream come here, too: the others wait for them.
                    all_there.wait();
                    work(number, stream?)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| {
                let done = thread
                    .join()
                    .map_err(|_| Failure::from("a thread panicked"))?;
                done.map_err(Failure::from)
            })
            .collect()
    })
}
