//! A request as the schedule knows it, and what the schedule keeps to.

use std::time::{Duration, Instant};

/// Tells tenants apart.
pub type TenantId = usize;

/// What comes first. Requests of a higher priority go before others; how often one may be passed over is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before all others.
    High,
    /// As most.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// All of them, in order.
    pub const ALL: [Priority; Priority::COUNT] = [Priority::High, Priority::Normal, Priority::Low];
    /// How many there are.
    pub const COUNT: usize = 3;
}

/// Why a batch went when it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// As many rows as a batch may have were there.
    Full,
    /// The device was free, and there was no reason to wait.
    Free,
    /// A request had waited as long as it may.
    Waited,
    /// More rows were there, but larger batches take no less time for each.
    NoGain,
    /// More rows were there, but a larger batch would miss the objective.
    Objective,
    /// Its oldest request had been passed over as often as it may.
    PassedOver,
    /// The queue is being closed.
    Closing,
}

/// What a schedule keeps to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most rows of a batch.
    pub rows: usize,
    /// How long a request waits for others.
    pub wait: Duration,
    /// How many batches may pass over the oldest request.
    pub passes: u32,
    /// Whether batches are as large as pays, or as large as they may be.
    pub adaptive: bool,
    /// How long a request should take at most, with its wait.
    pub objective: Option<Duration>,
}

/// A request, as far as the schedule has to know it.
#[derive(Debug)]
pub struct Entry<J> {
    /// What is to be done.
    pub job: J,
    /// How many rows it has.
    pub rows: usize,
    /// What it takes in memory.
    pub bytes: usize,
    /// Whose it is.
    pub tenant: TenantId,
    /// What it comes before.
    pub priority: Priority,
    /// When it is of no use any more.
    pub deadline: Option<Instant>,
    /// When it goes behind all others of its priority.
    pub behind: Option<Instant>,
    /// Since when it has been waiting.
    pub arrived: Instant,
}
