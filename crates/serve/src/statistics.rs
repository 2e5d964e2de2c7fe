//! The extension `statistics`: what became of requests, as Triton's clients read it.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::figures::Seen;
use crate::model::Model;

/// The statistics of these models.
pub fn of<'a>(models: impl IntoIterator<Item = &'a Arc<Model>>) -> Json {
    let each = models.into_iter().map(|model| {
        let seen = model.figures().seen();
        let queues = &seen.queues;
        let pair = |(count, ns): (u64, u64)| json!({"count": count, "ns": ns});
        let waits = (queues.queue_time.count(), total(&queues.queue_time));
        let [input, compute, output] = computing(&seen);
        let batches = queues
            .batch_rows
            .counts()
            .map(|(rows, count)| json!({"batch_size": rows, "compute_infer": {"count": count}}));
        json!({
            "name": model.name(),
            "version": model.version().to_string(),
            "last_inference": seen.last,
            "inference_count": total(&queues.batch_rows),
            "execution_count": queues.batch_rows.count(),
            "inference_stats": {
                "success": pair(seen.success),
                "fail": pair(seen.fail),
                "queue": pair(waits),
                "compute_input": pair(input),
                "compute_infer": pair(compute),
                "compute_output": pair(output),
                "cache_hit": pair((0, 0)),
                "cache_miss": pair((0, 0)),
            },
            "batch_stats": batches.collect::<Vec<_>>(),
        })
    });
    json!({"model_stats": each.collect::<Vec<_>>()})
}

/// How often, and how many nanoseconds, inputs were read, batches computed and outputs written: of each request whose outputs were
/// written, as NVIDIA's clients expect. What batches of other requests took is shared out among these.
pub fn computing(seen: &Seen) -> [(u64, u64); 3] {
    let requests = seen.output.0;
    let compute = &seen.queues.compute_time;
    let compute = (compute.count(), total(compute));
    [seen.input, compute, seen.output].map(|(count, nanos)| {
        let mean = nanos as f64 / count.max(1) as f64;
        (requests, (mean * requests as f64).round() as u64)
    })
}

/// The sum of all values.
pub fn total(histogram: &streampool::batch::Histogram) -> u64 {
    (histogram.mean() * histogram.count() as f64).round() as u64
}
