//! Runs that are under way on each stream while nobody waits for them, and the bound on how many there are.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use streampool_device::lock::Mutex;
use streampool_runtime::{Event, EventStatus, Settings, Stamp, Stream};

use super::options::SessionOptions;
use super::outputs::Outputs;
use super::programs::Ready;
use crate::error::Result;
use crate::ranks;

/// What all runs under way take, as a part of the memory for programs.
const PART: usize = 8;

/// Fewer than two leave nothing to overlap.
const FEWEST: usize = 2;

/// A run under way, known to its caller and to its stream.
pub struct Run {
    pub stream: Stream,
    /// What its program takes.
    bytes: usize,
    pub state: Mutex<RunState>,
    wakers: Arc<Wakers>,
}

/// Where a run stands.
pub enum RunState {
    /// At this place of its stream, with an event recorded behind it.
    Running(Box<Ready>, Stamp, Arc<Event>),
    /// Its outputs are read, and its program has gone on.
    Over(Result<Outputs>),
    /// Nobody wants its outputs any more.
    Taken,
}

/// Who is to be woken when it is over, and whether the stream was told to.
type Wakers = std::sync::Mutex<(bool, Vec<Waker>)>;

impl Run {
    pub fn new(stream: &Stream, ready: Ready, stamp: Stamp, event: Arc<Event>) -> Arc<Run> {
        Arc::new(Run {
            stream: stream.clone(),
            bytes: ready.bytes(),
            state: Mutex::new(ranks::RUN, RunState::Running(Box::new(ready), stamp, event)),
            wakers: Arc::default(),
        })
    }

    /// Where it stands on its stream, and the event behind it, until its outputs are read.
    pub fn event(&self) -> Option<(Stamp, Arc<Event>)> {
        match &*self.state.lock() {
            RunState::Running(_, stamp, event) => Some((*stamp, event.clone())),
            RunState::Over(_) | RunState::Taken => None,
        }
    }

    /// Whether its outputs, or its failure, are there. Never blocks.
    pub fn is_over(&self) -> bool {
        self.event()
            .is_none_or(|(_, event)| !matches!(event.query(), Ok(EventStatus::Pending)))
    }

    /// Has `waker` woken when it is over; `true` if it is already.
    pub fn wake(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.1.iter().any(|known| known.will_wake(waker)) {
            wakers.1.push(waker.clone());
        }
        let was_told = std::mem::replace(&mut wakers.0, true);
        drop(wakers);
        if !was_told {
            let wakers = self.wakers.clone();
            let told = self.stream.on_complete(move |_| {
                let mut wakers = wakers.lock().unwrap_or_else(PoisonError::into_inner);
                let woken = std::mem::take(&mut wakers.1);
                drop(wakers);
                woken.into_iter().for_each(Waker::wake);
            });
            // A stream that a later run has poisoned takes no handler. What was on it is over soon.
            if told.is_err() && !self.is_over() {
                waker.wake_by_ref();
            }
        }
        self.is_over()
    }
}

/// The runs under way, the oldest of each stream first.
pub struct UnderWay {
    streams: Box<[Mutex<VecDeque<Arc<Run>>>]>,
    most: usize,
    most_bytes: usize,
}

impl UnderWay {
    pub fn new(options: &SessionOptions) -> UnderWay {
        UnderWay {
            streams: (0..Settings::MOST_STREAMS)
                .map(|_| Mutex::new(ranks::UNDER_WAY, VecDeque::new()))
                .collect(),
            most: options.max_in_flight.max(FEWEST),
            most_bytes: options.program_memory / PART,
        }
    }

    /// The run that has to be over before there is room for another on this stream.
    pub fn in_the_way(&self, stream: &Stream) -> Option<Arc<Run>> {
        let mut runs = self.streams[usize::from(stream.index())].lock();
        runs.retain(|run| run.event().is_some());
        let bytes: usize = runs.iter().map(|run| run.bytes).sum();
        let is_full = runs.len() >= self.most || runs.len() >= FEWEST && bytes >= self.most_bytes;
        runs.front().filter(|_| is_full).cloned()
    }

    /// How many runs there may be at most.
    pub fn most(&self) -> usize {
        self.most
    }

    pub fn add(&self, run: Arc<Run>) {
        let stream = usize::from(run.stream.index());
        self.streams[stream].lock().push_back(run);
    }
}
