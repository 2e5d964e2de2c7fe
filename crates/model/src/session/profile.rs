//! Profiles that know the nodes of a model.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use streampool_device::lock::Mutex;
use streampool_device::{Interval, Op, OpKind};
use streampool_runtime::{Pool, Profile, Stamp};

use super::compiled::Compiled;
use super::plans::Plans;
use super::programs::Ready;
use crate::error::Result;
use crate::ranks;

/// The replays of a session while it is profiled.
pub struct Replays {
    noted: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    replays: Noted,
    runs: usize,
    most: usize,
}

/// What a command of a stream is part of.
struct Command {
    compiled: Arc<Compiled>,
    /// Which op of the program is its first.
    first: usize,
    /// So many ops of the program come before those of the plan.
    before: usize,
    /// The ops of the plan that the program leaves out, in order.
    left_out: Vec<usize>,
    /// The number of the replay.
    run: usize,
}

/// By stream and tick.
type Noted = HashMap<(u32, u64), Command>;

impl Replays {
    /// None, and nobody asks for them.
    pub fn new() -> Replays {
        Replays {
            noted: AtomicBool::new(false),
            list: Mutex::new(ranks::REPLAYS, List::default()),
        }
    }

    /// Whether somebody asks for them.
    pub fn are_noted(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    /// Says where a plan was replayed: all of it in one command, or each op in one of its own.
    pub fn note(&self, stamps: &[Stamp], ready: &Ready) {
        let mut list = self.list.lock();
        list.runs += 1;
        let compiled = &ready.compiled;
        // The inputs may be copied to the device first.
        let is_copied = ready.program.ops() > compiled.plan.ops.len();
        let before = usize::from(is_copied && compiled.plan.input_bytes > 0);
        let ops = &compiled.plan.ops;
        let in_place = ready.in_place.iter().map(|one| one.op);
        let mut left_out: Vec<usize> = in_place
            .filter(|&op| matches!(*ops[op].op, Op::Copy { .. }))
            .collect();
        left_out.sort_unstable();
        for (first, stamp) in stamps.iter().enumerate() {
            if list.replays.len() < list.most {
                let part = Command {
                    compiled: compiled.clone(),
                    first,
                    before,
                    left_out: left_out.clone(),
                    run: list.runs,
                };
                list.replays
                    .insert((u32::from(stamp.stream), stamp.tick), part);
            }
        }
    }

    fn begin(&self, most: usize) {
        *self.list.lock() = List {
            most,
            ..List::default()
        };
        self.noted.store(true, Ordering::Relaxed);
    }

    fn end(&self) -> Noted {
        self.noted.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.list.lock()).replays
    }
}

/// A profile in the making. Dropping it ends the recording and forgets it.
pub struct Recording {
    replays: Arc<Replays>,
    plans: Arc<Plans>,
    recording: Option<streampool_runtime::Recording>,
}

/// What ran while a session was profiled.
pub struct Profiled {
    /// The ops. Those of the session's programs are labelled with their nodes.
    pub ops: Profile,
    /// The nodes, the one that took longest first.
    pub nodes: Vec<NodeTime>,
}

/// What a node took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTime {
    /// Its name.
    pub name: String,
    /// What it does.
    pub operator: String,
    /// The nodes of the file that it stands for: its own name, or what it was made of, and what is computed along with it.
    pub made_of: Vec<String>,
    /// Its ops, in the order in which they ran.
    pub ops: Vec<OpKind>,
    /// How often it ran.
    pub count: usize,
    /// How long, in all.
    pub total: Duration,
}

impl Recording {
    /// Of a pool, and of the replays of these plans.
    pub(super) fn begin(
        pool: &Pool,
        capacity: usize,
        replays: &Arc<Replays>,
        plans: &Arc<Plans>,
    ) -> Result<Recording> {
        let recording = pool.profile(capacity)?;
        // After the pool: of what is noted each op is recorded.
        replays.begin(capacity);
        Ok(Recording {
            replays: replays.clone(),
            plans: plans.clone(),
            recording: Some(recording),
        })
    }

    /// Ends it, after waiting for the work in flight.
    pub fn finish(mut self) -> Result<Profiled> {
        let Some(recording) = self.recording.take() else {
            unreachable!("it is finished once");
        };
        let mut ops = recording.finish()?;
        let replays = self.replays.end();
        let mut table = Table {
            plans: &self.plans,
            rows: HashMap::new(),
        };
        // For each stream, the command that was seen last, and how many ops of it.
        let mut seen: HashMap<u32, (u64, usize)> = HashMap::new();
        ops.label(|interval| {
            let part = replays.get(&(interval.queue, interval.tick))?;
            let latest = seen.entry(interval.queue).or_default();
            if latest.0 != interval.tick {
                *latest = (interval.tick, 0);
            }
            let place = part.first + latest.1;
            latest.1 += 1;
            let mut place = place.checked_sub(part.before)?;
            for &left in &part.left_out {
                place += usize::from(left <= place);
            }
            let planned = part.compiled.plan.ops.get(place)?;
            // A device may time only the whole replay.
            let is_told = planned.op.kind() == interval.op;
            is_told.then(|| table.add(&planned.nodes, part.run, interval))?
        });
        Ok(Profiled {
            ops,
            nodes: table.sorted(),
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.recording.is_some() {
            self.replays.end();
        }
    }
}

/// What each node took, by the node that gives an op its name.
struct Table<'a> {
    plans: &'a Plans,
    rows: HashMap<usize, Row>,
}

struct Row {
    time: NodeTime,
    label: Arc<str>,
    /// The replays that it was in.
    runs: HashSet<usize>,
    /// The first that was seen.
    first: usize,
}

impl Table<'_> {
    /// Counts an op of these nodes in, and says what it is for.
    fn add(&mut self, nodes: &[usize], run: usize, op: &Interval) -> Option<Arc<str>> {
        let (&first, others) = nodes.split_first()?;
        let row = self.rows.entry(first);
        let row = row.or_insert_with(|| Row::of(self.plans, first, run));
        row.runs.insert(run);
        row.time.count = row.runs.len();
        row.time.total += op.end.saturating_duration_since(op.begin);
        if row.first == run {
            row.time.ops.push(op.op);
            for &other in others {
                row.time.made_of.extend(self.plans.names(other));
            }
        }
        Some(row.label.clone())
    }

    fn sorted(self) -> Vec<NodeTime> {
        let mut all: Vec<NodeTime> = self.rows.into_values().map(|row| row.time).collect();
        all.sort_by(|one, other| (other.total, &one.name).cmp(&(one.total, &other.name)));
        all
    }
}

impl Row {
    fn of(plans: &Plans, place: usize, first: usize) -> Row {
        let node = &plans.graph().nodes[place];
        let operator = node.operator.to_string();
        let made_of = plans.names(place);
        let of = match &made_of[..] {
            [_, .., _] => format!(" of {}", made_of.join(", ")),
            _ => String::new(),
        };
        Row {
            label: format!("{}: {operator}{of}", node.name).into(),
            time: NodeTime {
                name: node.name.clone(),
                operator,
                made_of,
                ops: Vec::new(),
                count: 0,
                total: Duration::ZERO,
            },
            runs: HashSet::new(),
            first,
        }
    }
}
