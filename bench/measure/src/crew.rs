//! A pool with a stream for each thread of a crowd.

use std::time::Duration;

use streampool::{Lease, Pool, Stream};

use crate::Result;
use crate::threads::per_second;

/// The pool, and the streams.
pub struct Crew {
    // The streams go first: the pool shuts down when it goes.
    pub streams: Vec<Lease>,
    pub pool: Pool,
}

impl Crew {
    /// So many streams of `pool`.
    pub fn new(pool: &Pool, count: usize) -> Result<Crew> {
        let streams = (0..count).map(|_| pool.lease_alone());
        Ok(Crew {
            streams: streams.collect::<Result<_, _>>()?,
            pool: pool.clone(),
        })
    }

    /// How often per second `work` is done by as many threads as there are states, each with one of these and a stream of its
    /// own as the current one. A call says how much it did.
    pub fn rate<S: Send>(
        &self,
        states: &mut [S],
        slice: Duration,
        work: impl Fn(&Stream, &mut S) -> streampool::runtime::Result<u64> + Sync,
    ) -> Result<f64> {
        let (work, pool) = (&work, &self.pool);
        let workers = states.iter_mut().zip(&self.streams);
        let workers = workers
            .map(|(state, stream)| move || Ok(pool.with_stream(stream, || work(stream, state))??));
        per_second(&mut workers.collect::<Vec<_>>(), slice)
    }
}
