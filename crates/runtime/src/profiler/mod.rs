//! Collects what ran when, from any number of threads.
//!
//! A [`Profiler`] is given to the device, and records until [`Profiler::finish`] turns what it holds into a
//! [`Profile`]. Records go to one of 64 shards, by stream or by thread, so that recording threads seldom
//! meet; one counter, shared by all, keeps the total within the capacity.

#![forbid(unsafe_code)]

mod chrome;
mod profile;
mod summary;

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use streampool_device::lock::Mutex;
use streampool_device::{Interval, KernelInterval, Trace};

use crate::ranks;

pub use profile::{HostSpan, KernelUse, Mark, Profile};
pub use summary::Summary;

const SHARDS: usize = 64;

/// Records are kept in pieces of this many, so that a growing shard never moves what it holds.
const PIECE: usize = 512;

/// Records what runs on streams and on host threads. All methods may be called from any thread.
#[derive(Debug)]
pub struct Profiler {
    capacity: u64,
    offered: AtomicU64,
    shards: [Shard; SHARDS],
}

/// On cache lines of its own: neighbours are locked by other threads.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    pieces: Vec<Vec<Record>>,
    threads: HashSet<Arc<str>>,
    closed: bool,
}

#[derive(Debug)]
enum Record {
    Op(Interval),
    Kernel(KernelInterval),
    Host(HostSpan),
    Mark(Mark),
}

impl Records {
    fn push(&mut self, record: Record) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(record),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(record);
                self.pieces.push(piece);
            }
        }
    }

    /// The one copy of this thread's label.
    fn thread(&mut self, label: &str) -> Arc<str> {
        if let Some(known) = self.threads.get(label) {
            return Arc::clone(known);
        }
        let new: Arc<str> = label.into();
        self.threads.insert(Arc::clone(&new));
        new
    }
}

impl Profiler {
    /// A profiler that keeps the first `capacity` records and counts the others.
    pub fn new(capacity: usize) -> Arc<Profiler> {
        Arc::new(Profiler {
            capacity: capacity as u64,
            offered: AtomicU64::new(0),
            shards: std::array::from_fn(|_| Shard(Mutex::new(ranks::PROFILER, Records::default()))),
        })
    }

    /// Records what the host thread called `thread` did between two times, such as `encode`, `synchronise`
    /// or the slow path of an allocation.
    pub fn host_span(&self, thread: &str, name: &'static str, begin: Instant, end: Instant) {
        self.record(shard_of(thread), |records| {
            Record::Host(HostSpan {
                thread: records.thread(thread),
                name,
                begin,
                end,
            })
        });
    }

    /// Records that something happened now.
    pub fn mark(&self, name: impl Into<Cow<'static, str>>) {
        let name = name.into();
        let time = Instant::now();
        self.record(shard_of(&name), |_| Record::Mark(Mark { name, time }));
    }

    /// Ends the recording and returns what there is. Detach the profiler from the device before: what
    /// arrives later is not kept, and a second call returns a profile without records.
    pub fn finish(&self, device_name: &str) -> Profile {
        let mut profile = Profile::empty(device_name);
        for Shard(shard) in &self.shards {
            let pieces = {
                let mut records = shard.lock();
                records.closed = true;
                records.threads = HashSet::new();
                std::mem::take(&mut records.pieces)
            };
            for record in pieces.into_iter().flatten() {
                match record {
                    Record::Op(interval) => profile.intervals.push(interval),
                    Record::Kernel(kernel) => profile.kernels.push(kernel),
                    Record::Host(span) => profile.host_spans.push(span),
                    Record::Mark(mark) => profile.marks.push(mark),
                }
            }
        }
        let offered = self.offered.load(Ordering::Relaxed);
        profile.dropped = offered.saturating_sub(self.capacity);
        profile.sort();
        profile
    }

    fn record(&self, shard: usize, make: impl FnOnce(&mut Records) -> Record) {
        if self.offered.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            return;
        }
        let mut records = self.shards[shard % SHARDS].0.lock();
        if !records.closed {
            let record = make(&mut records);
            records.push(record);
        }
    }
}

impl Trace for Profiler {
    fn op(&self, interval: Interval) {
        self.record(interval.queue as usize, |_| Record::Op(interval));
    }

    fn kernel(&self, kernel: KernelInterval) {
        self.record(kernel.interval.queue as usize, |_| Record::Kernel(kernel));
    }
}

fn shard_of(label: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    label.hash(&mut hasher);
    // Only the low bits count.
    hasher.finish() as usize
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use streampool_device::OpKind;

    use super::*;

    fn interval(queue: u32, tick: u64, time: Instant) -> Interval {
        Interval {
            queue,
            tick,
            op: OpKind::Map,
            begin: time,
            end: time + Duration::from_micros(1),
        }
    }

    /// 16 threads record 3 × `each` times: ops on a stream of their own, ops on one stream, spans.
    fn record_from_16_threads(profiler: &Profiler, each: u64) {
        let now = Instant::now();
        thread::scope(|scope| {
            for index in 0..16u32 {
                scope.spawn(move || {
                    for tick in 1..=each {
                        let first = u64::from(index) * each;
                        profiler.op(interval(100 + index, tick, now));
                        profiler.op(interval(7, first + tick, now));
                        profiler.host_span(&format!("worker {index}"), "encode", now, now);
                    }
                });
            }
        });
    }

    #[test]
    fn recording_from_16_threads_loses_nothing() {
        const EACH: u64 = 2000;
        let profiler = Profiler::new(16 * 3 * EACH as usize);
        record_from_16_threads(&profiler, EACH);
        let profile = profiler.finish("host");

        assert_eq!(profile.dropped(), 0);
        for queue in 100..116 {
            let ticks = profile.intervals().iter().filter(|i| i.queue == queue);
            let ticks: Vec<_> = ticks.map(|i| i.tick).collect();
            assert_eq!(ticks, (1..=EACH).collect::<Vec<_>>(), "queue {queue}");
        }
        let shared = profile.intervals().iter().filter(|i| i.queue == 7);
        let shared: Vec<_> = shared.map(|i| i.tick).collect();
        assert_eq!(shared, (1..=16 * EACH).collect::<Vec<_>>());
        for index in 0..16 {
            let label = format!("worker {index}");
            let spans = profile.host_spans().iter();
            let count = spans.filter(|span| *span.thread == *label).count();
            assert_eq!(count as u64, EACH, "{label}");
        }
    }

    #[test]
    fn beyond_the_capacity_every_record_is_counted_as_dropped() {
        for capacity in [0, 1, 1000, 4799, 4800, 4801] {
            let profiler = Profiler::new(capacity);
            record_from_16_threads(&profiler, 100);
            let profile = profiler.finish("host");
            let kept = profile.intervals().len() + profile.host_spans().len();
            assert_eq!(kept, capacity.min(4800));
            assert_eq!(profile.dropped(), 4800 - kept as u64);
        }
    }

    #[test]
    fn after_the_end_nothing_is_kept() {
        let profiler = Profiler::new(10);
        let now = Instant::now();
        profiler.op(interval(1, 1, now));
        profiler.mark("half-time");
        let profile = profiler.finish("host");
        assert_eq!(profile.intervals(), [interval(1, 1, now)]);
        assert_eq!(profile.marks()[0].name, "half-time");

        profiler.op(interval(1, 2, now));
        profiler.host_span("main", "encode", now, now);
        let second = profiler.finish("host");
        assert!(second.intervals().is_empty() && second.host_spans().is_empty());
        assert_eq!(second.dropped(), 0);
    }
}
