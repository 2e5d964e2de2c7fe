//! Which form softmax and normalisation take.

use streampool_device::{Layout, Norm, NormKind, Span};

use super::*;
use crate::rows::testing::{LIMITS, row_major, view};
use crate::rows::{Rows, norm, softmax};
use crate::{Kernel, Plan};

/// The kernel's line and the groups of a softmax of `shape` along `axis`.
fn softmax_of(dtype: DType, shape: &[usize], axis: usize) -> (Line, [u32; 3]) {
    let (src, dst) = (row_major(dtype, shape), row_major(dtype, shape));
    let plan = softmax(&src, &dst, axis, false, &LIMITS);
    let dispatch = &plan.dispatches[0];
    assert_eq!(plan.dispatches.len(), 1);
    match dispatch.kernel {
        Kernel::Rows(Rows::Softmax(ref kernel)) => {
            assert_eq!(u32::from(kernel.line.threads), dispatch.threads);
            (kernel.line, dispatch.groups)
        }
        ref other => panic!("{other:?} is no softmax"),
    }
}

#[test]
fn rows_are_held_by_as_few_threads_as_can() {
    let form = |length: usize| {
        let (line, groups) = softmax_of(DType::F32, &[3000, length], 1);
        (line.team, line.threads, line.held, groups[0])
    };
    assert_eq!(form(4), (Team::Lanes, 256, 4, 3000u32.div_ceil(256)));
    assert_eq!(form(100), (Team::Lanes, 256, 4, 3000 / 8));
    assert_eq!(form(1024), (Team::Lanes, 256, 32, 3000 / 8));
    assert_eq!(form(1028), (Team::Group, 256, 8, 3000));
    assert_eq!(form(4096), (Team::Group, 256, 16, 3000));
    assert_eq!(form(32_768), (Team::Group, 1024, 32, 3000));
    assert_eq!(form(32_772), (Team::Group, 1024, 0, 3000), "read again");
}

#[test]
fn a_few_rows_get_more_threads() {
    let (line, groups) = softmax_of(DType::F32, &[8, 1024], 1);
    assert_eq!((line.team, line.held, groups[0]), (Team::Group, 4, 8));
    // Neighbouring rows share a group before they fill the device.
    let form = |rows| softmax_of(DType::F32, &[rows, 384], 1).0.team;
    assert_eq!((form(128), form(512)), (Team::Group, Team::Lanes));
}

#[test]
fn wide_elements_are_held_less() {
    let (line, _) = softmax_of(DType::F64, &[3000, 16_384], 1);
    assert_eq!((line.held, line.threads), (16, 1024));
    assert_eq!(softmax_of(DType::F64, &[3000, 16_386], 1).0.held, 0);
}

#[test]
fn along_the_first_axis_threads_stand_side_by_side() {
    let form = |shape: &[usize]| {
        let (line, groups) = softmax_of(DType::F32, shape, 0);
        (line.team, line.threads, line.held, groups[0])
    };
    // 32 columns to a group, eight threads to each.
    assert_eq!(form(&[64, 6400]), (Team::Columns, 256, 8, 200));
    assert_eq!(form(&[1000, 6400]), (Team::Columns, 1024, 32, 200));
    assert_eq!(
        form(&[5000, 6400]),
        (Team::Columns, 1024, 0, 200),
        "read again"
    );
    // A single thread holds a short column.
    assert_eq!(form(&[3, 6400]), (Team::Columns, 256, 4, 25));
}

fn norm_of(src: View, scale: Option<View>, bias: Option<View>) -> Plan {
    let op = Norm {
        added: None,
        sum: None,
        kind: NormKind::Layer,
        src,
        dst: row_major(DType::F16, src.shape()),
        scale,
        bias,
        axis: 1,
        epsilon: 1e-5,
    };
    norm(&op, &LIMITS)
}

fn pack(plan: &Plan) -> u8 {
    match plan.dispatches[0].kernel {
        Kernel::Rows(Rows::Norm(ref kernel)) => kernel.line.pack,
        ref other => panic!("{other:?} is no normalisation"),
    }
}

#[test]
fn packs_fit_every_operand() {
    let src = row_major(DType::F16, &[100, 4, 64]);
    let dense = row_major(DType::F16, &[4, 64]);
    let repeated = view(
        DType::F16,
        Layout::contiguous(&[64])
            .and_then(|row| row.broadcast_to(&[4, 64]))
            .expect("it can be repeated"),
    );
    let odd = view(
        DType::F16,
        Layout::strided(&[4, 64], &[64, 1], 1).expect("it is small"),
    );
    assert_eq!(pack(&norm_of(src, None, None)), 8);
    assert_eq!(pack(&norm_of(src, Some(dense), Some(dense))), 8);
    assert_eq!(pack(&norm_of(src, Some(repeated), None)), 8);
    assert_eq!(pack(&norm_of(src, None, Some(odd))), 1);
}

#[test]
fn the_result_is_the_last_operand() {
    let src = row_major(DType::F16, &[100, 64]);
    let at = |offset: usize| {
        let span = Span {
            offset,
            ..row_major(DType::F16, &[64]).span()
        };
        let layout = Layout::contiguous(&[64]).expect("it is small");
        View::new(span, DType::F16, layout).expect("it is in bounds")
    };
    let plan = norm_of(src, Some(at(1 << 20)), Some(at(1 << 21)));
    let offsets: Vec<usize> = plan.dispatches[0]
        .operands
        .iter()
        .map(|operand| match operand {
            Operand::Memory(span) => span.offset,
            Operand::Scratch(_) => panic!("a row needs no scratch"),
        })
        .collect();
    assert_eq!(offsets, [0, 1 << 20, 1 << 21, 0]);
}

#[test]
fn without_elements_there_is_nothing_to_launch() {
    let src = row_major(DType::F32, &[4, 0]);
    assert!(
        softmax::<Kernel>(&src, &src, 1, true, &LIMITS)
            .dispatches
            .is_empty()
    );
}
