//! Random ops on the host and on the emulator: the same results.

#[path = "../../cuda/tests/behaviour/against_host/case.rs"]
#[allow(dead_code, reason = "shared with the tests of the CUDA device")]
mod case;
#[path = "../../cuda/tests/behaviour/against_host/random.rs"]
mod random;

use std::ops::Range;

use case::Case;
use streampool_device::{Access, Op};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host, prepare};
use streampool_kernels::Limits;

fn tensors(case: &Case) -> Op<Tensor> {
    let (mut reads, mut writes) = (case.reads.iter(), case.writes.iter());
    let op = case.op.try_map(|_, access, plan| {
        let bytes = match access {
            Access::Read => reads.next(),
            Access::Write => writes.next(),
        };
        let bytes = bytes.ok_or("bytes for each operand")?;
        Ok::<_, &str>(Tensor::of_bytes(plan.dtype, plan.layout, bytes.clone()))
    });
    op.expect("bytes for each operand")
}

/// Executes each case as on a GPU of this size.
fn compare(limits: Limits, seeds: Range<u64>) {
    let Some(emulator) = Emulator::or_skip() else {
        return;
    };
    let emulator = emulator.with_limits(limits);
    let ops: Vec<_> = seeds.map(|seed| tensors(&Case::random(seed))).collect();
    prepare(&emulator, &ops).unwrap_or_else(|why| panic!("{why}"));
    for op in &ops {
        assert_same_as_host(&emulator, op, Tolerance::Usual);
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn random_ops_come_to_the_same_as_if_on_a_small_gpu() {
    let limits = Limits {
        compute_units: 8,
        shared_bytes: 32 << 10,
        buffers: 480,
    };
    compare(limits, 0..400);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn random_ops_come_to_the_same_as_if_on_a_large_gpu() {
    let limits = Limits {
        compute_units: 132,
        shared_bytes: 48 << 10,
        buffers: 480,
    };
    compare(limits, 400..800);
}
