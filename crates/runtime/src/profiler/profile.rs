//! What a profiler recorded.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{Interval, KernelInterval, OpKind};

use super::Summary;

/// What a host thread did for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpan {
    /// The thread's label.
    pub thread: Arc<str>,
    /// What it did.
    pub name: &'static str,
    /// When it began.
    pub begin: Instant,
    /// When it was over.
    pub end: Instant,
}

/// Something that happened at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What happened.
    pub name: Cow<'static, str>,
    /// When.
    pub time: Instant,
}

/// All launches of one kernel with as many groups.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelUse {
    /// Its name.
    pub name: Arc<str>,
    /// The groups of threads of each launch: CUDA's blocks.
    pub groups: u64,
    /// How many groups fit one processor at a time.
    pub fit: u32,
    /// How many launches there were.
    pub launches: usize,
    /// How long they took.
    pub time: Summary,
}

impl KernelUse {
    /// For how long it kept how many of so many processors, in seconds of one processor: a group that fits four times keeps a
    /// quarter of one.
    pub fn processor_seconds(&self, processors: usize) -> f64 {
        let kept = self.groups as f64 / f64::from(self.fit.max(1));
        kept.min(processors as f64) * self.time.total.as_secs_f64()
    }
}

/// What a [`Profiler`](super::Profiler) recorded, in order of time.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(super) device: String,
    pub(super) intervals: Vec<Interval>,
    pub(super) kernels: Vec<KernelInterval>,
    /// What each of these was for, where somebody said it; as many, or none at all.
    pub(super) labels: Vec<Option<Arc<str>>>,
    pub(super) host_spans: Vec<HostSpan>,
    pub(super) marks: Vec<Mark>,
    pub(super) dropped: u64,
}

impl Profile {
    pub(super) fn empty(device: &str) -> Profile {
        Profile {
            device: device.to_owned(),
            intervals: Vec::new(),
            kernels: Vec::new(),
            labels: Vec::new(),
            host_spans: Vec::new(),
            marks: Vec::new(),
            dropped: 0,
        }
    }

    /// Brings everything into order of time. Of ops that begin together, each stream's stay as they came; of spans, the longer
    /// comes first, so that nested ones follow what encloses them.
    pub(super) fn sort(&mut self) {
        self.intervals.sort_by_key(|i| (i.begin, i.queue, i.tick));
        self.kernels.sort_by_key(|kernel| kernel.interval.begin);
        self.host_spans.sort_by_key(|s| (s.begin, Reverse(s.end)));
        self.marks.sort_by_key(|m| m.time);
    }

    /// The name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The ops, by the time they began.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Says what each op was for, as far as `label` knows, which is asked for one after the other in the order of
    /// [`intervals`](Self::intervals).
    pub fn label(&mut self, label: impl FnMut(&Interval) -> Option<Arc<str>>) {
        self.labels = self.intervals.iter().map(label).collect();
    }

    /// The ops with what each was for, where that was said.
    pub fn labelled(&self) -> impl Iterator<Item = (&Interval, Option<&str>)> {
        let labels = self.labels.iter().map(Option::as_deref);
        self.intervals
            .iter()
            .zip(labels.chain(std::iter::repeat(None)))
    }

    /// The kernels of replays, by the time they began, where the device tells of them.
    pub fn kernels(&self) -> &[KernelInterval] {
        &self.kernels
    }

    /// What host threads did, by the time it began.
    pub fn host_spans(&self) -> &[HostSpan] {
        &self.host_spans
    }

    /// The marks, by time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// How many records did not fit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The time from the first begin to the last end of ops and host spans.
    pub fn duration(&self) -> Duration {
        let ops = self.intervals.iter().map(|i| (i.begin, i.end));
        let spans = self.host_spans.iter().map(|s| (s.begin, s.end));
        let bounds = ops
            .chain(spans)
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        bounds.map_or(Duration::ZERO, |(begin, end)| {
            end.saturating_duration_since(begin)
        })
    }

    /// A summary of each op that ran, the one that took most time first.
    pub fn per_op(&self) -> Vec<(OpKind, Summary)> {
        let mut summaries = self.summarise(self.intervals.iter().map(|op| (op.op, *op)));
        summaries.sort_by_key(|(op, summary)| (Reverse(summary.total), *op));
        summaries
    }

    /// A summary of each stream on which something ran, by its index.
    pub fn per_stream(&self) -> Vec<(u32, Summary)> {
        self.summarise(self.intervals.iter().map(|op| (op.queue, *op)))
    }

    /// Each kernel that ran in a replay, the one that took most time first.
    pub fn per_kernel(&self) -> Vec<KernelUse> {
        let keyed = |kernel: &KernelInterval| {
            let key = (kernel.name.clone(), kernel.groups, kernel.fit);
            ((key, kernel.launches), kernel.interval)
        };
        let summaries = self.summarise(self.kernels.iter().map(keyed));
        let used = |(((name, groups, fit), launches), time): (_, Summary)| KernelUse {
            name,
            groups,
            fit,
            launches: launches * time.count,
            time,
        };
        let mut kernels: Vec<KernelUse> = summaries.into_iter().map(used).collect();
        kernels.sort_by_key(|kernel| Reverse(kernel.time.total));
        kernels
    }

    fn summarise<K: Ord>(&self, all: impl Iterator<Item = (K, Interval)>) -> Vec<(K, Summary)> {
        let mut groups: BTreeMap<K, Vec<(Instant, Instant)>> = BTreeMap::new();
        for (key, Interval { begin, end, .. }) in all {
            groups.entry(key).or_default().push((begin, end));
        }
        let duration = self.duration();
        groups
            .into_iter()
            .filter_map(|(key, times)| Some((key, Summary::of(&times, duration)?)))
            .collect()
    }
}
