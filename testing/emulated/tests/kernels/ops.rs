//! Random ops on the host and on the emulator: the same results.

use std::ops::Range;

use streampool_conformance::cases::Case;
use streampool_device::Op;
use streampool_emulated::{Emulator, Tensor, Written, emulate, is_lacking, on_host, prepare};
use streampool_kernels::Limits;

fn tensors(case: &Case) -> Op<Tensor> {
    let operands = case.operands();
    let operands: Vec<Tensor> = operands
        .map(|(dtype, layout, bytes)| Tensor::of_bytes(dtype, layout, bytes.to_vec()))
        .collect();
    let op = case
        .op()
        .try_map(|_, _, &index| operands.get(index).cloned().ok_or(index));
    op.expect("an op names its operands")
}

/// Executes each case as on a GPU of this size.
fn compare(limits: Limits, numbers: Range<u64>) {
    let cases: Vec<Case> = numbers.map(Case::random).collect();
    let ops: Vec<_> = cases.iter().map(tensors).collect();
    for emulator in Emulator::of_each_dialect() {
        compare_on(&emulator.with_limits(limits), &cases, &ops);
    }
}

fn compare_on(emulator: &Emulator, cases: &[Case], ops: &[Op<Tensor>]) {
    prepare(emulator, ops).unwrap_or_else(|why| panic!("{why}"));
    for (case, op) in cases.iter().zip(ops) {
        if is_lacking(emulator, op) {
            continue;
        }
        let elements = |written: Result<Vec<Written>, String>| -> Vec<Vec<u8>> {
            let written = written.unwrap_or_else(|why| panic!("{why}\n{case:?}"));
            written.into_iter().map(|written| written.bytes).collect()
        };
        let (host, emulated) = (elements(on_host(op)), elements(emulate(emulator, op)));
        case.compare(&host, &emulated).unwrap_or_else(|why| {
            panic!(
                "the host and the emulator of {:?}: {why}",
                emulator.dialect()
            )
        });
    }
}

#[test]
fn random_ops_come_to_the_same_as_if_on_a_small_gpu() {
    let limits = Limits {
        compute_units: 8,
        shared_bytes: 32 << 10,
        buffers: 480,
    };
    compare(limits, 0..16 * Case::KINDS);
}

#[test]
fn random_ops_come_to_the_same_as_if_on_a_large_gpu() {
    let limits = Limits {
        compute_units: 132,
        shared_bytes: 48 << 10,
        buffers: 480,
    };
    compare(limits, 16 * Case::KINDS..32 * Case::KINDS);
}
