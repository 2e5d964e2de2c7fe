//! Ops of hostile numbers have plans that GPUs can launch, or none.

use streampool_conformance::hostile;
use streampool_kernels::{Limits, lower};

#[test]
fn plans_of_hostile_numbers_fit() {
    let limits = [(132, 48 << 10, 480), (8, 32 << 10, 30)];
    let limits = limits.map(|(compute_units, shared_bytes, buffers)| Limits {
        compute_units,
        shared_bytes,
        buffers,
    });
    let (mut plans, mut none) = (0, 0);
    for case in 0..150_000 {
        let Some(op) = hostile::op(case, 4096) else {
            continue;
        };
        if op.validate().is_err() {
            continue;
        }
        for limits in &limits {
            match lower(&op, limits) {
                Some(plan) => {
                    assert!(plan.fits(), "case {case}: {op:?}");
                    plans += 1;
                }
                None => none += 1,
            }
        }
    }
    assert!(plans > 10_000 && none > 100, "{plans} and {none}");
}
