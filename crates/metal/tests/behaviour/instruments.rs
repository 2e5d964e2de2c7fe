//! What profiles, Instruments and captures get to see.

use std::collections::HashMap;
use std::time::Instant;

use streampool_runtime::OpKind;

use crate::common::{Stage, device};
use crate::work::*;
use crate::{PATIENCE, pool};

const THREADS: usize = 8;

#[test]
fn a_profile_has_every_op_on_its_stream_in_order_and_in_time() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    let turns = rounds(25);
    within(PATIENCE, || {
        let pool = pool(&device, 16);
        let begun = Instant::now();
        let recording = pool.profile(100_000).unwrap();
        on_threads(THREADS, |_| {
            let stream = pool.current().unwrap();
            let mut buffers = (filled(stream, 0.0), buffer(stream));
            for _ in 0..turns {
                add(stream, &buffers.0, &mut buffers.1, 1.0).unwrap();
                copy(stream, &buffers.1, &mut buffers.0).unwrap();
            }
            stream.synchronize().unwrap();
        });
        let profile = recording.finish().unwrap();
        let over = Instant::now();
        let mut counts: HashMap<OpKind, usize> = HashMap::new();
        for interval in profile.intervals() {
            assert!(begun <= interval.begin && interval.begin <= interval.end);
            assert!(interval.end <= over, "on the host's clock it is over");
            *counts.entry(interval.op).or_default() += 1;
        }
        let expected = [
            (OpKind::Fill, THREADS),
            (OpKind::Map, THREADS * turns),
            (OpKind::Copy, THREADS * turns),
        ];
        assert_eq!(counts, expected.into_iter().collect());
        for stream in profile.per_stream() {
            let ops = profile.intervals().iter();
            let ops: Vec<_> = ops.filter(|op| op.queue == stream.0).collect();
            let in_order = |pair: &[&streampool_device::Interval]| {
                pair[0].tick < pair[1].tick && pair[0].end <= pair[1].begin
            };
            assert!(ops.windows(2).all(in_order), "a stream is in order");
        }
    });
}

#[cfg(metal_sim)]
#[test]
fn each_buffer_on_the_gpu_is_an_interval_with_both_ends() {
    use streampool_metal_sim::{Mark, signposts};

    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for value in 0..10 {
            let buffer = filled(stream, value as f32);
            assert_eq!(value_of(stream, &buffer), Ok(value as f32));
        }
        device.capture_scope(|| stream.synchronize().unwrap());
    });
    let of = |category: &str, mark: Mark| -> Vec<u64> {
        let all = signposts().into_iter();
        let mine = all.filter(|signpost| signpost.category == category && signpost.mark == mark);
        mine.map(|signpost| signpost.id).collect()
    };
    let (begun, mut ended) = (of("metal", Mark::Begin), of("metal", Mark::End));
    ended.sort_unstable();
    assert!(begun.len() >= 10, "{begun:?}");
    assert_eq!(begun, ended);
    assert_eq!(of("capture", Mark::Begin).len(), 1);
    assert_eq!(of("capture", Mark::End).len(), 1);
}
