//! Ops of hostile numbers have plans that GPUs can launch, or none; and what is launched ends and touches nothing but what the
//! op writes.
//!
//! `HOSTILE_LAUNCHES` says of how many ops the kernels are executed, `HOSTILE_PLANS` how many are planned, `HOSTILE_SECONDS` for how
//! long, and `HOSTILE_FIRST` which is the first.

use std::time::Instant;

use streampool_conformance::hostile::{self, Cases};
use streampool_device::Op;
use streampool_emulated::Emulator;
use streampool_kernels::{
    Limits, lower, lower_to_simdgroups, product_of_many, small_product, tensor_core_product,
    warpgroup_conv, warpgroup_product,
};

#[test]
fn plans_of_hostile_numbers_fit() {
    let limits = [(132, 48 << 10, 480), (8, 32 << 10, 30)];
    let limits = limits.map(|(compute_units, shared_bytes, buffers)| Limits {
        compute_units,
        shared_bytes,
        buffers,
    });
    let cases = Cases::from_environment("HOSTILE_PLANS", 150_000);
    let (first, begun) = (cases.left().start, Instant::now());
    let (mut tried, mut plans, mut none) = (0u64, 0u64, 0u64);
    for case in cases {
        tried += 1;
        let Some(op) = hostile::op(case, 4096) else {
            continue;
        };
        if op.validate().is_err() {
            continue;
        }
        for limits in &limits {
            if let Op::MatMul(product) = &op {
                for lowering in [small_product, tensor_core_product, product_of_many] {
                    let plan = lowering(product, limits);
                    assert!(plan.is_none_or(|plan| plan.fits()), "case {case}: {op:?}");
                }
            }
            for many in [false, true] {
                let plan = match &op {
                    Op::MatMul(product) => warpgroup_product(product, limits, many),
                    Op::Conv(conv) => warpgroup_conv(conv, limits, many),
                    _ => None,
                };
                assert!(plan.is_none_or(|plan| plan.fits()), "case {case}: {op:?}");
            }
            let plan = lower_to_simdgroups(&op, limits);
            assert!(plan.is_none_or(|plan| plan.fits()), "case {case}: {op:?}");
            match lower(&op, limits) {
                Some(plan) => {
                    assert!(plan.fits(), "case {case}: {op:?}");
                    plans += 1;
                }
                None => none += 1,
            }
        }
    }
    println!(
        "plans: {tried} tried from {first} in {:?}: {plans} plans, {none} not there, 0 wrong",
        begun.elapsed()
    );
    assert!(
        tried < 10_000 || (plans > tried / 15 && none > tried / 1500),
        "{plans} and {none}"
    );
}

/// Groups whose threads a test may wait for.
const MOST_GROUPS: u64 = 1 << 10;
/// Ops whose kernels are compiled together.
const AT_ONCE: usize = 600;
/// Bytes of scratch memory, which is poisoned for each op.
const MOST_SCRATCH: usize = 16 << 20;

/// Numbers of all kinds: also as indices, a few of which are in range.
fn filled() -> Vec<u64> {
    let words = [1f32.to_bits(), (-0.5f32).to_bits(), 2, 0, 0, 0, 0];
    let words: Vec<u32> = words.into_iter().cycle().take(hostile::BYTES / 4).collect();
    let pairs = words.chunks_exact(2);
    pairs
        .map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32)
        .collect()
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "switches stacks behind the sanitizer's back"
)]
fn kernels_of_hostile_numbers_touch_only_their_results() {
    let mut cases = Cases::from_environment("HOSTILE_LAUNCHES", 600);
    let (first, begun) = (cases.left().start, Instant::now());
    let limits = Limits {
        compute_units: 8,
        shared_bytes: 32 << 10,
        buffers: 30,
    };
    let mut memory = filled();
    let handle = memory.as_mut_ptr() as u64;
    let is_launched = |op: &Op| {
        let Some(plan) = lower(op, &limits) else {
            return false;
        };
        let groups = plan.dispatches.iter().map(|dispatch| {
            let groups = dispatch.groups.iter();
            groups.map(|&count| u64::from(count)).product::<u64>()
        });
        groups.sum::<u64>() <= MOST_GROUPS && plan.scratch <= MOST_SCRATCH
    };
    let emulators: Vec<Emulator> = Emulator::of_each_dialect()
        .map(|emulator| emulator.with_limits(limits))
        .collect();
    let (mut tried, mut launched, mut wrong) = (0u64, vec![0u64; emulators.len()], Vec::new());
    while wrong.is_empty() && !emulators.is_empty() {
        // Kernels are compiled many at a time.
        let some: Vec<u64> = cases.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        tried += some.len() as u64;
        let ops = some
            .into_iter()
            .filter_map(|case| Some((case, hostile::op(case, handle)?)));
        let ops: Vec<(u64, Op)> = ops
            .filter(|(_, op)| op.validate().is_ok() && hostile::is_short(op) && is_launched(op))
            .collect();
        for (emulator, launched) in emulators.iter().zip(&mut launched) {
            let ops = ops.iter().filter(|(_, op)| !emulator.lacks(op));
            let prepared = emulator.prepare(ops.clone().map(|(_, op)| op));
            prepared.unwrap_or_else(|why| panic!("{why}"));
            for (case, op) in ops {
                memory.copy_from_slice(&filled());
                // SAFETY: the handles are the address of memory as long as the op says, which nobody else touches.
                match unsafe { emulator.execute(op) } {
                    Ok(()) => *launched += 1,
                    Err(why) => {
                        eprintln!("case {case}: {why}: {op:?}");
                        wrong.push(*case);
                    }
                }
            }
        }
    }
    println!(
        "launches: {tried} tried from {first} in {:?}: {launched:?} executed, of CUDA's text and of Metal's, {} wrong",
        begun.elapsed(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "cases {wrong:?}");
    let least = tried / 40;
    assert!(
        launched
            .iter()
            .all(|&launched| launched > least || tried < 100),
        "{launched:?}"
    );
}
