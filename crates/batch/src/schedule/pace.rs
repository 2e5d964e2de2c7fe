//! The pace of batches: while somebody else may come, a tenant that has much waiting begins them one after the other, and not on all lanes
//! at once. So a lane is free soon for who comes, who would else wait for a whole batch.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::{Bucket, Priority, Schedule};

impl<K: Hash + Eq + Clone, J> Schedule<K, J> {
    /// When the last batch began, if the next has to keep a distance to it.
    pub(super) fn paced(&self) -> Option<Instant> {
        let is_paced = self.lanes > 1 && self.tenants.may_come(self.batches);
        self.last_begun.filter(|_| is_paced)
    }

    /// When a batch of this bucket may begin, after the last one did: at once, if its tenant has not more than a batch waiting.
    pub(super) fn next_begin(
        &self,
        last: Option<Instant>,
        bucket: &Bucket<K, J>,
    ) -> Option<Instant> {
        let most = self.limits.rows;
        let urgent = bucket.head()?.priority == Priority::High;
        if urgent || self.tenants.rows(bucket.head_tenant()?) <= most {
            return None;
        }
        let rows = bucket.rows().min(most);
        let takes = bucket.costs.per_row(rows).mul_f64(rows as f64) + self.longer;
        // Two lanes alone leave half a batch to wait for, and less with some time between batches.
        let idle = match self.lanes {
            2 => takes / 4,
            _ => Duration::ZERO,
        };
        let lanes = u32::try_from(self.lanes).unwrap_or(u32::MAX);
        last?.checked_add((takes + idle) / lanes)
    }

    /// A batch had its lane for so much longer than its function took.
    pub fn held(&mut self, longer: Duration) {
        self.longer = (7 * self.longer + longer) / 8;
    }

    /// When a batch may begin that only keeps its distance.
    pub fn paced_until(&self, now: Instant) -> Option<Instant> {
        let last = Some(self.paced()?);
        let buckets = self.waiting.iter().map(|&at| &self.buckets[at]);
        let begins = buckets.filter_map(|bucket| self.next_begin(last, bucket));
        begins.filter(|&at| at > now).min()
    }
}
