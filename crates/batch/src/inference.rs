//! A list of inputs in, their outputs out, in order, with only some under way at a time.

use std::collections::VecDeque;
use std::iter::Fuse;

use streampool_tensor::Array;

use crate::error::Result;
use crate::queue::BatchQueue;
use crate::request::Request;
use crate::ticket::Ticket;

/// The outputs of many requests, in their order.
pub struct InOrder<I> {
    queue: BatchQueue,
    requests: Fuse<I>,
    under_way: VecDeque<Result<Ticket>>,
    /// How many are put in the queue together.
    together: usize,
    /// How many are under way at most.
    most: usize,
}

impl<I> InOrder<I>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    pub(crate) fn new(queue: BatchQueue, requests: I, rows: usize, lanes: usize) -> Self {
        InOrder {
            queue,
            requests: requests.fuse(),
            under_way: VecDeque::new(),
            together: rows,
            // While every lane has a batch, the next is there.
            most: rows.saturating_mul(lanes + 1),
        }
    }

    /// Has as many under way as there may be.
    fn fill(&mut self) {
        while self.under_way.len().saturating_add(self.together) <= self.most {
            let before = self.under_way.len();
            let next = self.requests.by_ref().take(self.together);
            self.under_way.extend(self.queue.submit_many(next));
            if self.under_way.len() == before {
                return;
            }
        }
    }
}

impl<I> Iterator for InOrder<I>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    type Item = Result<Vec<Array>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let first = self.under_way.pop_front()?;
        Some(first.and_then(Ticket::wait))
    }
}
