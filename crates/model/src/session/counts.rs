//! What a session did, counted by stream, so that counting shares nothing between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use streampool_runtime::Settings;

/// What a session did so far, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Statistics {
    /// Runs of programs, of parts of a model too.
    pub replays: u64,
    /// Programs captured: one for each stream and kind of inputs, when they meet first.
    pub captures: u64,
    /// Nodes computed by themselves, because they ask for values.
    pub nodes_alone: u64,
    /// Runs that waited for one of the programs that threads share.
    pub turns_waited: u64,
    /// Runs that waited for one in vain, and captured a program for themselves.
    pub runs_without_turn: u64,
    /// Plans made.
    pub plans: usize,
    /// Programs that lie ready.
    pub programs: usize,
    /// About the memory that these take, and all plans: those at work and the tensors they keep included, weights not.
    pub program_bytes: usize,
    /// Programs let go of because all took too much.
    pub evicted: u64,
}

impl Statistics {
    /// Of two sessions together.
    pub(super) fn and(self, other: Statistics) -> Statistics {
        Statistics {
            replays: self.replays + other.replays,
            captures: self.captures + other.captures,
            nodes_alone: self.nodes_alone + other.nodes_alone,
            turns_waited: self.turns_waited + other.turns_waited,
            runs_without_turn: self.runs_without_turn + other.runs_without_turn,
            plans: self.plans + other.plans,
            programs: self.programs + other.programs,
            program_bytes: self.program_bytes + other.program_bytes,
            evicted: self.evicted + other.evicted,
        }
    }
}

/// The counters of one stream, on a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct StreamCounts {
    runs: AtomicU64,
    replays: AtomicU64,
    captures: AtomicU64,
    nodes: AtomicU64,
    waited: AtomicU64,
    without_turn: AtomicU64,
}

/// The counters of all streams.
pub struct Counts(Box<[StreamCounts]>);

impl Counts {
    /// All zero.
    pub fn new() -> Counts {
        Counts(
            (0..Settings::MOST_STREAMS)
                .map(|_| StreamCounts::default())
                .collect(),
        )
    }

    pub fn ran(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.runs);
    }

    pub fn replayed(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.replays);
    }

    pub fn captured(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.captures);
    }

    pub fn computed(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.nodes);
    }

    pub fn waited(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.waited);
    }

    pub fn without_turn(&self, stream: u8) {
        self.add_one(stream, |stream| &stream.without_turn);
    }

    fn add_one(&self, stream: u8, of: fn(&StreamCounts) -> &AtomicU64) {
        of(&self.0[usize::from(stream)]).fetch_add(1, Ordering::Relaxed);
    }

    /// How many runs there were.
    pub fn runs(&self) -> u64 {
        let runs = self
            .0
            .iter()
            .map(|stream| stream.runs.load(Ordering::Relaxed));
        runs.sum()
    }

    /// The sums.
    pub fn statistics(&self) -> Statistics {
        let sum = |of: fn(&StreamCounts) -> &AtomicU64| {
            self.0
                .iter()
                .map(|stream| of(stream).load(Ordering::Relaxed))
                .sum()
        };
        Statistics {
            replays: sum(|stream| &stream.replays),
            captures: sum(|stream| &stream.captures),
            nodes_alone: sum(|stream| &stream.nodes),
            turns_waited: sum(|stream| &stream.waited),
            runs_without_turn: sum(|stream| &stream.without_turn),
            ..Statistics::default()
        }
    }
}
