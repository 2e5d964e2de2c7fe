//! What a queue did and holds, for those who look at it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figures::RequestCounts;
use crate::histogram::Histogram;
use crate::schedule::Reason;
use crate::shared::Shared;

/// What a queue did and holds.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// What became of the requests of all.
    pub requests: RequestCounts,
    /// The same, and how long they waited, for each tenant; those without a name are under the empty one.
    pub tenants: BTreeMap<String, TenantStatistics>,
    /// Requests that wait now; of one that is run in parts, its parts.
    pub queued_requests: usize,
    /// Their rows.
    pub queued_rows: usize,
    /// The bytes of their arrays.
    pub queued_bytes: usize,
    /// Nanoseconds that the oldest of them has waited; 0 if none waits.
    pub oldest_wait: u64,
    /// Batches that run now.
    pub running: usize,
    /// Nanoseconds that requests waited before their batch began; of one that is run in parts, each part counts.
    pub queue_time: Histogram,
    /// Rows of batches.
    pub batch_rows: Histogram,
    /// Nanoseconds of batches.
    pub service_time: Histogram,
    /// How often a batch went for which reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// How often part of a batch was run again, because the batch failed.
    pub retries: u64,
    /// Of all elements along the axis of `padding` that were let in, the part that only filled requests up.
    pub padding_waste: f64,
}

/// What became of the requests of one tenant.
#[derive(Debug, Clone, Serialize)]
pub struct TenantStatistics {
    /// What became of them.
    #[serde(flatten)]
    pub requests: RequestCounts,
    /// Nanoseconds that they waited before their batch began; of one that is run in parts, each part counts.
    pub queue_time: Histogram,
}

impl Statistics {
    pub(crate) fn of(shared: &Shared) -> Statistics {
        shared.engine.look(|schedule, figures, running| {
            let mut requests = RequestCounts::default();
            let mut queue_time = Histogram::default();
            let mut tenants = BTreeMap::new();
            for (tenant, its) in figures.tenants.iter().enumerate() {
                requests.add(&its.fates);
                queue_time.merge(&its.queue_time);
                if its.fates.submitted > 0 {
                    let name = schedule.tenants().name(tenant).to_string();
                    let statistics = TenantStatistics {
                        requests: its.fates.clone(),
                        queue_time: its.queue_time.clone(),
                    };
                    tenants.insert(name, statistics);
                }
            }
            Statistics {
                requests,
                tenants,
                queued_requests: schedule.requests(),
                queued_rows: schedule.rows(),
                queued_bytes: schedule.bytes(),
                oldest_wait: schedule.oldest_arrival().map_or(0, |arrived| {
                    u64::try_from(arrived.elapsed().as_nanos()).unwrap_or(u64::MAX)
                }),
                running,
                queue_time,
                batch_rows: figures.batch_rows.clone(),
                service_time: figures.service_time.clone(),
                reasons: figures.reasons.clone(),
                retries: figures.retries,
                padding_waste: shared.waste(),
            }
        })
    }
}
