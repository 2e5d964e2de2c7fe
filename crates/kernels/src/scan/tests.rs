//! Which kernels a scan becomes.

use super::*;
use crate::rows::testing::{LIMITS, row_major};
use crate::{Kernel, Plan};

fn plan(shape: &[usize], axis: usize) -> Plan {
    let op = Op {
        kind: ScanKind::Sum,
        src: row_major(DType::F16, shape),
        dst: row_major(DType::F16, shape),
        axis,
        exclusive: false,
        reverse: false,
    };
    scan(&op, &LIMITS)
}

fn kernels(plan: &Plan) -> Vec<(Role, Form, bool)> {
    let kernels = plan
        .dispatches
        .iter()
        .map(|dispatch| match dispatch.kernel {
            Kernel::Scan(kernel) => (kernel.role, kernel.form, kernel.packed),
            ref other => panic!("{other:?} is no scan"),
        });
    kernels.collect()
}

#[test]
fn many_lines_take_one_launch() {
    let short = plan(&[10_000, 64], 1);
    assert_eq!(kernels(&short), [(Role::Whole, Form::Lanes, true)]);
    let long = plan(&[10_000, 5000], 1);
    assert_eq!(kernels(&long), [(Role::Whole, Form::Lanes, true)]);
    let across = plan(&[1000, 100_000], 0);
    assert_eq!(kernels(&across), [(Role::Whole, Form::Columns, false)]);
    assert_eq!((short.scratch, across.scratch), (0, 0));
}

#[test]
fn few_long_lines_are_cut() {
    let plan = plan(&[3, 1 << 20], 1);
    let expected = [
        (Role::Totals, Form::Group, true),
        (Role::Whole, Form::Lanes, false),
        (Role::Carried, Form::Group, true),
    ];
    assert_eq!(kernels(&plan), expected);
    let segments = plan.scratch / 4 / 3;
    assert_eq!(plan.dispatches[0].groups[0] as usize, 3 * segments);
    assert!(segments >= 100);
}

#[test]
fn few_long_columns_are_cut() {
    let plan = plan(&[1 << 16, 16], 0);
    assert_eq!(kernels(&plan)[2], (Role::Carried, Form::Columns, false));
}

#[test]
fn odd_lines_are_taken_one_by_one() {
    assert!(!kernels(&plan(&[10_000, 63], 1))[0].2);
}
