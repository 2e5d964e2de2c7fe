//! Programs that are ready to run, by stream: each is one run's at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use streampool_device::lock::Mutex;
use streampool_runtime::{Event, Program, Settings};

use super::RunOptions;
use super::compiled::{Compiled, Ends};
use super::key::Key;
use super::turns::Turn;
use crate::error::Result;
use crate::ranks;

/// A captured program, and what it was captured for.
pub struct Ready {
    pub key: Arc<Key>,
    pub ends: Ends,
    pub compiled: Arc<Compiled>,
    pub program: Program,
    home: Home,
    /// Behind a run that nobody waited for.
    last_run: Option<Arc<Event>>,
    bytes: usize,
}

/// Where a program goes after its run.
enum Home {
    /// To those of its stream.
    Stream,
    /// To those that all threads share, at the end of this turn.
    Shared(Turn),
    /// Nowhere: there are enough of its kind.
    None,
}

impl Ready {
    pub fn new(key: Arc<Key>, ends: Ends, compiled: Arc<Compiled>, program: Program) -> Ready {
        Ready {
            bytes: program.bytes(),
            key,
            ends,
            compiled,
            program,
            home: Home::Stream,
            last_run: None,
        }
    }

    /// What its program takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// As one that threads take in turn.
    pub fn in_turn(self, turn: Turn) -> Ready {
        let home = Home::Shared(turn);
        Ready { home, ..self }
    }

    /// As one more than threads share, for one run.
    pub fn for_once(self) -> Ready {
        let home = Home::None;
        Ready { home, ..self }
    }

    /// It is given back while a run is under way; `event` comes behind it.
    pub fn under_way(&mut self, event: Arc<Event>) {
        self.last_run = Some(event);
    }

    /// Waits for a run that nobody waited for.
    pub fn settle(&mut self, options: &RunOptions) -> Result<()> {
        if let Some(event) = &self.last_run {
            options.wait_for_event(event)?;
            self.last_run = None;
        }
        Ok(())
    }
}

/// The programs of all streams. A stream's are behind a lock of their own, which only threads that share the stream share;
/// those that threads take in turn are behind one more.
pub struct Lanes {
    lanes: Box<[Mutex<Vec<Ready>>]>,
    limit: usize,
    bytes: AtomicUsize,
    evicted: AtomicU64,
}

impl Lanes {
    /// None so far; the programs that lie ready take at most `limit` bytes.
    pub fn new(limit: usize) -> Lanes {
        Lanes {
            lanes: (0..=Settings::MOST_STREAMS)
                .map(|_| Mutex::new(ranks::PROGRAMS, Vec::new()))
                .collect(),
            limit,
            bytes: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// A program that lies ready on this stream.
    pub fn take(&self, stream: u8, ends: Ends, fits: impl Fn(&Key) -> bool) -> Option<Ready> {
        self.take_from(usize::from(stream), ends, fits)
    }

    /// A program of those that threads take in turn.
    pub fn take_shared(&self, ends: Ends, key: &Key) -> Option<Ready> {
        self.take_from(Settings::MOST_STREAMS, ends, |other| other == key)
    }

    fn take_from(&self, lane: usize, ends: Ends, fits: impl Fn(&Key) -> bool) -> Option<Ready> {
        let mut lane = self.lanes[lane].lock();
        // The latest is the last.
        let place = lane
            .iter()
            .rposition(|ready| ready.ends == ends && fits(&ready.key))?;
        let ready = lane.remove(place);
        self.bytes.fetch_sub(ready.bytes, Ordering::Relaxed);
        Some(ready)
    }

    /// Puts a program back, if it is to stay. The longest unused of the stream, then of the others, go while all take too much.
    pub fn give(&self, stream: u8, mut ready: Ready) {
        let mut gone = Vec::new();
        // A turn ends when the program lies there for the next.
        let (home, turn) = match std::mem::replace(&mut ready.home, Home::Stream) {
            Home::Stream => (usize::from(stream), None),
            Home::Shared(turn) => (Settings::MOST_STREAMS, Some(turn)),
            Home::None => return,
        };
        let mut bytes = self.bytes.fetch_add(ready.bytes, Ordering::Relaxed) + ready.bytes;
        self.lanes[home].lock().push(ready);
        drop(turn);
        let others = (0..self.lanes.len()).filter(|&other| other != home);
        for lane in std::iter::once(home).chain(others) {
            while bytes > self.limit {
                let mut ready = self.lanes[lane].lock();
                if ready.is_empty() {
                    break;
                }
                let oldest = ready.remove(0);
                drop(ready);
                bytes = self.bytes.fetch_sub(oldest.bytes, Ordering::Relaxed) - oldest.bytes;
                gone.push(oldest);
            }
        }
        self.evicted.fetch_add(gone.len() as u64, Ordering::Relaxed);
    }

    /// How many programs had to go.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// How many programs lie ready, and the bytes they take.
    pub fn held(&self) -> (usize, usize) {
        let count = self.lanes.iter().map(|lane| lane.lock().len()).sum();
        (count, self.bytes.load(Ordering::Relaxed))
    }
}
