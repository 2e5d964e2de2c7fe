//! Where both sides run: the pool with a stream for each thread, and the bare driver.

use std::time::Duration;

use streampool::cuda::{CudaOptions, Precision};
use streampool::device::Properties;
use streampool::{Lease, Pool, Stream};
use streampool_measure::driver::Driver;

use super::THREADS;
use crate::Result;
use crate::figure::Spread;
use crate::threads::per_second;

/// So often both sides are measured in turn, so that a disturbance hits both alike.
const ROUNDS: u32 = 5;

/// Both sides.
pub struct Stage {
    /// Ours.
    pub crew: Crew,
    driver: Driver,
    slice: Duration,
    /// How exact products are.
    pub precision: Precision,
}

/// The pool, and a stream for each thread.
pub struct Crew {
    // The streams go first: the pool shuts down when it goes.
    /// A stream for each thread.
    pub streams: Vec<Lease>,
    /// The pool.
    pub pool: Pool,
}

impl Stage {
    /// Opens the GPU for both sides. Each point takes about `slice` on each.
    pub fn new(slice: Duration) -> Result<Stage> {
        let options = CudaOptions::from_env()?;
        let pool = streampool::cuda_pool()?;
        let most = THREADS.into_iter().max().unwrap_or(1);
        let streams = (0..most).map(|_| pool.lease()).collect::<Result<_, _>>()?;
        Ok(Stage {
            crew: Crew { streams, pool },
            driver: Driver::new(options.ordinal)?,
            slice,
            precision: options.precision,
        })
    }

    /// What the GPU is.
    pub fn properties(&self) -> &Properties {
        self.crew.pool.device().properties()
    }

    /// About how long a point takes on one side.
    pub fn slice(&self) -> Duration {
        self.slice
    }

    /// The medians of ours and of the bare driver's, taken in turn.
    pub fn beside(
        &mut self,
        mut ours: impl FnMut(&Crew, Duration) -> Result<f64>,
        mut raw: impl FnMut(&mut Driver, Duration) -> Result<f64>,
    ) -> Result<(f64, f64)> {
        let (mut of_ours, mut of_raw) = (Vec::new(), Vec::new());
        let slice = self.slice / ROUNDS;
        for _ in 0..ROUNDS {
            of_ours.push(ours(&self.crew, slice)?);
            of_raw.push(raw(&mut self.driver, slice)?);
        }
        Ok((median(&of_ours)?, median(&of_raw)?))
    }

    /// The median of ours, where the driver has nothing like it.
    pub fn ours(&self, mut ours: impl FnMut(&Crew, Duration) -> Result<f64>) -> Result<f64> {
        let rounds = (0..ROUNDS).map(|_| ours(&self.crew, self.slice / ROUNDS));
        median(&rounds.collect::<Result<Vec<_>>>()?)
    }

    /// The median of the bare driver's, where it is there to be known.
    pub fn raw(
        &mut self,
        mut raw: impl FnMut(&mut Driver, Duration) -> Result<f64>,
    ) -> Result<f64> {
        let rounds = (0..ROUNDS).map(|_| raw(&mut self.driver, self.slice / ROUNDS));
        median(&rounds.collect::<Result<Vec<_>>>()?)
    }
}

impl Crew {
    /// How often per second `work` is done by as many threads as there are states, each with one of these and
    /// a stream of its own. A call says how much it did.
    pub fn rate<S: Send>(
        &self,
        states: &mut [S],
        slice: Duration,
        work: impl Fn(&Stream, &mut S) -> streampool::Result<u64> + Sync,
    ) -> Result<f64> {
        let work = &work;
        let mut workers: Vec<_> = states
            .iter_mut()
            .zip(&self.streams)
            .map(|(state, stream)| move || Ok(work(stream, state)?))
            .collect();
        per_second(&mut workers, slice)
    }
}

fn median(values: &[f64]) -> Result<f64> {
    let spread = Spread::of(values).ok_or("nothing was measured")?;
    Ok(spread.median)
}
