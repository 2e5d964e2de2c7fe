//! What a request's caller gets, and how it comes together where the request was run in parts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use streampool_tensor::Array;

use crate::engine::{Job, Rejected};
use crate::error::{Error, Result};
use crate::figures::Fate;
use crate::outcome::{Accepted, Outcome, Waiter};
use crate::traced::Traced;

/// Rows of the arrays that a batch gave. Each caller cuts out its own.
pub struct Share {
    arrays: Arc<Vec<Array>>,
    rows: Range<usize>,
    /// How many rows the arrays have.
    all: usize,
    /// What was asked: its memory goes back to the thread that it came from, not to the one that ran the batch.
    _asked: Option<Arc<Vec<Array>>>,
}

impl Share {
    /// These of all rows of some arrays, for who asked for them.
    pub fn new(
        arrays: &Arc<Vec<Array>>,
        rows: Range<usize>,
        asked: Option<Arc<Vec<Array>>>,
    ) -> Share {
        Share {
            arrays: arrays.clone(),
            rows,
            all: arrays.first().map_or(0, Array::row_count),
            _asked: asked,
        }
    }

    /// The rows as arrays of their own.
    pub fn cut(self) -> Result<Vec<Array>> {
        if self.rows.len() == self.all {
            return Ok(Arc::unwrap_or_clone(self.arrays));
        }
        let cut = |array: &Array| array.rows(self.rows.clone()).map_err(Error::failed);
        self.arrays.iter().map(cut).collect()
    }
}

/// Where the answer to a request is put.
pub type Answer = Outcome<Result<Share>>;

/// A part of a request.
pub struct Part {
    /// Its rows of each input.
    pub inputs: Arc<Vec<Array>>,
    /// Where what comes of it goes; nowhere any more, once that was put.
    to: Option<To>,
    /// Who traces it.
    pub traced: Option<Arc<Traced>>,
}

/// Where what comes of a part goes.
pub enum To {
    /// It is all of the request.
    Caller(Arc<Answer>),
    /// It is one of several.
    Joined(Arc<Joined>, usize),
}

impl To {
    fn answer(&self) -> &Answer {
        match self {
            To::Caller(answer) => answer,
            To::Joined(joint, _) => &joint.answer,
        }
    }
}

/// The parts of a request that has more rows than a batch.
pub struct Joined {
    shares: Mutex<Vec<Option<Share>>>,
    settled: AtomicBool,
    answer: Arc<Answer>,
}

impl Joined {
    /// So many parts, none of which is there.
    pub fn new(parts: usize, answer: Arc<Answer>) -> Joined {
        Joined {
            shares: Mutex::new((0..parts).map(|_| None).collect()),
            settled: AtomicBool::new(false),
            answer,
        }
    }

    fn settles(&self) -> bool {
        !self.settled.swap(true, Ordering::Relaxed)
    }

    /// Takes a share; returns all once they are there.
    fn with(&self, share: Share, part: usize) -> Option<Vec<Share>> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[part] = Some(share);
        if shares.iter().any(Option::is_none) {
            return None;
        }
        Some(shares.iter_mut().filter_map(Option::take).collect())
    }
}

/// The rows of all these, as one share.
fn joined(shares: Vec<Share>) -> Result<Share> {
    let parts: Vec<Vec<Array>> = shares.into_iter().map(Share::cut).collect::<Result<_>>()?;
    let outputs = parts.first().map_or(0, Vec::len);
    let arrays = (0..outputs).map(|output| {
        let parts: Vec<&Array> = parts.iter().filter_map(|part| part.get(output)).collect();
        Array::join(&parts).map_err(Error::failed)
    });
    let arrays: Vec<Array> = arrays.collect::<Result<_>>()?;
    let rows = arrays.first().map_or(0, Array::row_count);
    Ok(Share::new(&Arc::new(arrays), 0..rows, None))
}

impl Part {
    /// These rows, where what comes of them goes, and who traces that.
    pub fn new(inputs: Vec<Array>, to: To, traced: Option<Arc<Traced>>) -> Part {
        Part {
            inputs: Arc::new(inputs),
            to: Some(to),
            traced,
        }
    }

    /// Whether nobody wants it any more, or its request has failed already.
    pub fn is_moot(&self) -> bool {
        self.to.as_ref().is_none_or(|to| to.answer().is_put())
    }

    /// Puts what came of it. Returns what became of the request, if this decides it, and who waits for it.
    pub fn answer(mut self, result: Result<Share>) -> (Option<Fate>, Option<Waiter>) {
        match self.to.take() {
            None => (None, None),
            Some(To::Caller(answer)) => put(&answer, result),
            Some(To::Joined(joint, part)) => {
                let result = match result {
                    Err(error) => Err(error),
                    Ok(share) => match joint.with(share, part) {
                        None => return (None, None),
                        Some(shares) => joined(shares),
                    },
                };
                match joint.settles() {
                    true => put(&joint.answer, result),
                    false => (None, None),
                }
            }
        }
    }

    /// Puts why nothing comes of it. Returns who waits for it.
    fn refused(&mut self, why: Error) -> Option<Waiter> {
        match self.to.take()?.answer().put(Err(why)) {
            Accepted::By(waiter) => waiter,
            Accepted::Not => None,
        }
    }
}

/// Whoever waits is told, even if a panic has lost the request.
impl Drop for Part {
    fn drop(&mut self) {
        if let Some(waiter) = self.refused(Error::Lost) {
            waiter.wake();
        }
    }
}

fn put(answer: &Answer, result: Result<Share>) -> (Option<Fate>, Option<Waiter>) {
    let fate = match &result {
        Ok(_) => Fate::Completed,
        Err(Error::Expired) => Fate::Expired,
        Err(_) => Fate::Failed,
    };
    match answer.put(result) {
        Accepted::By(waiter) => (Some(fate), waiter),
        Accepted::Not => (Some(Fate::Cancelled), None),
    }
}

impl Job for Part {
    fn refuse(mut self, why: Rejected) -> Option<Waiter> {
        self.refused(why.into())
    }

    fn settles(&self) -> bool {
        match &self.to {
            None => false,
            Some(To::Caller(_)) => true,
            Some(To::Joined(joint, _)) => joint.settles(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_what_is_lost_is_told() {
        let answer = Arc::new(Answer::new());
        drop(Part::new(vec![], To::Caller(answer.clone()), None));
        assert!(matches!(answer.wait(), Err(Error::Lost)));
        let answer = Arc::new(Answer::new());
        let joined = Arc::new(Joined::new(2, answer.clone()));
        let part = |number| Part::new(vec![], To::Joined(joined.clone(), number), None);
        let share = Share::new(&Arc::default(), 0..0, None);
        assert!(part(0).answer(Ok(share)).0.is_none());
        assert!(!answer.is_put(), "the other is still to come");
        drop(part(1));
        assert!(matches!(answer.wait(), Err(Error::Lost)));
    }
}
