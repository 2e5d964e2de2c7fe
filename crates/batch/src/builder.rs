//! How a queue is made.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_tensor::Array;

use crate::engine::{Capacity, Full};
use crate::error::{Error, Result};
use crate::padding::Padding;
use crate::schedule::{Limits, Priority};

/// The weights that tenants may have.
const WEIGHTS: RangeInclusive<f64> = 0.001..=1000.0;

/// The most lanes: each takes memory when the queue is built. No pool has more than 32 streams; a function may wait for something else.
const MOST_IN_FLIGHT: usize = 1024;

/// What happens to a request for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It fails, with an estimate of when there will be room.
    #[default]
    Reject,
    /// Its caller waits until there is room.
    Block,
    /// Its caller waits so long; who brings several, so long for all of them.
    Wait(Duration),
}

impl WhenFull {
    /// What the queue does with such a request.
    pub(crate) fn full(self) -> Full {
        match self {
            WhenFull::Reject => Full::Refuse,
            WhenFull::Block | WhenFull::Wait(_) => Full::Hold,
        }
    }

    /// Until when its caller waits, who begins now.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            WhenFull::Wait(time) => Instant::now().checked_add(time),
            WhenFull::Reject | WhenFull::Block => None,
        }
    }
}

/// The settings of a queue.
#[derive(Debug, Clone)]
pub struct BatchQueueBuilder {
    pub(crate) limits: Limits,
    in_flight: Option<usize>,
    pub(crate) capacity: Capacity,
    pub(crate) when_full: WhenFull,
    pub(crate) padding: Option<Padding>,
    pub(crate) accepts: Accepts,
    pub(crate) tenants: Vec<(String, f64)>,
}

/// Says whether the queue's function takes such inputs.
#[derive(Clone, Default)]
pub(crate) struct Accepts(Option<Arc<Check>>);

type Check = dyn Fn(&[Array]) -> Result<()> + Send + Sync;

impl Accepts {
    pub fn check(&self, inputs: &[Array]) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |check| check(inputs))
    }
}

impl std::fmt::Debug for Accepts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

impl Default for BatchQueueBuilder {
    fn default() -> Self {
        BatchQueueBuilder {
            limits: Limits {
                rows: 32,
                wait: Duration::ZERO,
                passes: 8,
                adaptive: true,
                objective: None,
            },
            in_flight: None,
            capacity: Capacity {
                requests: 10_000,
                bytes: 1 << 30,
                of_priority: [usize::MAX; Priority::COUNT],
            },
            when_full: WhenFull::default(),
            padding: None,
            accepts: Accepts::default(),
            tenants: Vec::new(),
        }
    }
}

impl BatchQueueBuilder {
    /// The most rows of a batch; 32 if nothing is said. A request of more is run in parts, and joined.
    pub fn max_batch_size(mut self, rows: usize) -> BatchQueueBuilder {
        self.limits.rows = rows;
        self
    }

    /// How long a request may wait for others. If nothing is said it does not wait for any to come: a queue that has nothing
    /// else to do runs it at once, and batches form while others run. Beside batches of its kind that run, the next goes
    /// once it is as large as they are on average, or one of them is over. Who has a deadline waits no longer than leaves time to
    /// keep it, and who has high priority waits for nobody.
    pub fn max_wait(mut self, wait: Duration) -> BatchQueueBuilder {
        self.limits.wait = wait;
        self
    }

    /// How many batches run at the same time, each on a lane of its own: at most 1024, 2 by default.
    pub fn max_in_flight(mut self, batches: usize) -> BatchQueueBuilder {
        self.in_flight = Some(batches);
        self
    }

    /// As [`max_in_flight`](Self::max_in_flight), if that was not said: for those who know what a queue is to be in front of.
    pub fn max_in_flight_by_default(mut self, batches: usize) -> BatchQueueBuilder {
        self.in_flight.get_or_insert(batches);
        self
    }

    /// How many requests may wait; 10,000 if nothing is said. Of a request that is run in parts each part counts. Tenants share this
    /// room, and that for bytes, by weight; an eighth is kept for those that have less than their share.
    pub fn capacity(mut self, requests: usize) -> BatchQueueBuilder {
        self.capacity.requests = requests;
        self
    }

