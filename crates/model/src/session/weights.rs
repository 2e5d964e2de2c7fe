//! What a model knows, where the work is: on a device of its own memory, each weight once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use streampool_device::Span;
use streampool_device::lock::Mutex;
use streampool_tensor::{DType, Pool, Tensor};

use crate::error::{Fault, Result};
use crate::evaluate::is_same;
use crate::ranks;

/// The weights of a session.
pub struct Weights {
    known: Pool,
    work: Pool,
    /// What was moved, as long as a plan holds it, and what it was moved from: that has to stay, since its address stands
    /// for it.
    moved: Mutex<HashMap<Span, (Tensor, Weak<Tensor>)>>,
    lifted: Mutex<VecDeque<(Tensor, Tensor)>>,
}

/// Smaller tensors are lifted each time.
const LARGE: usize = 1 << 14;

/// So many tensors are kept lifted at most: what is made anew in each run would be, too.
const MOST_LIFTED: usize = 256;

impl Weights {
    /// None so far.
    pub fn new(known: Pool, work: Pool) -> Weights {
        Weights {
            known,
            work,
            moved: Mutex::new(ranks::WEIGHTS, HashMap::new()),
            lifted: Mutex::new(ranks::WEIGHTS, VecDeque::new()),
        }
    }

    /// The pool of what is known.
    pub fn known(&self) -> &Pool {
        &self.known
    }

    /// The pool where the work is.
    pub fn work(&self) -> &Pool {
        &self.work
    }

    /// A tensor whose memory has, from its start, what that of `known` has.
    pub fn at_work(&self, known: &Tensor) -> Result<Arc<Tensor>> {
        if self.known == self.work {
            return Ok(Arc::new(known.clone()));
        }
        let span = known.buffer().span();
        let found = self.moved.lock().get(&span).map(|(_, moved)| moved.clone());
        if let Some(moved) = found.and_then(|moved| moved.upgrade()) {
            return Ok(moved);
        }
        let mut bytes = vec![0u8; known.buffer().bytes()];
        self.known
            .current()?
            .download_into(known.buffer(), &mut bytes)?;
        let moved = self.upload(&bytes)?;
        let entry = (known.clone(), Arc::downgrade(&moved));
        let mut all = self.moved.lock();
        let gone = all.extract_if(|_, (_, moved)| moved.strong_count() == 0);
        let gone: Vec<_> = gone.collect();
        let replaced = all.insert(span, entry);
        drop(all);
        // Without the lock: who owns the memory may do anything when it goes.
        drop((gone, replaced));
        Ok(moved)
    }

    /// A tensor of the same values where the work is. Large ones are kept, since nodes that are computed by themselves
    /// ask for the same weights again and again.
    pub fn lift(&self, known: &Tensor) -> Result<Tensor, Fault> {
        if known.pool() == &self.work {
            return Ok(known.clone());
        }
        let same = |(other, _): &&(Tensor, Tensor)| is_same(other, known);
        let found = self.lifted.lock().iter().find(same).cloned();
        if let Some((_, lifted)) = found {
            return Ok(lifted);
        }
        let lifted = known.to(&self.work)?;
        if known.buffer().bytes() > LARGE {
            let mut all = self.lifted.lock();
            all.push_back((known.clone(), lifted.clone()));
            let oldest = (all.len() > MOST_LIFTED).then(|| all.pop_front());
            drop(all);
            drop(oldest);
        }
        Ok(lifted)
    }

    /// Bytes where the work is.
    pub fn upload(&self, bytes: &[u8]) -> Result<Arc<Tensor>> {
        Ok(Arc::new(Tensor::from_bytes(
            &self.work,
            DType::U8,
            bytes,
            &[bytes.len()],
        )?))
    }
}

#[cfg(test)]
mod tests {
    use streampool_host::{HostDevice, HostOptions};

    use super::*;

    fn weights() -> Weights {
        let [known, work] =
            [(), ()].map(|()| Pool::new(HostDevice::new(HostOptions::default()).unwrap()).unwrap());
        Weights::new(known, work)
    }

    fn constant(weights: &Weights, elements: usize) -> Tensor {
        Tensor::full(weights.known(), &[elements], 0.5, DType::F32).unwrap()
    }

    #[test]
    fn what_no_plan_holds_any_more_goes() {
        let weights = weights();
        let kept = constant(&weights, 7);
        let moved = weights.at_work(&kept).unwrap();
        assert_eq!(moved.to_bytes().unwrap()[..28], kept.to_bytes().unwrap());
        for elements in 1..500 {
            weights.at_work(&constant(&weights, elements)).unwrap();
            assert!(weights.moved.lock().len() <= 2);
        }
        assert!(Arc::ptr_eq(&weights.at_work(&kept).unwrap(), &moved));
    }

    #[test]
    fn only_so_many_stay_lifted() {
        let weights = weights();
        for more in 1..=2 * MOST_LIFTED {
            weights.lift(&constant(&weights, LARGE + more)).unwrap();
            assert!(weights.lifted.lock().len() <= MOST_LIFTED);
        }
    }
}
