//! What the plans of a session take.

use std::collections::BTreeMap;

use super::Session;
use crate::inspect::{Count, Part};

impl Session {
    /// The latest plan of each part, in order.
    pub(crate) fn latest_parts(&self) -> Vec<Part> {
        let parts = &self.model.plans;
        let mut found = Vec::new();
        let mut start = 0;
        while let Some(compiled) = parts.latest(start) {
            let ended = compiled.ended.as_ref().map(|asked| asked.node);
            let mut ops = BTreeMap::new();
            for planned in &compiled.plan.ops {
                *ops.entry(planned.op.kind()).or_insert(0) += 1;
            }
            found.push(Part {
                ops: Count::sorted(ops),
                scratch_bytes: compiled.plan.scratch_bytes,
                shared_bytes: compiled.plan.shared_bytes,
                joined_maps: compiled.fused.maps,
                dropped_copies: compiled.fused.copies,
                ended_by: ended.map(|node| parts.graph().nodes[node].name.clone()),
            });
            match ended {
                Some(node) => start = node + 1,
                None => break,
            }
        }
        found
    }
}
