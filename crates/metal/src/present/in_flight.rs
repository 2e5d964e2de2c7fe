//! The buffers that are committed and not over, of all queues together. There may be a limit.

use std::collections::VecDeque;
use std::sync::Arc;

use streampool_device::lock::Mutex;

use super::peer::Peer;
use crate::ranks;

/// Counts committed buffers. Nobody blocks: a lane that has to wait is called when its turn comes.
///
/// What is committed waits for nothing that is not, so whoever asks first may go first.
pub(crate) struct InFlight {
    limit: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: usize,
    waiting: VecDeque<Arc<dyn Peer>>,
}

impl InFlight {
    pub fn new(limit: Option<usize>) -> InFlight {
        InFlight {
            limit,
            state: Mutex::new(ranks::IN_FLIGHT, State::default()),
        }
    }

    /// Whether a buffer of this lane may be committed now; if not, the lane is called later.
    pub fn enter<L: Peer + 'static>(&self, lane: &Arc<L>) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut state = self.state.lock();
        let free = state.count < limit;
        match free {
            true => state.count += 1,
            false => state.waiting.push_back(lane.clone()),
        }
        free
    }

    /// One is over. The lane that is returned may commit its buffer in its place, and has to be told.
    pub fn leave(&self) -> Option<Arc<dyn Peer>> {
        self.limit?;
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.count -= 1;
        }
        next
    }
}
