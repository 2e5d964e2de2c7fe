//! Profiles of concurrent work.
#![cfg(not(loom))]

mod common;

use std::collections::HashMap;
use std::sync::Barrier;
use std::time::Instant;

use common::*;
use streampool_runtime::OpKind;

const THREADS: usize = 4;
const ROUNDS: usize = 25;

#[test]
fn a_profile_of_concurrent_work_has_every_op_on_its_stream() {
    within(FOREVER, || {
        let pool = pool(&device(), 8);
        let recording = pool.profile(100_000).unwrap();
        let all_here = Barrier::new(THREADS);
        on_threads(THREADS, |_| {
            let stream = pool.current().unwrap();
            all_here.wait();
            let begin = Instant::now();
            let mut buffers = (filled(stream, 0.0), buffer(stream));
            for _ in 0..ROUNDS {
                add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
                copy(stream, &buffers.1, &mut buffers.0).unwrap();
            }
            stream.synchronize().unwrap();
            recording.host_span("work", begin);
        });
        recording.mark("half-time");
        let profile = recording.finish().unwrap();

        let mut counts: HashMap<(u32, OpKind), usize> = HashMap::new();
        for interval in profile.intervals() {
            assert!(interval.begin <= interval.end);
            *counts.entry((interval.queue, interval.op)).or_default() += 1;
        }
        let expected = (1..=THREADS as u32).flat_map(|stream| {
            [
                (OpKind::Fill, 1),
                (OpKind::Map, ROUNDS),
                (OpKind::Copy, ROUNDS),
            ]
            .map(|(op, count)| ((stream, op), count))
        });
        assert_eq!(counts, expected.collect());
        for stream in 1..=THREADS as u32 {
            let ops = profile.intervals().iter();
            let ops: Vec<_> = ops.filter(|op| op.queue == stream).collect();
            let in_order = |pair: &[&streampool_device::Interval]| {
                pair[0].tick < pair[1].tick && pair[0].end <= pair[1].begin
            };
            assert!(ops.windows(2).all(in_order), "a stream is in order");
        }
        assert_eq!(profile.dropped(), 0);

        let mut text = Vec::new();
        profile.write_chrome_trace(&mut text).unwrap();
        let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of_phase = |phase: &str| events.iter().filter(|e| e["ph"] == phase).count();
        assert_eq!(of_phase("X"), THREADS * (2 * ROUNDS + 1) + THREADS);
        let streams: Vec<_> = events
            .iter()
            .filter(|e| e["name"] == "thread_name")
            .filter_map(|e| e["args"]["name"].as_str())
            .filter(|name| name.starts_with("stream "))
            .collect();
        assert_eq!(streams, ["stream 1", "stream 2", "stream 3", "stream 4"]);
        let ops = events
            .iter()
            .filter(|e| e["cat"] == "op" && e["name"] == "map");
        assert_eq!(ops.count(), THREADS * ROUNDS);
        assert!(events.iter().any(|e| e["name"] == "half-time"));
    });
}

#[test]
fn what_comes_after_a_recording_is_not_in_it() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let first = pool.profile(10).unwrap();
    let mut buffer = filled(stream, 1.0);
    assert_eq!(first.finish().unwrap().intervals().len(), 1);
    fill(stream, &mut buffer, 2.0).unwrap();
    stream.synchronize().unwrap();
    let second = pool.profile(10).unwrap();
    drop(pool.profile(10).unwrap());
    assert_eq!(second.finish().unwrap().intervals().len(), 0);
}

#[test]
fn a_full_recording_counts_what_it_left_out() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let recording = pool.profile(3).unwrap();
    let mut buffer = buffer(stream);
    for value in 0..10 {
        fill(stream, &mut buffer, value as f32).unwrap();
    }
    let profile = recording.finish().unwrap();
    assert_eq!((profile.intervals().len(), profile.dropped()), (3, 7));
}
