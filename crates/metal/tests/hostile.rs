//! Ops of hostile numbers on the Metal device: each is refused by the contract or by the device, or its kernels end, and touch
//! nothing but what the op writes. The imitation of Metal ends the process where they do.
//!
//! `HOSTILE_LAUNCHES` says how many ops are tried, `HOSTILE_SECONDS` for how long, and `HOSTILE_FIRST` which is the first.
#![cfg(metal_sim)]

mod common;

use std::time::{Duration, Instant};

use common::{Stage, device, queue};
use streampool_conformance::hostile::{self, Cases};
use streampool_device::{Device, Error, Op, Space};
use streampool_kernels::{Limits, lower};

/// Nothing here takes so long, compilers included, unless it does not end.
const FOREVER: Duration = Duration::from_secs(120);
/// Groups whose threads a test may wait for.
const MOST_GROUPS: u64 = 1 << 10;
/// Bytes of scratch memory that it may.
const MOST_SCRATCH: usize = 16 << 20;
/// Each kernel is compiled first, which a sanitizer makes slower still.
const USUAL: u64 = if cfg!(any(sanitize_address, sanitize_thread)) {
    30
} else {
    150
};

/// Numbers of all kinds: also as indices, a few of which are in range.
fn filled() -> Vec<u8> {
    let words = [1f32.to_bits(), (-0.5f32).to_bits(), 2, 0, 0, 0, 0];
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    bytes.cycle().take(hostile::BYTES).collect()
}

/// Whether it may be waited for: what a GPU began nobody stops.
fn is_short(op: &Op) -> bool {
    let limits = Limits {
        compute_units: 8,
        shared_bytes: 32 << 10,
        buffers: 30,
    };
    let Some(plan) = lower(op, &limits) else {
        return true;
    };
    let groups = plan.dispatches.iter().map(|dispatch| {
        let groups = dispatch.groups.iter();
        groups.map(|&count| u64::from(count)).product::<u64>()
    });
    hostile::is_short(op) && groups.sum::<u64>() <= MOST_GROUPS && plan.scratch <= MOST_SCRATCH
}

#[test]
fn ops_of_hostile_numbers_end_and_touch_only_their_results() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    let cases = Cases::from_environment("HOSTILE_LAUNCHES", USUAL);
    let (first, begun) = (cases.left().start, Instant::now());
    let memory = device.allocate(hostile::BYTES, Space::Staging).unwrap();
    let host = device.host_address(&memory).unwrap();
    let (mut queue, wanted) = (queue(&device, "hostile"), filled());
    let (mut tried, mut refused, mut lacking, mut done) = (0u64, 0u64, 0u64, 0u64);
    for case in cases {
        tried += 1;
        let Some(op) = hostile::op(case, memory.handle) else {
            refused += 1;
            continue;
        };
        match op.validate() {
            Ok(()) => {}
            Err(Error::InvalidOp { .. } | Error::Invalid { .. }) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("case {case}: {error}: {op:?}"),
        }
        if !is_short(&op) {
            continue;
        }
        // SAFETY: nothing is under way, and the memory is as long; it lives until all is over, and nobody else touches it.
        let encoded = unsafe {
            host.as_ptr()
                .copy_from_nonoverlapping(wanted.as_ptr(), wanted.len());
            queue.encode(&op)
        };
        let tick = match encoded {
            Ok(tick) => tick,
            Err(Error::Unsupported { .. } | Error::InvalidOp { .. }) => {
                lacking += 1;
                continue;
            }
            Err(error) => panic!("case {case}: {error}: {op:?}"),
        };
        let progress = queue.progress();
        queue.flush(streampool_device::Flush::ForWaiter).unwrap();
        let waited = progress.wait(tick, Some(Instant::now() + FOREVER));
        assert_eq!(waited, Ok(()), "case {case}: {op:?}");
        // SAFETY: the op is over.
        let got = unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), wanted.len()) };
        for (offset, bytes) in hostile::written(&op) {
            got[offset..offset + bytes].copy_from_slice(&wanted[offset..offset + bytes]);
        }
        assert!(
            got == wanted,
            "case {case} wrote beside its results: {op:?}"
        );
        done += 1;
    }
    println!(
        "launches: {tried} tried from {first} in {:?}: {refused} refused, {lacking} not there, {done} done, 0 wrong",
        begun.elapsed()
    );
    assert!(done > tried / 40 && refused > tried / 40, "{done}");
    drop(queue);
    // SAFETY: every op was waited for.
    unsafe { device.free(memory) };
}
