//! The buffers that are committed and not over, of all queues together. There may be a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::lock::Mutex;

use super::lane::Lane;
use crate::ranks;

/// Counts committed buffers. Nobody blocks: a lane that has to wait is called when its turn comes.
///
/// Buffers are numbered as they are sealed, and wait only for buffers with lower numbers. The lowest of those that
/// want to go goes first, and a lane gives its slot away only once its next buffer wants one. So those in flight never
/// all wait for one that is not.
pub(crate) struct InFlight {
    limit: Option<usize>,
    sealed: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: usize,
    waiting: BTreeMap<u64, Arc<Lane>>,
}

impl InFlight {
    pub fn new(limit: Option<usize>) -> InFlight {
        InFlight {
            limit,
            sealed: AtomicU64::new(0),
            state: Mutex::new(ranks::IN_FLIGHT, State::default()),
        }
    }

    /// The number of a buffer that is sealed now.
    pub fn number(&self) -> u64 {
        self.sealed.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether the buffer of this number may be committed now; if not, its lane is called later.
    pub fn enter(&self, number: u64, lane: &Arc<Lane>) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut state = self.state.lock();
        let free = state.count < limit;
        match free {
            true => state.count += 1,
            false => drop(state.waiting.insert(number, lane.clone())),
        }
        free
    }

    /// One is over. The lane that is returned may commit its buffer in its place, and has to be told.
    pub fn leave(&self) -> Option<Arc<Lane>> {
        self.limit?;
        let mut state = self.state.lock();
        let next = state.waiting.pop_first().map(|(_, lane)| lane);
        if next.is_none() {
            state.count -= 1;
        }
        next
    }
}
