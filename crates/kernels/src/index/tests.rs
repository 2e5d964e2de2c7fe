//! Which kernels an indexing op becomes.

use streampool_device::Layout;

use super::*;
use crate::rows::testing::{LIMITS, row_major, view};
use crate::text::Dialect;
use crate::{Dispatch, Kernel, Plan};

fn kernel(dispatch: &Dispatch) -> Index {
    match dispatch.kernel {
        Kernel::Index(kernel) => kernel,
        ref other => panic!("{other:?} does not index"),
    }
}

fn rows(dtype: DType, rows: usize, width: usize, stride: isize) -> Plan {
    let src = Layout::strided(&[1000, width], &[stride, 1], 0).unwrap();
    let op = Gather {
        indexing: Indexing::Axis(0),
        src: view(dtype, src),
        indices: row_major(DType::I64, &[rows]),
        dst: row_major(dtype, &[rows, width]),
    };
    gather(&op, &LIMITS)
}

#[test]
fn rows_are_moved_sixteen_bytes_at_a_time_where_they_are_aligned() {
    for (dtype, width, stride, pack) in [
        (DType::F32, 64, 64, 4),
        (DType::F32, 66, 66, 1),
        (DType::F32, 64, 65, 1),
        (DType::F16, 64, 64, 8),
        (DType::BF16, 66, 66, 2),
        (DType::U8, 64, 68, 4),
        (DType::I64, 3, 3, 1),
    ] {
        let plan = rows(dtype, 500, width, stride);
        assert_eq!(
            kernel(&plan.dispatches[0]).pack,
            pack,
            "{dtype} {width} {stride}"
        );
    }
}

#[test]
fn picking_by_element_goes_element_by_element() {
    let op = Gather {
        indexing: Indexing::Elements(1),
        src: row_major(DType::F32, &[64, 64]),
        indices: row_major(DType::I32, &[64, 8]),
        dst: row_major(DType::F32, &[64, 8]),
    };
    let plan = gather(&op, &LIMITS);
    assert_eq!(kernel(&plan.dispatches[0]).pack, 1);
}

#[test]
fn nothing_is_no_launch() {
    assert!(rows(DType::F32, 0, 64, 64).dispatches.is_empty());
}

#[test]
fn what_is_scattered_in_place_is_not_copied() {
    let dst = row_major(DType::F32, &[10, 4]);
    let mut op = Scatter {
        indexing: Indexing::Axis(0),
        combine: Combine::Add,
        src: dst,
        indices: row_major(DType::I64, &[3]),
        updates: row_major(DType::F32, &[3, 4]),
        dst,
    };
    assert_eq!(scatter::<Kernel>(&op, &LIMITS).dispatches.len(), 1);
    op.src = view(DType::F32, Layout::strided(&[10, 4], &[0, 0], 0).unwrap());
    assert_eq!(scatter::<Kernel>(&op, &LIMITS).dispatches.len(), 2);
}

#[test]
fn metal_combines_words_of_at_most_32_bits() {
    let text = |dtype, combine| {
        let kernel = Index {
            action: Action::Combine(dtype, combine),
            index: DType::I32,
            pack: 1,
            class: 1,
            depth: 1,
        };
        kernel.text(Dialect::Metal)
    };
    assert!(text(DType::I64, Combine::Add).is_none());
    assert!(text(DType::F16, Combine::Max).is_some());
    assert!(text(DType::F32, Combine::Add).is_some());
}
