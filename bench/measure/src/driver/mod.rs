//! What the CUDA driver does by itself, one stream for each thread and nothing of the device in between.

mod blocks;
mod calls;
mod pool;

use std::time::Duration;

use cudarc::driver::sys;
use streampool_console::Result;
use streampool_console::threads::per_second;
use streampool_cuda::ceiling::BareStream;

use blocks::{Block, Mapped};
pub use calls::CallTime;
use pool::GreedyPool;

/// Calls between two waits, where waiting is not what is measured.
const BATCH: usize = 64;

/// One GPU, as bare calls of its driver use it from several threads, each on a stream of its own.
pub struct Driver {
    ordinal: usize,
    streams: Vec<BareStream>,
}

impl Driver {
    /// Opens the GPU of this number.
    pub fn new(ordinal: usize) -> Result<Driver> {
        let streams = BareStream::open(ordinal, 1)?;
        Ok(Driver { ordinal, streams })
    }

    /// Launches per second of an empty kernel from all `threads` together, each waiting after every `depth`.
    pub fn launches(&mut self, threads: usize, depth: usize, slice: Duration) -> Result<f64> {
        self.rate(threads, depth, slice, |bare| Ok(bare.launch(depth)?))
    }

    /// The same of a graph of empty kernels.
    pub fn replays(&mut self, threads: usize, depth: usize, slice: Duration) -> Result<f64> {
        self.rate(threads, depth, slice, |bare| Ok(bare.replay(depth)?))
    }

    /// Recordings of an event per second.
    pub fn event_records(&mut self, threads: usize, slice: Duration) -> Result<f64> {
        self.rate(threads, BATCH, slice, |bare| Ok(bare.record(BATCH)?))
    }

    /// Allocations per second of `bytes` from the driver's pool, each freed at once, both in stream order.
    pub fn pool_pairs(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        let keeper = BareStream::open(self.ordinal, 1)?;
        let _pool = GreedyPool::of(keeper.first().ok_or("there is no stream")?)?;
        self.rate(threads, BATCH, slice, |bare| {
            let _bound = bare.bind()?;
            for _ in 0..BATCH {
                let mut address = 0;
                // SAFETY: the stream is alive; one address is written.
                let result = unsafe { sys::cuMemAllocAsync(&mut address, bytes, bare.stream()) };
                bare.check("cuMemAllocAsync", result)?;
                // SAFETY: it was just allocated, and nothing uses it.
                let result = unsafe { sys::cuMemFreeAsync(address, bare.stream()) };
                bare.check("cuMemFreeAsync", result)?;
            }
            Ok(bare.record(1)?)
        })
    }

    /// Bytes per second that the driver copies from device memory to device memory, `bytes` at a time.
    pub fn copied_bytes(&mut self, bytes: usize, slice: Duration) -> Result<f64> {
        const COPIES: usize = 4;
        let keeper = BareStream::open(self.ordinal, 1)?;
        let keeper = keeper.first().ok_or("there is no stream")?;
        let (from, to) = (Block::new(keeper, bytes)?, Block::new(keeper, bytes)?);
        let (from, to) = (&from, &to);
        let copies = self.rate(1, COPIES, slice, |bare| {
            let _bound = bare.bind()?;
            for _ in 0..COPIES {
                // SAFETY: both blocks are as long, and stay until the copies are waited for.
                let result = unsafe {
                    sys::cuMemcpyDtoDAsync_v2(to.address(), from.address(), bytes, bare.stream())
                };
                bare.check("cuMemcpyDtoDAsync", result)?;
            }
            Ok(bare.record(1)?)
        })?;
        Ok(copies * bytes as f64)
    }

    /// Allocations per second of `bytes` by `cuMemAlloc`, each freed at once.
    pub fn plain_blocks(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        self.rate(threads, 1, slice, |bare| Block::new(bare, bytes).map(drop))
    }

    /// Allocations per second of `bytes` by `cuMemCreate`, mapped to addresses reserved beforehand, each unmapped and
    /// released at once.
    pub fn mapped_blocks(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        let streams = self.streams(threads)?.iter_mut();
        let ranges: Result<Vec<_>> = streams.map(|bare| Mapped::new(bare, bytes)).collect();
        let mut ranges = ranges?;
        let workers = ranges.iter_mut();
        let workers = workers.map(|range| move || range.map_and_unmap().map(|()| 1));
        per_second(&mut workers.collect::<Vec<_>>(), slice)
    }

    /// How long each kind of call takes while `threads` others launch graphs and wait for them, and the launches per
    /// second; `gated`: with launches held up meanwhile, as the device does it.
    pub fn call_times(&mut self, threads: usize, gated: bool) -> Result<(Vec<CallTime>, f64)> {
        let own = BareStream::open(self.ordinal, 2)?.try_into();
        let own = own.map_err(|_| "there are no two streams")?;
        calls::times(own, self.streams(threads)?, gated)
    }

    /// How often per second `work`, which does so many `times` at once, is done by so many threads.
    fn rate(
        &mut self,
        threads: usize,
        times: usize,
        slice: Duration,
        work: impl Fn(&mut BareStream) -> Result<()> + Sync,
    ) -> Result<f64> {
        let work = &work;
        let streams = self.streams(threads)?.iter_mut();
        let workers = streams.map(|bare| move || work(bare).map(|()| times as u64));
        per_second(&mut workers.collect::<Vec<_>>(), slice)
    }

    /// So many streams, those that there are and others.
    fn streams(&mut self, count: usize) -> Result<&mut [BareStream]> {
        let missing = count.saturating_sub(self.streams.len());
        self.streams
            .extend(BareStream::open(self.ordinal, missing)?);
        Ok(&mut self.streams[..count])
    }
}
