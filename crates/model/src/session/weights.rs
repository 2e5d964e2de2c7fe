//! What a model knows, where the work is: on a device of its own memory, each weight once.

use std::collections::HashMap;
use std::sync::Arc;

use streampool_device::Span;
use streampool_device::lock::Mutex;
use streampool_tensor::{DType, Pool, Tensor};

use crate::error::{Fault, Result};
use crate::ranks;

/// The weights of a session.
pub struct Weights {
    known: Pool,
    work: Pool,
    moved: Mutex<HashMap<Span, (Tensor, Arc<Tensor>)>>,
    lifted: Mutex<Vec<(Tensor, Tensor)>>,
}

/// Smaller tensors are lifted each time.
const LARGE: usize = 1 << 14;

impl Weights {
    /// None so far.
    pub fn new(known: Pool, work: Pool) -> Weights {
        Weights {
            known,
            work,
            moved: Mutex::new(ranks::WEIGHTS, HashMap::new()),
            lifted: Mutex::new(ranks::WEIGHTS, Vec::new()),
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
        if let Some((_, moved)) = self.moved.lock().get(&span) {
            return Ok(moved.clone());
        }
        let mut bytes = vec![0u8; known.buffer().bytes()];
        self.known
            .current()?
            .download_into(known.buffer(), &mut bytes)?;
        let moved = self.upload(&bytes)?;
        // The tensor is kept, too: its address stands for it.
        let entry = (known.clone(), moved.clone());
        self.moved.lock().insert(span, entry);
        Ok(moved)
    }

    /// A tensor of the same values where the work is. Large ones are kept, since nodes that are computed by themselves
    /// ask for the same weights again and again.
    pub fn lift(&self, known: &Tensor) -> Result<Tensor, Fault> {
        if known.pool() == &self.work {
            return Ok(known.clone());
        }
        let same = |(other, _): &&(Tensor, Tensor)| {
            other.buffer().span() == known.buffer().span()
                && (other.dtype(), other.layout()) == (known.dtype(), known.layout())
        };
        if let Some((_, lifted)) = self.lifted.lock().iter().find(same) {
            return Ok(lifted.clone());
        }
        let lifted = known.to(&self.work)?;
        if known.buffer().bytes() > LARGE {
            self.lifted.lock().push((known.clone(), lifted.clone()));
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