    /// How many requests of one priority may wait; as many as of all, if nothing is said.
    pub fn capacity_of(mut self, priority: Priority, requests: usize) -> BatchQueueBuilder {
        self.capacity.of_priority[priority as usize] = requests;
        self
    }

    /// How many bytes the arrays of waiting requests may have; 1 GiB if nothing is said.
    pub fn capacity_bytes(mut self, bytes: usize) -> BatchQueueBuilder {
        self.capacity.bytes = bytes;
        self
    }

    /// What happens to a request for which there is no room; it fails if nothing is said.
    pub fn when_full(mut self, what: WhenFull) -> BatchQueueBuilder {
        self.when_full = what;
        self
    }

    /// Fills requests up, so that those of about the same size can go together.
    pub fn padding(mut self, padding: Padding) -> BatchQueueBuilder {
        self.padding = Some(padding);
        self
    }

    /// Which inputs the function takes: the others are refused when they come, with the check's error, such as
    /// [`Error::Request`]. It is asked on the caller's thread, after requests are filled up.
    pub fn accepts(
        mut self,
        check: impl Fn(&[Array]) -> Result<()> + Send + Sync + 'static,
    ) -> BatchQueueBuilder {
        self.accepts = Accepts(Some(Arc::new(check)));
        self
    }

    /// Whether batches are only as large as pays, which is learned from how long they take; they are, if nothing is said. Else they
    /// are as large as they may be.
    pub fn adaptive(mut self, adaptive: bool) -> BatchQueueBuilder {
        self.limits.adaptive = adaptive;
        self
    }

    /// How long a request should take at most, its wait included: batches that would take longer are made smaller, and nobody waits
    /// for others too long to keep it. Where no size keeps to it, batches are as large as pays.
    pub fn latency_objective(mut self, objective: Duration) -> BatchQueueBuilder {
        self.limits.objective = Some(objective);
        self
    }

    /// The weight of a tenant, from 0.001 to 1000: when all send more than there is time for, each gets a share by its weight.
    /// Tenants that are not named here have weight 1.
    pub fn tenant(mut self, name: impl Into<String>, weight: f64) -> BatchQueueBuilder {
        self.tenants.push((name.into(), weight));
        self
    }

    /// How many batches may pass over the oldest request, because others have a higher priority, fill a batch, or are next by
    /// their tenant's share; 8 if nothing is said. Then it goes next, whatever others there are.
    pub fn max_overtakes(mut self, batches: u32) -> BatchQueueBuilder {
        self.limits.passes = batches;
        self
    }

    /// How many batches run at the same time.
    pub fn lanes(&self) -> usize {
        self.in_flight.unwrap_or(2)
    }

    /// The most rows of a batch.
    pub fn most_rows(&self) -> usize {
        self.limits.rows
    }

    /// Refuses settings that cannot be.
    pub(crate) fn check(&self) -> Result<()> {
        let at_least_one = |setting, value: usize| match value {
            0 => Err(Error::setting(setting, value, "at least 1")),
            _ => Ok(()),
        };
        at_least_one("max_batch_size", self.limits.rows)?;
        at_least_one("max_in_flight", self.lanes())?;
        if self.lanes() > MOST_IN_FLIGHT {
            let expected = "at most 1024";
            return Err(Error::setting("max_in_flight", self.lanes(), expected));
        }
        at_least_one("capacity", self.capacity.requests)?;
        at_least_one("capacity_bytes", self.capacity.bytes)?;
        for requests in self.capacity.of_priority {
            at_least_one("capacity_of", requests)?;
        }
        if self.limits.objective.is_some_and(|time| time.is_zero()) {
            return Err(Error::setting(
                "latency_objective",
                Duration::ZERO,
                "more than no time",
            ));
        }
        let out_of_range = |tenant: &&(String, f64)| !WEIGHTS.contains(&tenant.1);
        if let Some(tenant) = self.tenants.iter().find(out_of_range) {
            let expected = "a weight from 0.001 to 1000";
            return Err(Error::setting("tenant", tenant, expected));
        }
        self.padding.as_ref().map_or(Ok(()), Padding::check)
    }
}
