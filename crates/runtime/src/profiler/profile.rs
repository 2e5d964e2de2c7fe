//! What a profiler recorded.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{Interval, OpKind};

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

/// What a [`Profiler`](super::Profiler) recorded, in order of time.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(super) device: String,
    pub(super) intervals: Vec<Interval>,
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
            labels: Vec::new(),
            host_spans: Vec::new(),
            marks: Vec::new(),
            dropped: 0,
        }
    }

    /// Brings everything into order of time; of what begins together, the longer comes first, so that
    /// nested spans follow what encloses them.
    pub(super) fn sort(&mut self) {
        self.intervals
            .sort_by_key(|i| (i.begin, i.queue, i.tick, Reverse(i.end)));
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
        let mut summaries = self.summarise(|interval| interval.op);
        summaries.sort_by_key(|(op, summary)| (Reverse(summary.total), *op));
        summaries
    }

    /// A summary of each stream on which something ran, by its index.
    pub fn per_stream(&self) -> Vec<(u32, Summary)> {
        self.summarise(|interval| interval.queue)
    }

    fn summarise<K: Ord>(&self, key: impl Fn(&Interval) -> K) -> Vec<(K, Summary)> {
        let mut groups: BTreeMap<K, Vec<(Instant, Instant)>> = BTreeMap::new();
        for interval in &self.intervals {
            let times = (interval.begin, interval.end);
            groups.entry(key(interval)).or_default().push(times);
        }
        let duration = self.duration();
        groups
            .into_iter()
            .filter_map(|(key, times)| Some((key, Summary::of(&times, duration)?)))
            .collect()
    }
}
