//! Profiles of concurrent work.

use std::collections::HashMap;
use std::sync::Barrier;
use std::time::Instant;

use streampool_device::Device;
use streampool_runtime::OpKind;

use super::*;
use crate::CLOCK_SLACK;

const THREADS: usize = 8;
const ROUNDS: usize = rounds(25);

#[test]
fn a_profile_has_every_op_on_its_stream_in_order_and_in_time() {
    with_device(|device| {
        let pool = pool(&device, 16);
        let begun = Instant::now();
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
        let over = Instant::now();

        let mut counts: HashMap<(u32, OpKind), usize> = HashMap::new();
        for interval in profile.intervals() {
            assert!(begun <= interval.begin && interval.begin <= interval.end);
            assert!(
                interval.end <= over + CLOCK_SLACK,
                "on the host's clock it is over"
            );
            *counts.entry((interval.queue, interval.op)).or_default() += 1;
        }
        let of_each = [
            (OpKind::Fill, 1),
            (OpKind::Map, ROUNDS),
            (OpKind::Copy, ROUNDS),
        ];
        let streams = 1..=THREADS as u32;
        let expected = streams.flat_map(|queue| of_each.map(|(op, count)| ((queue, op), count)));
        assert_eq!(counts, expected.collect());
        for stream in profile.per_stream() {
            let ops = profile.intervals().iter();
            let ops: Vec<_> = ops.filter(|op| op.queue == stream.0).collect();
            let in_order = |pair: &[&streampool_device::Interval]| {
                pair[0].tick < pair[1].tick && pair[0].end <= pair[1].begin
            };
            assert!(ops.windows(2).all(in_order), "a stream is in order");
        }
        assert_eq!(profile.dropped(), 0);

        let mut text = Vec::new();
        profile.write_chrome_trace(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let has = |what: &str| text.matches(what).count();
        assert_eq!(has("\"ph\":\"X\""), THREADS * (2 * ROUNDS + 1) + THREADS);
        assert_eq!(has("\"half-time\""), 1);
    });
}

#[test]
fn what_comes_after_a_recording_is_not_in_it() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let first = pool.profile(10).unwrap();
        let mut buffer = filled(stream, 1.0);
        assert_eq!(first.finish().unwrap().intervals().len(), 1);
        fill(stream, &mut buffer, 2.0).unwrap();
        stream.synchronize().unwrap();
        let second = pool.profile(10).unwrap();
        assert_eq!(second.finish().unwrap().intervals().len(), 0);
    });
}

#[test]
fn a_snapshot_tells_of_the_device_and_its_caches() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let one = filled(stream, 1.0);
        let mut sum = buffer(stream);
        add(stream, &one, &mut sum, 1.0).unwrap();
        stream.synchronize().unwrap();
        let snapshot = pool.snapshot().unwrap();
        assert_eq!(snapshot.device, device.properties().name);
        let made = &snapshot.made[0];
        assert_eq!((made.completed, made.ops), (made.encoded, 2));
        let kernels: usize = snapshot.caches.iter().map(|cache| cache.entries).sum();
        assert!(kernels > 0, "{:?}", snapshot.caches);
        for cache in &snapshot.caches {
            assert_eq!(cache.problem, None, "{cache:?}");
        }
        assert!(snapshot.memory.reserved >= snapshot.memory.in_use);
    });
}

#[test]
fn a_full_recording_counts_what_it_left_out() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let recording = pool.profile(3).unwrap();
        let mut buffer = buffer(stream);
        for value in 0..10 {
            fill(stream, &mut buffer, value as f32).unwrap();
        }
        let profile = recording.finish().unwrap();
        assert_eq!((profile.intervals().len(), profile.dropped()), (3, 7));
    });
}
