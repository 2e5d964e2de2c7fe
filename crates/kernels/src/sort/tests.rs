//! Which kernels a sort becomes.

use super::*;
use crate::rows::testing::{LIMITS, row_major};
use crate::{Kernel, Plan};

fn plan(dtype: DType, shape: &[usize], wanted: usize) -> Plan {
    let kept = [&shape[..shape.len() - 1], &[wanted]].concat();
    let op = Op {
        src: row_major(dtype, shape),
        values: row_major(dtype, &kept),
        indices: Some(row_major(DType::I64, &kept)),
        axis: shape.len() - 1,
        descending: true,
    };
    sort(&op, &LIMITS).expect("there is a kernel")
}

fn steps(plan: &Plan) -> Vec<Step> {
    let kernels = plan
        .dispatches
        .iter()
        .map(|dispatch| match dispatch.kernel {
            Kernel::Sort(kernel) => kernel.step,
            ref other => panic!("{other:?} is no sort"),
        });
    kernels.collect()
}

#[test]
fn short_lines_are_sorted_at_once() {
    assert_eq!(
        steps(&plan(DType::F32, &[1000, 2048], 2048)),
        [Step::Elements(2048)]
    );
    let tiny = plan(DType::F32, &[1000, 5], 5);
    assert_eq!(steps(&tiny), [Step::Elements(8)]);
    assert_eq!(tiny.dispatches[0].groups[0], 1000u32.div_ceil(64));
    assert_eq!(tiny.scratch, 0);
}

#[test]
fn long_lines_are_merged_in_rounds() {
    let plan = plan(DType::F32, &[3, 10_000], 10_000);
    let rounds = [Step::Elements(2048), Step::Merge, Step::Merge, Step::Merge];
    assert_eq!(steps(&plan), rounds);
    let store = (3 * 10_000 * 4usize).next_multiple_of(256);
    assert_eq!(plan.scratch, 4 * store);
}

#[test]
fn the_first_few_are_sorted_again_until_one_block_is_left() {
    let plan = plan(DType::I64, &[2, 200_000], 50);
    let left = 97 * 50 + 50;
    assert_eq!(kept(200_000, 50), left);
    assert_eq!(
        steps(&plan),
        [
            Step::Elements(2048),
            Step::Candidates(2048),
            Step::Candidates(256)
        ]
    );
}

#[test]
fn nothing_wanted_is_no_launch() {
    assert!(plan(DType::F32, &[3, 10], 0).dispatches.is_empty());
}

#[test]
fn every_element_of_a_line_has_a_place_of_32_bits() {
    let op = Op {
        src: row_major(DType::I8, &[1 << 33]),
        values: row_major(DType::I8, &[10]),
        indices: None,
        axis: 0,
        descending: false,
    };
    assert!(sort::<Kernel>(&op, &LIMITS).is_none());
}
