//! The trace event format of Chrome and Perfetto, written event by event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{HostSpan, Mark, Profile};
use streampool_device::{Interval, KernelInterval};

const PROCESS: u32 = 1;

/// The thread that marks are shown on. Streams and then host threads follow.
const MARKS: u32 = 1;

impl Profile {
    /// Writes the profile in Chrome's trace event format, which Perfetto reads too: the device is the
    /// process; streams and host threads are its threads.
    pub fn write_chrome_trace(&self, to: impl Write) -> io::Result<()> {
        let mut to = BufWriter::new(to);
        serde_json::to_writer(&mut to, &Trace(self))?;
        to.flush()
    }
}

/// The whole file.
struct Trace<'a>(&'a Profile);

impl Serialize for Trace<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Trace(profile) = self;
        let about = json!({"device": profile.device, "dropped": profile.dropped});
        let mut file = to.serialize_struct("Trace", 3)?;
        file.serialize_field("displayTimeUnit", "ns")?;
        file.serialize_field("otherData", &about)?;
        file.serialize_field("traceEvents", &Events(profile))?;
        file.end()
    }
}

/// An event that describes the process or one of its threads.
fn about(name: &str, tid: u32, args: Value) -> Value {
    json!({"name": name, "ph": "M", "pid": PROCESS, "tid": tid, "args": args})
}

/// One record, whichever its kind.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Op(&'a Interval, Option<&'a str>),
    Kernel(&'a KernelInterval),
    Host(&'a HostSpan),
    Mark(&'a Mark),
}

impl Entry<'_> {
    fn begin(self) -> Instant {
        match self {
            Entry::Op(interval, _) => interval.begin,
            Entry::Kernel(kernel) => kernel.interval.begin,
            Entry::Host(span) => span.begin,
            Entry::Mark(mark) => mark.time,
        }
    }

    fn end(self) -> Instant {
        match self {
            Entry::Op(interval, _) => interval.end,
            Entry::Kernel(kernel) => kernel.interval.end,
            Entry::Host(span) => span.end,
            Entry::Mark(mark) => mark.time,
        }
    }

    fn event(self, start: Instant, threads: &Threads<'_>) -> Value {
        let ts = microseconds(start, self.begin());
        let dur = microseconds(self.begin(), self.end());
        match self {
            Entry::Op(op, label) => {
                let mut args = json!({"tick": op.tick});
                if let Some(label) = label {
                    args["for"] = label.into();
                }
                let tid = threads.streams.get(&op.queue);
                json!({"name": op.op.name(), "cat": "op", "ph": "X", "ts": ts, "dur": dur, "pid": PROCESS, "tid": tid,
                       "args": args})
            }
            Entry::Kernel(kernel) => {
                let tid = threads.streams.get(&kernel.interval.queue);
                let args = json!({"blocks": kernel.groups, "blocks at once": kernel.fit});
                json!({"name": &*kernel.name, "cat": "kernel", "ph": "X", "ts": ts, "dur": dur, "pid": PROCESS, "tid": tid,
                       "args": args})
            }
            Entry::Host(span) => {
                let tid = threads.hosts.get(&*span.thread);
                json!({"name": span.name, "cat": "host", "ph": "X", "ts": ts, "dur": dur, "pid": PROCESS, "tid": tid})
            }
            Entry::Mark(mark) => {
                json!({"name": &*mark.name, "cat": "mark", "ph": "i", "ts": ts, "pid": PROCESS, "tid": MARKS, "s": "p"})
            }
        }
    }
}

fn microseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_nanos() as f64 / 1e3
}

/// The number of each stream and host thread.
struct Threads<'a> {
    streams: BTreeMap<u32, u32>,
    hosts: BTreeMap<&'a str, u32>,
}

