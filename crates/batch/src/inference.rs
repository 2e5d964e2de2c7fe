//! A list of inputs in, their outputs out, in order, with only some under way at a time.

use std::collections::VecDeque;
use std::iter::Fuse;

use streampool_tensor::Array;

use crate::builder::{BatchQueueBuilder, WhenFull};
use crate::error::Result;
use crate::queue::BatchQueue;
use crate::request::Request;
use crate::ticket::Ticket;

/// The outputs of many requests, in their order.
pub struct InferAll<I> {
    queue: BatchQueue,
    requests: Fuse<I>,
    /// With the bytes of each.
    under_way: VecDeque<(Result<Ticket>, usize)>,
    /// The bytes of all that are under way.
    bytes: usize,
    /// How much is put in the queue together.
    group: Amount,
    /// How much is under way at most, but for the last of a group, which may go beyond its bytes.
    most: Amount,
}

struct Amount {
    requests: usize,
    bytes: usize,
}

impl BatchQueue {
    /// Runs many requests, and gives their outputs in order. Only some are under way at a time, however many there are: as many as
    /// keep all lanes busy, and no more bytes than `capacity_bytes`. What finds no room waits for it, whatever `when_full` is.
    pub fn infer_all<I>(&self, requests: I) -> InferAll<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        InferAll::new(self.clone(), requests.into_iter(), &self.shared().settings)
    }
}

impl<I> InferAll<I>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    fn new(queue: BatchQueue, requests: I, settings: &BatchQueueBuilder) -> Self {
        // While every lane has a batch, the next is there.
        let groups = settings.lanes().saturating_add(1);
        let together = settings.limits.rows.min(settings.capacity.requests);
        InferAll {
            queue,
            requests: requests.fuse(),
            under_way: VecDeque::new(),
            bytes: 0,
            group: Amount {
                requests: together,
                bytes: (settings.capacity.bytes / groups).max(1),
            },
            most: Amount {
                requests: together.saturating_mul(groups),
                bytes: settings.capacity.bytes,
            },
        }
    }

    /// Has as many under way as there may be. What finds no room in the queue waits for it: to be refused is of no use to who
    /// wants all.
    fn fill(&mut self) {
        while self.under_way.len().saturating_add(self.group.requests) <= self.most.requests
            && self.bytes.saturating_add(self.group.bytes) <= self.most.bytes
        {
            let group = self.next_group();
            if group.is_empty() {
                return;
            }
            let sizes: Vec<usize> = group.iter().map(Request::bytes).collect();
            self.bytes += sizes.iter().sum::<usize>();
            let tickets = self.queue.submit_all("infer_all", group, WhenFull::Block);
            self.under_way.extend(tickets.into_iter().zip(sizes));
        }
    }

    fn next_group(&mut self) -> Vec<Request> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < self.group.requests
            && bytes < self.group.bytes
            && let Some(request) = self.requests.next()
        {
            let request = request.into();
            bytes += request.bytes();
            group.push(request);
        }
        group
    }
}

impl<I> Iterator for InferAll<I>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    type Item = Result<Vec<Array>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let (first, bytes) = self.under_way.pop_front()?;
        self.bytes -= bytes;
        Some(first.and_then(Ticket::wait))
    }
}
