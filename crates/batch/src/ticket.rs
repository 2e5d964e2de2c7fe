//! What a caller holds while its request is under way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use streampool_tensor::Array;

use crate::answer::{Answer, Share};
use crate::engine::Place;
use crate::error::Result;
use crate::figures::Fate;
use crate::padding::Filled;
use crate::schedule::Ids;
use crate::shared::Shared;

/// A request under way: a future of its outputs, which can be waited for, too. Dropped, it is cancelled: it never runs if it
/// has not begun, and does not disturb its batch if it has.
#[must_use = "a ticket that is dropped cancels its request"]
pub struct Ticket {
    queue: Arc<Shared>,
    answer: Arc<Answer>,
    ids: Ids,
    filled: Option<Filled>,
}

impl Ticket {
    pub(crate) fn new(
        queue: Arc<Shared>,
        answer: Arc<Answer>,
        ids: Ids,
        filled: Option<Filled>,
    ) -> Ticket {
        Ticket {
            queue,
            answer,
            ids,
            filled,
        }
    }

    /// Waits for the outputs. Where nothing else waits and a lane is free, the waiting thread runs the request itself: so a queue
    /// that has nothing else to do costs no change of threads.
    ///
    /// From within the queue's own function it is an error where all lanes are of calls that wait so.
    pub fn wait(self) -> Result<Vec<Array>> {
        self.queue.check_process()?;
        while !self.answer.is_put() && self.queue.help(&self.ids) {}
        let _waiting = match self.answer.is_put() {
            true => None,
            false => self.queue.about_to_wait("wait", self.answer.clone())?,
        };
        self.wait_asleep()
    }

    /// As [`wait`](Self::wait), without looking for a batch to run.
    pub(crate) fn wait_asleep(self) -> Result<Vec<Array>> {
        let result = self.answer.wait();
        self.queue.engine.was_woken();
        self.outputs(result)
    }

    /// Waits for the outputs for so long; gives the ticket back if they are not there by then.
    pub fn wait_timeout(self, time: Duration) -> std::result::Result<Result<Vec<Array>>, Ticket> {
        if let Err(forked) = self.queue.check_process() {
            return Ok(Err(forked));
        }
        let Some(until) = Instant::now().checked_add(time) else {
            return Ok(self.wait());
        };
        match self.answer.wait_until(until) {
            Some(result) => Ok(self.outputs(result)),
            None => Err(self),
        }
    }

    /// Whether the outputs, or the reason why there are none, are there.
    pub fn is_ready(&self) -> bool {
        self.queue.check_process().is_err() || self.answer.is_put()
    }

    fn outputs(&self, result: Result<Share>) -> Result<Vec<Array>> {
        outputs(result, self.filled.as_ref())
    }
}

/// What a caller gets of its share: its rows, without what filled them up.
pub fn outputs(result: Result<Share>, filled: Option<&Filled>) -> Result<Vec<Array>> {
    let mut arrays = result?.cut()?;
    if let Some(filled) = filled {
        filled.cut(&mut arrays)?;
    }
    Ok(arrays)
}

impl Future for Ticket {
    type Output = Result<Vec<Array>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.queue.check_process()?;
        let result = self.answer.poll(context.waker());
        result.map(|result| self.outputs(result))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.queue.check_process().is_err() {
            return;
        }
        // Of a request in several parts some may be left although its answer is there: one of them failed.
        if self.answer.abandon() || self.ids.len() > 1 {
            self.queue.engine.cancel(&self.ids);
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("ready", &self.is_ready())
            .finish_non_exhaustive()
    }
}

/// A request that waits outside until there is room. Dropped before, it is given up.
pub struct Outside<'a> {
    queue: &'a Shared,
    place: Option<&'a Arc<Place>>,
}

impl<'a> Outside<'a> {
    /// The request that is to be told its place there.
    pub fn new(queue: &'a Shared, place: &'a Arc<Place>) -> Self {
        Outside {
            queue,
            place: Some(place),
        }
    }
}

impl Future for Outside<'_> {
    type Output = Ids;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ids> {
        let Some(place) = self.place else {
            panic!("polled after it was ready")
        };
        place.poll(context.waker()).map(|ids| {
            self.place = None;
            ids.unwrap_or_default()
        })
    }
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && self.queue.engine.withdraw(place, Fate::Cancelled).is_none()
            && let Some(ids) = place.wait()
        {
            self.queue.engine.cancel(&ids);
        }
    }
}