impl<'a> Threads<'a> {
    fn of(profile: &'a Profile) -> Self {
        let streams: BTreeSet<u32> = profile.intervals.iter().map(|i| i.queue).collect();
        let hosts: BTreeSet<&str> = profile.host_spans.iter().map(|s| &*s.thread).collect();
        let mut numbers = MARKS + 1..;
        Threads {
            streams: streams.into_iter().zip(numbers.by_ref()).collect(),
            hosts: hosts.into_iter().zip(numbers).collect(),
        }
    }

    /// Each with its name.
    fn named(&self) -> impl Iterator<Item = (u32, String)> {
        let streams = self.streams.iter();
        let hosts = self.hosts.iter();
        streams
            .map(|(queue, &tid)| (tid, format!("stream {queue}")))
            .chain(hosts.map(|(label, &tid)| (tid, (*label).to_owned())))
    }
}

/// The event list: who there is, then what happened in order of time.
struct Events<'a>(&'a Profile);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Events(profile) = self;
        let threads = Threads::of(profile);
        let mut list = to.serialize_seq(None)?;
        let mut about =
            |name, tid, args: Value| list.serialize_element(&self::about(name, tid, args));

        about("process_name", MARKS, json!({"name": profile.device}))?;
        if profile.dropped > 0 {
            let labels = format!("{} records dropped", profile.dropped);
            about("process_labels", MARKS, json!({"labels": labels}))?;
        }
        if !profile.marks.is_empty() {
            about("thread_name", MARKS, json!({"name": "marks"}))?;
        }
        for (tid, name) in threads.named() {
            about("thread_name", tid, json!({"name": name}))?;
            about("thread_sort_index", tid, json!({"sort_index": tid}))?;
        }

        let ops = profile.labelled().map(|(op, label)| Entry::Op(op, label));
        let kernels = profile.kernels.iter().map(Entry::Kernel);
        let spans = profile.host_spans.iter().map(Entry::Host);
        let marks = profile.marks.iter().map(Entry::Mark);
        let mut entries: Vec<Entry<'_>> = ops.chain(kernels).chain(spans).chain(marks).collect();
        entries.sort_by_key(|entry| (entry.begin(), Reverse(entry.end())));
        if let Some(start) = entries.first().map(|entry| entry.begin()) {
            for entry in entries {
                list.serialize_element(&entry.event(start, &threads))?;
            }
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use streampool_device::{OpKind, Trace as _};

    use super::super::Profiler;
    use super::*;

    const AWKWARD: &str = "wörker \"7\"\n\\ 線\u{1}";

    fn ns(count: u64) -> Duration {
        Duration::from_nanos(count)
    }

    fn written(profile: &Profile) -> Value {
        let mut bytes = Vec::new();
        profile.write_chrome_trace(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn of_phase<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
        let events = trace["traceEvents"].as_array().unwrap();
        events.iter().filter(|e| e["ph"] == phase).collect()
    }

    /// An op in the middle of a host span, an earlier op of another stream, a mark at the end.
    fn sample(capacity: usize) -> Profile {
        let start = Instant::now();
        let profiler = Profiler::new(capacity);
        for (queue, tick, op, begin, end) in [
            (12, 41, OpKind::MatMul, 3_500, 9_750),
            (3, 7, OpKind::Softmax, 1_000, 2_001),
        ] {
            profiler.op(Interval {
                queue,
                tick,
                op,
                begin: start + ns(begin),
                end: start + ns(end),
            });
        }
        profiler.host_span(AWKWARD, "encode", start + ns(3_500), start + ns(3_600));
        profiler.host_span(
            AWKWARD,
            "synchronise",
            start + ns(3_500),
            start + ns(20_000),
        );
        // Marks take the time from the clock: let it pass what was recorded.
        std::thread::sleep(ns(21_000));
        profiler.mark("request \"ünïcode\" \\ done");
        profiler.mark("the end");
        profiler.finish("host \"0\"")
    }

    #[test]
    fn streams_threads_and_the_device_have_names() {
        let trace = written(&sample(100));
        let names: Vec<_> = of_phase(&trace, "M")
            .into_iter()
            .filter(|e| e["name"] != "thread_sort_index")
            .map(|e| (e["name"].clone(), e["tid"].clone(), e["args"].clone()))
            .collect();
        assert_eq!(
            names,
            [
                (
                    json!("process_name"),
                    json!(1),
                    json!({"name": "host \"0\""})
                ),
                (json!("thread_name"), json!(1), json!({"name": "marks"})),
                (json!("thread_name"), json!(2), json!({"name": "stream 3"})),
                (json!("thread_name"), json!(3), json!({"name": "stream 12"})),
                (json!("thread_name"), json!(4), json!({"name": AWKWARD})),
            ]
        );
        for event in trace["traceEvents"].as_array().unwrap() {
            assert_eq!(event["pid"], 1);
        }
    }

    #[test]
    fn complete_events_are_in_order_with_times_in_microseconds() {
        let trace = written(&sample(100));
        let events: Vec<_> = of_phase(&trace, "X").into_iter().cloned().collect();
        let expected = json!([
            {"name": "softmax", "cat": "op", "ph": "X", "ts": 0.0, "dur": 1.001, "pid": 1, "tid": 2,
             "args": {"tick": 7}},
            {"name": "synchronise", "cat": "host", "ph": "X", "ts": 2.5, "dur": 16.5, "pid": 1, "tid": 4},
            {"name": "matmul", "cat": "op", "ph": "X", "ts": 2.5, "dur": 6.25, "pid": 1, "tid": 3,
             "args": {"tick": 41}},
            {"name": "encode", "cat": "host", "ph": "X", "ts": 2.5, "dur": 0.1, "pid": 1, "tid": 4},
        ]);
        assert_eq!(Value::Array(events), expected);
    }

    #[test]
    fn what_an_op_is_for_stands_beside_it() {
        let mut profile = sample(100);
        profile.label(|op| (op.tick == 41).then(|| "layer 3".into()));
        let labels: Vec<_> = profile.labelled().map(|(_, label)| label).collect();
        assert_eq!(labels, [None, Some("layer 3")]);
        let trace = written(&profile);
        let args: Vec<_> = of_phase(&trace, "X")
            .into_iter()
            .map(|e| &e["args"])
            .collect();
        assert!(args.contains(&&json!({"tick": 41, "for": "layer 3"})));
        assert!(args.contains(&&json!({"tick": 7})));
    }

    #[test]
    fn marks_are_instants_of_the_process() {
        let trace = written(&sample(100));
        let marks = of_phase(&trace, "i");
        assert_eq!(marks.len(), 2);
        assert_eq!(marks[0]["name"], "request \"ünïcode\" \\ done");
        assert_eq!(marks[1]["name"], "the end");
        assert!(marks[0]["ts"].as_f64().unwrap() <= marks[1]["ts"].as_f64().unwrap());
        assert_eq!((&marks[0]["s"], &marks[0]["tid"]), (&json!("p"), &json!(1)));
        assert_eq!(marks[0].get("dur"), None);
    }

    #[test]
    fn what_was_dropped_is_told() {
        let complete = written(&sample(100));
        assert_eq!(
            complete["otherData"],
            json!({"device": "host \"0\"", "dropped": 0})
        );

        let cut = written(&sample(4));
        assert_eq!(cut["otherData"]["dropped"], 2);
        let labels: Vec<_> = of_phase(&cut, "M")
            .into_iter()
            .filter(|e| e["name"] == "process_labels")
            .collect();
        assert_eq!(labels[0]["args"]["labels"], "2 records dropped");
        assert!(of_phase(&cut, "i").is_empty());
    }

    #[test]
    fn nothing_recorded_is_a_valid_trace() {
        let trace = written(&Profiler::new(0).finish("host"));
        assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_writer_that_fails_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = sample(100).write_chrome_trace(Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
