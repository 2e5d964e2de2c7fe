//! What a queue did, in figures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::histogram::Histogram;
use crate::outcome::{Waiter, wake};
use crate::schedule::{Entry, Reason, TenantId};

/// What became of a request. Each that was submitted has one fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was run.
    Completed,
    /// It was run, and failed.
    Failed,
    /// It was given up by whoever asked.
    Cancelled,
    /// Its deadline passed before it was its turn, or while a session ran it.
    Expired,
    /// There was no room for it.
    Rejected,
    /// The queue was closed.
    Closed,
}

/// What became of the requests of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RequestCounts {
    /// All that were submitted.
    pub submitted: u64,
    /// Those that were run.
    pub completed: u64,
    /// Those that were run, and failed.
    pub failed: u64,
    /// Those that were given up by whoever asked.
    pub cancelled: u64,
    /// Those whose deadline passed before it was their turn, or while a session ran them.
    pub expired: u64,
    /// Those for which there was no room.
    pub rejected: u64,
    /// Those that came when the queue was closed, or were queued then and given up.
    pub closed: u64,
}

impl RequestCounts {
    fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Completed => &mut self.completed,
            Fate::Failed => &mut self.failed,
            Fate::Cancelled => &mut self.cancelled,
            Fate::Expired => &mut self.expired,
            Fate::Rejected => &mut self.rejected,
            Fate::Closed => &mut self.closed,
        } += 1;
    }

    /// Those of which is known what became of them.
    pub fn over(&self) -> u64 {
        self.completed + self.failed + self.cancelled + self.expired + self.rejected + self.closed
    }

    /// These and others.
    pub fn add(&mut self, other: &RequestCounts) {
        self.submitted += other.submitted;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.closed += other.closed;
    }
}

/// What one tenant's requests came to.
#[derive(Clone, Default)]
pub struct TenantFigures {
    pub fates: RequestCounts,
    /// Nanoseconds from its coming until its batch began.
    pub queue_time: Histogram,
}

/// What all came to.
#[derive(Clone, Default)]
pub struct Figures {
    pub tenants: Vec<TenantFigures>,
    /// Rows of each batch.
    pub batch_rows: Histogram,
    /// Nanoseconds of each batch that went well.
    pub service_time: Histogram,
    /// How often a batch went for which reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// Batches, or parts of them, that were run again because one failed.
    pub retries: u64,
}

impl Figures {
    fn of(&mut self, tenant: TenantId) -> &mut TenantFigures {
        if tenant >= self.tenants.len() {
            #[expect(clippy::disallowed_methods, reason = "tenants are bounded")]
            self.tenants.resize_with(tenant + 1, TenantFigures::default);
        }
        &mut self.tenants[tenant]
    }

    /// A request came.
    pub fn submitted(&mut self, tenant: TenantId) {
        self.of(tenant).fates.submitted += 1;
    }

    /// This became of one.
    pub fn count(&mut self, tenant: TenantId, fate: Fate) {
        self.of(tenant).fates.count(fate);
    }

    /// What others came to is added.
    pub fn add(&mut self, others: Figures) {
        for (tenant, theirs) in others.tenants.iter().enumerate() {
            let its = self.of(tenant);
            its.fates.add(&theirs.fates);
            its.queue_time.merge(&theirs.queue_time);
        }
        self.batch_rows.merge(&others.batch_rows);
        self.service_time.merge(&others.service_time);
        for (reason, count) in others.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.retries += others.retries;
    }

    /// A batch is over.
    pub fn done(&mut self, batch: &BatchFigures, done: &Done) {
        for &(tenant, nanos) in &batch.waits {
            self.of(tenant).queue_time.add(nanos);
        }
        self.batch_rows.add(batch.rows as u64);
        *self.reasons.entry(batch.reason).or_default() += 1;
        for &(tenant, fate) in &done.fates {
            self.count(tenant, fate);
        }
        if let Some(took) = done.took {
            self.service_time.add(nanos(took));
        }
        self.retries += done.retries;
    }
}

/// What became of a batch.
#[derive(Default)]
pub struct Done {
    /// What became of each request.
    pub fates: Vec<(TenantId, Fate)>,
    /// Who waits for them.
    pub waiters: Vec<Waiter>,
    /// How long it took, if that says anything about others.
    pub took: Option<Duration>,
    /// How often it was run again, in parts.
    pub retries: u64,
}

/// Who waits for what has become of a batch is woken, even if the batch could not be run to its end.
impl Drop for Done {
    fn drop(&mut self) {
        wake(std::mem::take(&mut self.waiters));
    }
}

/// What is known of a batch when it begins.
pub struct BatchFigures {
    pub rows: usize,
    reason: Reason,
    /// How many nanoseconds each request waited, and whose it is.
    waits: SmallVec<[(TenantId, u64); 1]>,
}

impl BatchFigures {
    /// Those of a batch of these that began then.
    pub fn of<J>(entries: &[Entry<J>], reason: Reason, begun: Instant) -> BatchFigures {
        let waits = entries.iter().map(|entry| {
            let waited = begun.saturating_duration_since(entry.arrived);
            (entry.tenant, nanos(waited))
        });
        BatchFigures {
            rows: entries.iter().map(|entry| entry.rows).sum(),
            reason,
            waits: waits.collect(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
