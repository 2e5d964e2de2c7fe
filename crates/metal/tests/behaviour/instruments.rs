//! What Instruments and captures get to see.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use streampool_metal_sim::{Mark, signposts};

use crate::common::{Stage, device};
use crate::gpu::*;

/// The signposts of a kind, by their numbers.
fn of(category: &str, mark: Mark) -> Vec<u64> {
    let all = signposts().into_iter();
    let mine = all.filter(|signpost| signpost.category == category && signpost.mark == mark);
    mine.map(|signpost| signpost.id).collect()
}

#[test]
fn each_buffer_on_the_gpu_is_an_interval_with_both_ends() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for value in 0..10 {
            let buffer = filled(stream, value as f32);
            assert_eq!(value_of(stream, &buffer), Ok(value as f32));
        }
        device.capture_scope(|| stream.synchronize().unwrap());
    });
    let (begun, mut ended) = (of("metal", Mark::Begin), of("metal", Mark::End));
    ended.sort_unstable();
    assert!(begun.len() >= 10, "{begun:?}");
    assert_eq!(begun, ended);
    assert_eq!(of("capture", Mark::Begin).len(), 1);
    assert_eq!(of("capture", Mark::End).len(), 1);
}

#[test]
fn frames_that_overlap_nest_or_panic_are_ended_once() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        device.capture_scope(|| device.capture_scope(|| ()));
        let work = || device.capture_scope(|| panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert_eq!(of("capture", Mark::Begin).len(), 2);
        on_threads(4, |_| {
            for _ in 0..rounds(200) {
                device.capture_scope(thread::yield_now);
            }
        });
        device.capture_scope(|| ());
    });
    let (begun, ended) = (of("capture", Mark::Begin), of("capture", Mark::End));
    assert_eq!(begun.len(), ended.len());
}
