//! What can be chosen for a session, and for one run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use streampool_runtime::{Budget, Event, Stamp, Stream};
use streampool_tensor::{DType, Pool, Tensor};

use crate::error::{Error, Result};

/// How a session is made.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The most bytes of programs that lie ready, and of plans; the longest unused go first. Programs at work do not count.
    /// Nor do more than 4,096 programs lie ready, or 512 plans. Each stream has programs of its own until they take half as
    /// much; from then on one that lies unused on another stream is taken over.
    pub program_memory: usize,
    /// The most runs that [`submit`](crate::Session::submit) has under way on one stream, two at least. They are fewer where
    /// their programs take more than an eighth of `program_memory`.
    pub max_in_flight: usize,
    /// What to compute in where the model says `f32`: `f16` or `bf16`. Its inputs and outputs stay as they are.
    pub precision: Option<DType>,
    /// Weights that a model keeps in other files are below its own folder. A symbolic link there may lead below this folder,
    /// too.
    pub data_folder: Option<PathBuf>,
    /// Weights by name that a model keeps outside its own file (external data): their values, of the type and shape that it declares.
    /// Those that are not given are read from files. A tensor in the session's own pool is not copied, where the model
    /// computes with it as it is; on a GPU it has to be whole and row-major for that.
    pub weights: HashMap<String, Tensor>,
    /// Whether the graph is rewritten at load: what is known is computed, and several nodes become one that does as much. It is;
    /// leave it out to see whether a rewrite makes a difference. How many threads compute is an option of the host device.
    pub simplify: bool,
    /// What random operators without a seed of their own begin with, in each run that says no other. Without it, each run has
    /// numbers of its own.
    pub seed: Option<u64>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            program_memory: 1 << 30,
            max_in_flight: 32,
            precision: None,
            data_folder: None,
            weights: HashMap::new(),
            simplify: true,
            seed: None,
        }
    }
}

/// How one run is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// When the outputs are of no use any more: a run that has not begun by then does not, and one that is not over is
    /// not waited for. It holds for planning and for nodes that are evaluated one by one, too.
    pub deadline: Option<Instant>,
    /// The most nodes that it evaluates and ops that it encodes, rounds of loops included. If nothing is said, what the pool's
    /// [`run_steps`](streampool_runtime::Settings::run_steps) say.
    pub steps: Option<u64>,
    /// The most elements that its ops go over, multiplications of products included. If nothing is said, what the pool's
    /// [`run_work`](streampool_runtime::Settings::run_work) says.
    pub work: Option<u64>,
    /// Before others. On a GPU its work goes to a stream of the highest priority: what is at work there ends, and then it comes
    /// first. On the host it is the first to get a program that threads wait for; otherwise threads have the processors in the
    /// order that the system chooses.
    pub urgent: bool,
    /// What random operators without a seed of their own begin with: runs with the same seed and inputs give the same, on any
    /// thread. If nothing is said, what the session says.
    pub seed: Option<u64>,
}

impl RunOptions {
    /// Options with a deadline this far from now.
    pub fn within(time: Duration) -> RunOptions {
        RunOptions {
            deadline: Instant::now().checked_add(time),
            ..RunOptions::default()
        }
    }

    /// What a run in this pool may take.
    pub(super) fn budget(&self, pool: &Pool) -> Budget {
        let settings = pool.settings();
        Budget {
            steps: self.steps.unwrap_or(settings.run_steps),
            work: self.work.unwrap_or(settings.run_work),
            deadline: self.deadline,
        }
    }

    /// Does what begins a run on the stream that it goes to.
    pub(super) fn on_stream<T>(&self, pool: &Pool, begin: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.urgent {
            true => pool.with_stream(pool.urgent()?, begin)?,
            false => begin(),
        }
    }

    /// Refuses what comes too late.
    pub(super) fn check(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline),
            _ => Ok(()),
        }
    }

    /// Waits for a run's own work on a stream.
    pub(super) fn wait_until(&self, stream: &Stream, stamp: Stamp) -> Result<()> {
        in_time(stream.wait_until(stamp, self.deadline))
    }

    /// The same for what is between two places.
    pub(super) fn wait_between(&self, stream: &Stream, since: Stamp, until: Stamp) -> Result<()> {
        in_time(stream.wait_between(since, until, self.deadline))
    }

    /// Waits for the work on a stream if there is a deadline, before what waits without one.
    pub(super) fn wait_ahead(&self, stream: &Stream) -> Result<()> {
        match self.deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                in_time(stream.synchronize_timeout(left))
            }
            None => Ok(()),
        }
    }

    /// Waits for what comes before an event, whatever becomes of that.
    pub(super) fn wait_for_event(&self, event: &Event) -> Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match event.wait_timeout(left) {
            Err(error) if is_timeout(&error) => Err(Error::Deadline),
            // A fault is told to those whose work it hit.
            _ => Ok(()),
        }
    }
}

/// A wait until a deadline.
pub(super) fn in_time(waited: streampool_runtime::Result<()>) -> Result<()> {
    match waited {
        Err(error) if is_timeout(&error) => Err(Error::Deadline),
        other => Ok(other?),
    }
}

fn is_timeout(error: &streampool_runtime::Error) -> bool {
    use streampool_runtime::Error::Device;
    matches!(error, Device(streampool_device::Error::Timeout(_)))
}
