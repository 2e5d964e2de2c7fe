//! What a session did, counted by stream, so that counting shares nothing between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use streampool_runtime::Settings;

/// What a session did so far, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Statistics {
    /// Runs of programs, of parts of a model too.
    pub replays: u64,
    /// Programs captured: one for each stream and kind of inputs, when they meet first, as long as there is much room for
    /// [programs](crate::SessionOptions::program_memory).
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

/// What is counted.
#[derive(Clone, Copy)]
pub enum Count {
    Runs,
    Replays,
    Captures,
    NodesAlone,
    TurnsWaited,
    RunsWithoutTurn,
}

/// The counters of one stream, by what they count, on a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct StreamCounts([AtomicU64; 6]);

/// The counters of all streams.
pub struct Counts(Box<[StreamCounts]>);

impl Counts {
    /// All zero.
    pub fn new() -> Counts {
        let streams = 0..Settings::MOST_STREAMS;
        Counts(streams.map(|_| StreamCounts::default()).collect())
    }

    /// Counts one more on a stream.
    pub fn add(&self, stream: u8, count: Count) {
        self.0[usize::from(stream)].0[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were on all streams.
    pub fn sum(&self, count: Count) -> u64 {
        let each = self.0.iter().map(|stream| &stream.0[count as usize]);
        each.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// The sums.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            replays: self.sum(Count::Replays),
            captures: self.sum(Count::Captures),
            nodes_alone: self.sum(Count::NodesAlone),
            turns_waited: self.sum(Count::TurnsWaited),
            runs_without_turn: self.sum(Count::RunsWithoutTurn),
            ..Statistics::default()
        }
    }
}
