//! The driver's own ceiling: what any runtime on this GPU can reach from so many threads.
//!
//! Plain loops of driver calls, one stream for each thread, and nothing of the device in between. Whoever
//! measures a runtime beside it uses [`per_second`] for both, so that one stopwatch times both sides.

mod calls;
mod chunks;
mod crowd;
mod kernel;
mod lane;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use streampool_device::Result;

use crate::context::{Context, Failure};
use crate::memory::DeviceBlock;
use chunks::{Mapped, Plain};
use kernel::Kernel;
use lane::Lane;
use pool::GreedyPool;

pub use calls::CallTime;
pub use crowd::per_second;

/// Kernels in a replayed graph.
pub const GRAPH_NODES: usize = 10;

/// Calls between two waits, where waiting is not what is measured.
const BATCH: usize = 64;

/// One GPU, as bare driver calls use it: the context that everybody in this process shares, and streams of
/// its own.
pub struct Ceiling {
    // The lanes go first: what they hold uses the kernel.
    lanes: Vec<Lane>,
    kernel: Arc<Kernel>,
    context: Arc<Context>,
}

impl Ceiling {
    /// Opens the GPU of this number.
    pub fn new(ordinal: usize) -> Result<Ceiling> {
        let context = Context::open(ordinal)?;
        let kernel = Kernel::load(&context).map_err(|failure| context.error(failure))?;
        Ok(Ceiling {
            lanes: Vec::new(),
            kernel: Arc::new(kernel),
            context,
        })
    }

    /// Launches per second of an empty kernel from all `threads` together, each waiting after every `depth`.
    pub fn launches(&mut self, threads: usize, depth: usize, slice: Duration) -> Result<f64> {
        self.on_lanes(threads, slice, |lane| {
            for _ in 0..depth {
                lane.launch()?;
            }
            lane.wait()?;
            Ok(depth)
        })
    }

    /// Launches per second of a graph of [`GRAPH_NODES`] empty kernels, each thread waiting after every
    /// `depth`.
    pub fn replays(&mut self, threads: usize, depth: usize, slice: Duration) -> Result<f64> {
        self.on_lanes(threads, slice, |lane| {
            for _ in 0..depth {
                lane.replay()?;
            }
            lane.wait()?;
            Ok(depth)
        })
    }

    /// Recordings of an event per second.
    pub fn event_records(&mut self, threads: usize, slice: Duration) -> Result<f64> {
        self.on_lanes(threads, slice, |lane| {
            for _ in 0..BATCH {
                lane.record()?;
            }
            lane.wait()?;
            Ok(BATCH)
        })
    }

    /// Allocations per second of `bytes` from the driver's pool, each freed at once, both in stream order.
    pub fn pool_pairs(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        let pool = GreedyPool::of(&self.context).map_err(|failure| self.context.error(failure))?;
        let rate = self.on_lanes(threads, slice, |lane| {
            for _ in 0..BATCH {
                lane.allocate_and_free(bytes)?;
            }
            lane.wait()?;
            Ok(BATCH)
        });
        drop(pool);
        rate
    }

    /// Bytes per second that the driver copies from device memory to device memory, `bytes` at a time.
    pub fn copied_bytes(&mut self, bytes: usize, slice: Duration) -> Result<f64> {
        let blocks = || {
            let _bound = self.context.bind()?;
            let src = DeviceBlock::new(&self.context, bytes)?;
            Ok((src, DeviceBlock::new(&self.context, bytes)?))
        };
        let (src, dst) = blocks().map_err(|failure| self.context.error(failure))?;
        let copies = self.on_lanes(1, slice, |lane| {
            const COPIES: usize = 4;
            for _ in 0..COPIES {
                lane.copy(&src, &dst, bytes)?;
            }
            lane.wait()?;
            Ok(COPIES)
        })?;
        Ok(copies * bytes as f64)
    }

    /// Allocations per second of `bytes` by `cuMemAlloc`, each freed at once.
    pub fn plain_chunks(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        let context = &self.context;
        let chunks = (0..threads).map(|_| Ok(Plain::new(context.clone(), bytes)));
        rate(context, chunks, slice, |chunk: &mut Plain| {
            chunk.allocate_and_free().map(|()| 1)
        })
    }

    /// Allocations per second of `bytes` by `cuMemCreate`, mapped to addresses reserved beforehand, each
    /// unmapped and released at once.
    pub fn mapped_chunks(&mut self, threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
        let context = &self.context;
        let chunks = (0..threads).map(|_| Mapped::new(context.clone(), bytes));
        rate(context, chunks, slice, |chunk: &mut Mapped| {
            chunk.map_and_unmap().map(|()| 1)
        })
    }

    /// How long each kind of call takes while `threads` others launch graphs and wait for them, and the launches per
    /// second; `gated`: with launches held up meanwhile, as the device does it.
    pub fn call_times(&mut self, threads: usize, gated: bool) -> Result<(Vec<CallTime>, f64)> {
        self.make_lanes(threads)?;
        let lanes = &mut self.lanes[..threads];
        calls::times(&self.context, &self.kernel, lanes, gated)
            .map_err(|failure| self.context.error(failure))
    }

    /// How often per second `work` is done on `threads` lanes. It says how much it did.
    fn on_lanes(
        &mut self,
        threads: usize,
        slice: Duration,
        work: impl Fn(&mut Lane) -> Result<usize, Failure> + Sync,
    ) -> Result<f64> {
        self.make_lanes(threads)?;
        let lanes = self.lanes[..threads].iter_mut().map(Ok);
        rate(&self.context, lanes, slice, |lane| work(lane))
    }

    fn make_lanes(&mut self, threads: usize) -> Result<()> {
        while self.lanes.len() < threads {
            let lane = Lane::new(&self.context, &self.kernel);
            self.lanes
                .push(lane.map_err(|failure| self.context.error(failure))?);
        }
        Ok(())
    }
}

/// How often per second `work` is done with these things, each on a thread of its own, in the context.
fn rate<T: Send>(
    context: &Context,
    things: impl Iterator<Item = Result<T, Failure>>,
    slice: Duration,
    work: impl Fn(&mut T) -> Result<usize, Failure> + Sync,
) -> Result<f64> {
    let worker = |thing: Result<T, Failure>| {
        let (mut thing, mut bound, work) = (thing?, false, &work);
        Ok(move || {
            // A worker stays on its thread, where its first call finds it.
            if !bound {
                let _bound = context.bind()?;
                bound = true;
            }
            work(&mut thing).map(|done| done as u64)
        })
    };
    let workers: Result<Vec<_>, Failure> = things.map(worker).collect();
    workers
        .and_then(|mut workers| per_second(&mut workers, slice))
        .map_err(|failure| context.error(failure))
}

impl std::fmt::Debug for Ceiling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Ceiling({}, {} lanes)",
            self.context.name,
            self.lanes.len()
        )
    }
}
