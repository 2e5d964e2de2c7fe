//! Which form a reduction takes, and how it is split.

use streampool_device::{DType, Layout};

use super::*;
use crate::rows::testing::{LIMITS, row_major, view};
use crate::rows::{Rows, reduce};
use crate::text::Dialect;
use crate::{Dispatch, Kernel, Plan};

fn plan_of(kind: ReduceKind, src: &View, axes: &[usize]) -> Plan {
    let mut shape = src.shape().to_vec();
    axes.iter().for_each(|&axis| shape[axis] = 1);
    let result = if finds_index(kind) {
        DType::I64
    } else {
        src.dtype()
    };
    let axes = Axes::new(axes).expect("they are axes");
    reduce(kind, src, &row_major(result, &shape), axes, &LIMITS)
}

fn sum_of(shape: &[usize], axes: &[usize]) -> Plan {
    plan_of(ReduceKind::Sum, &row_major(DType::F32, shape), axes)
}

fn kernel(dispatch: &Dispatch) -> Reduction {
    match dispatch.kernel {
        Kernel::Rows(Rows::Reduce(kernel)) => kernel,
        ref other => panic!("{other:?} reduces nothing"),
    }
}

fn form(dispatch: &Dispatch) -> (Stage, Team, u8, [u32; 3]) {
    let kernel = kernel(dispatch);
    (kernel.stage, kernel.team, kernel.pack, dispatch.groups)
}

#[test]
fn short_rows_share_a_group() {
    let plan = sum_of(&[100_000, 64], &[1]);
    assert_eq!(plan.dispatches.len(), 1);
    // 16 packs, four to each of four lanes.
    let groups = [100_000u32.div_ceil(64), 1, 1];
    assert_eq!(
        form(&plan.dispatches[0]),
        (Stage::Whole, Team::Lanes, 4, groups)
    );
}

#[test]
fn long_rows_have_a_group_each() {
    let plan = sum_of(&[3000, 8192], &[1]);
    assert_eq!(plan.dispatches.len(), 1);
    assert_eq!(
        form(&plan.dispatches[0]),
        (Stage::Whole, Team::Group, 4, [3000, 1, 1])
    );
}

#[test]
fn rows_side_by_side_are_columns() {
    let plan = sum_of(&[100, 100_000], &[0]);
    assert_eq!(plan.dispatches.len(), 1);
    // Packs of four columns, 32 of them to a group.
    let groups = [25_000u32.div_ceil(32), 1, 1];
    assert_eq!(
        form(&plan.dispatches[0]),
        (Stage::Whole, Team::Columns, 4, groups)
    );
}

#[test]
fn a_few_long_rows_are_divided() {
    let plan = sum_of(&[1 << 24], &[0]);
    let parts = 132 * GROUPS_PER_UNIT;
    assert_eq!(plan.scratch, (parts * 4).next_multiple_of(16));
    assert_eq!(plan.dispatches.len(), 2);
    assert_eq!(
        form(&plan.dispatches[0]),
        (Stage::First, Team::Group, 4, [1, parts as u32, 1])
    );
    assert_eq!(
        form(&plan.dispatches[1]),
        (Stage::Last, Team::Group, 1, [1, 1, 1])
    );
    assert_eq!(
        plan.dispatches[0].operands[1],
        plan.dispatches[1].operands[0]
    );
}

#[test]
fn no_part_is_empty() {
    for length in [UNDIVIDED, UNDIVIDED + 4, 100_000, 1_000_004] {
        let plan = sum_of(&[length], &[0]);
        let parts = plan.dispatches[0].groups[1] as usize;
        let packs = length / 4;
        let chunk = packs.div_ceil(parts);
        assert!(parts > 1 && chunk * (parts - 1) < packs, "{length}");
    }
}

#[test]
fn a_divided_search_keeps_values_and_places() {
    let src = row_major(DType::F16, &[2, 1 << 20]);
    let plan = plan_of(ReduceKind::ArgMax, &src, &[1]);
    let known = 2 * plan.dispatches[0].groups[1] as usize;
    assert_eq!(plan.scratch, (known * 4).next_multiple_of(16) + known * 8);
    let operands = |index: usize| &plan.dispatches[index].operands[..];
    assert_eq!(operands(0)[1..], operands(1)[..2]);
    assert_eq!((operands(0).len(), operands(1).len()), (3, 3));
}

#[test]
fn without_results_there_is_nothing_to_launch() {
    assert!(sum_of(&[0, 4], &[1]).dispatches.is_empty());
    assert_eq!(sum_of(&[4, 0], &[1]).dispatches.len(), 1, "zeros");
}

#[test]
fn one_kernel_serves_all_shapes() {
    let one = |shape: &[usize]| kernel(&sum_of(shape, &[1]).dispatches[0]);
    assert_eq!(one(&[100_000, 64]), one(&[77_777, 32]));
}

#[test]
fn packs_need_aligned_rows() {
    let pack = |strides: &[isize], offset: usize| {
        let layout = Layout::strided(&[1000, 64], strides, offset).expect("it is small");
        let src = view(DType::F32, layout);
        kernel(&plan_of(ReduceKind::Sum, &src, &[1]).dispatches[0]).pack
    };
    assert_eq!(pack(&[64, 1], 0), 4);
    assert_eq!(pack(&[68, 1], 4), 4);
    assert_eq!(pack(&[65, 1], 0), 1, "a row begins anywhere");
    assert_eq!(pack(&[64, 1], 1), 1, "so does the first");
    assert_eq!(pack(&[128, 2], 0), 1, "elements are apart");
}

#[test]
fn metal_has_all_but_f64() {
    let text = |dtype: DType, dialect: Dialect| {
        let plan = plan_of(ReduceKind::Sum, &row_major(dtype, &[8, 8]), &[1]);
        plan.dispatches[0].kernel.source(dialect).is_some()
    };
    assert!(text(DType::F64, Dialect::Cuda) && text(DType::I64, Dialect::Metal));
    assert!(!text(DType::F64, Dialect::Metal));
}
