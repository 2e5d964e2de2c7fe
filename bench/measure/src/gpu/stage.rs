//! Where both sides run: the pool with a stream for each thread, and the bare driver.

use std::time::Duration;

use streampool::Stream;
use streampool::cuda::{CudaOptions, Precision};
use streampool::device::Properties;
use streampool_measure::driver::Driver;

use super::point::{Point, Unit};
use crate::Result;
use crate::crew::Crew;
use crate::figures::Spread;

/// From how many threads at a time.
pub const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 31];

/// So often both sides are measured in turn, so that a disturbance hits both alike.
const ROUNDS: u32 = 5;

/// Both sides.
pub struct Stage {
    pub crew: Crew,
    driver: Driver,
    /// About how long a point takes on one side.
    pub slice: Duration,
    /// How exact products are.
    pub precision: Precision,
}

impl Stage {
    /// Opens the GPU for both sides.
    pub fn new(slice: Duration) -> Result<Stage> {
        let options = CudaOptions::from_env()?;
        let most = THREADS.into_iter().max().unwrap_or(1);
        Ok(Stage {
            crew: Crew::new(&streampool::cuda_pool()?, most)?,
            driver: Driver::new(options.ordinal)?,
            slice,
            precision: options.precision,
        })
    }

    /// What the GPU is.
    pub fn properties(&self) -> &Properties {
        self.crew.pool.device().properties()
    }

    /// A point with the medians of `work` by as many threads as there are states, and of the bare driver, taken in turn.
    pub fn beside<S: Send>(
        &mut self,
        name: &str,
        states: &mut [S],
        work: impl Fn(&Stream, &mut S) -> streampool::runtime::Result<u64> + Sync,
        mut raw: impl FnMut(&mut Driver, Duration) -> Result<f64>,
    ) -> Result<Point> {
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        let slice = self.slice / ROUNDS;
        for _ in 0..ROUNDS {
            ours.push(self.crew.rate(states, slice, &work)?);
            raws.push(raw(&mut self.driver, slice)?);
        }
        let rates = (Spread::of(&ours)?.median, Spread::of(&raws)?.median);
        Ok(Point::beside(name, states.len(), Unit::PerSecond, rates))
    }

    /// The median of `work` by one thread, where the driver has nothing like it.
    pub fn ours<S: Send>(
        &self,
        state: &mut S,
        work: impl Fn(&Stream, &mut S) -> streampool::runtime::Result<u64> + Sync,
    ) -> Result<f64> {
        let work = |stream: &Stream, state: &mut &mut S| work(stream, state);
        let mut states = [state];
        let rounds = (0..ROUNDS).map(|_| self.crew.rate(&mut states, self.slice / ROUNDS, work));
        Ok(Spread::of(&rounds.collect::<Result<Vec<_>>>()?)?.median)
    }

    /// A point with the median of the bare driver, where it is there to be known.
    pub fn raw(
        &mut self,
        name: &str,
        threads: usize,
        mut raw: impl FnMut(&mut Driver, usize, Duration) -> Result<f64>,
    ) -> Result<Point> {
        let rounds = (0..ROUNDS).map(|_| raw(&mut self.driver, threads, self.slice / ROUNDS));
        let rate = Spread::of(&rounds.collect::<Result<Vec<_>>>()?)?.median;
        Ok(Point::raw(name, threads, rate))
    }
}
