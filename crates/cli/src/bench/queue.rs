//! The queue before the model, which runs requests in batches.

use std::time::Duration;

use clap::Args;
use streampool::batch::{BatchQueue, Histogram, Statistics};
use streampool::{ForSession, Session};

use crate::Result;
use crate::text::within;

/// How the queue forms batches; the queue's own defaults hold where nothing is given.
#[derive(Debug, Args)]
pub struct Policy {
    /// The maximum number of rows in a batch of the queue
    #[arg(long, value_name = "ROWS", requires = "queue", allow_negative_numbers = true, value_parser = within(1usize, 1024))]
    max_batch: Option<usize>,
    /// How long a request may wait for others, in milliseconds
    #[arg(long, value_name = "MS", requires = "queue", allow_negative_numbers = true, value_parser = within(0.0, 1e4))]
    max_wait: Option<f64>,
    /// The number of batches of the queue that run at the same time
    #[arg(long, value_name = "N", requires = "queue", allow_negative_numbers = true, value_parser = within(1usize, 1024))]
    in_flight: Option<usize>,
}

impl Policy {
    /// A queue before `session`.
    pub fn queue(&self, session: &Session) -> Result<BatchQueue> {
        let mut builder = BatchQueue::builder();
        if let Some(rows) = self.max_batch {
            builder = builder.max_batch_size(rows);
        }
        if let Some(milliseconds) = self.max_wait {
            builder = builder.max_wait(Duration::from_secs_f64(milliseconds / 1e3));
        }
        if let Some(batches) = self.in_flight {
            builder = builder.max_in_flight(batches);
        }
        let queue = BatchQueue::for_session(session, builder);
        queue.map_err(|error| {
            format!("no queue for this model: {error}; or leave --queue out").into()
        })
    }
}

/// Rows that were run at once on average, since the queue had done `before`.
pub fn rows_per_batch(before: &Statistics, now: &Statistics) -> Option<f64> {
    let (before, now) = (&before.batch_rows, &now.batch_rows);
    let batches = now.count() - before.count();
    let rows = |of: &Histogram| of.mean() * of.count() as f64;
    (batches > 0).then(|| (rows(now) - rows(before)) / batches as f64)
}
