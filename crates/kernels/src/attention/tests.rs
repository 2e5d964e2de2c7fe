//! Which form an op takes.

use streampool_device::{Attention as Op, DType, Layout, Span, View};

use super::{Form, attention};
use crate::{Kernel, Limits};

const LIMITS: Limits = Limits {
    compute_units: 132,
    shared_bytes: 48 << 10,
    buffers: 480,
};

fn op(dtype: DType, [batch, heads, length, width]: [usize; 4], offset: usize) -> Op {
    let mut allocations = 0;
    let mut view = |shape: &[usize]| {
        allocations += 1;
        let span = Span {
            handle: allocations << 40,
            offset,
            bytes: 1 << 39,
        };
        let layout = Layout::contiguous(shape).expect("a layout");
        View::new(span, dtype, layout).expect("in bounds")
    };
    let shape = [batch, heads, length, width];
    Op {
        query: view(&shape),
        key: view(&shape),
        value: view(&shape),
        mask: None,
        out: view(&shape),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    }
}

fn form(op: &Op) -> (Form, [u32; 3]) {
    let plan = attention(op, &LIMITS).expect("there is a kernel");
    match &plan.dispatches[0].kernel {
        Kernel::Attention(kernel) => (kernel.form, plan.dispatches[0].groups),
        other => panic!("{other:?} does not attend"),
    }
}

#[test]
fn short_floats_take_tensor_cores() {
    let tiles = |widths, keys, tiles, dense| Form::Tiles {
        widths,
        keys,
        tiles,
        dense,
    };
    let of = |shape, offset| form(&op(DType::F16, shape, offset));
    assert_eq!(
        of([1, 12, 128, 32], 0),
        (tiles([32; 2], 64, 1, true), [24, 1, 1])
    );
    assert_eq!(
        of([64, 12, 128, 32], 0),
        (tiles([32; 2], 64, 2, true), [768, 1, 1])
    );
    assert_eq!(of([64, 12, 128, 32], 2).0, tiles([32; 2], 64, 2, false));
    assert_eq!(of([64, 12, 128, 128], 0).0, tiles([128; 2], 64, 1, true));
    assert_eq!(of([64, 12, 128, 256], 0).0, tiles([256; 2], 32, 1, true));
    assert_eq!(of([1, 1, 1, 20], 0).0, tiles([32; 2], 64, 1, false));
    assert_eq!(of([1, 1, 1, 300], 0).0, Form::Single);
}

#[test]
fn wide_floats_sum_in_registers_while_they_fit() {
    let of = |dtype, width| form(&op(dtype, [2, 3, 65, width], 0));
    let blocks = |width, keys, depth| Form::Blocks { width, keys, depth };
    assert_eq!(of(DType::F32, 32), (blocks(32, 64, 32), [12, 1, 1]));
    assert_eq!(of(DType::F32, 256), (blocks(256, 64, 16), [12, 1, 1]));
    assert_eq!(of(DType::F32, 300), (Form::Single, [390, 2, 1]));
    assert_eq!(of(DType::F64, 8), (Form::Single, [390, 1, 1]));
}

#[test]
fn nothing_is_launched_for_nothing() {
    let plan = attention(&op(DType::F32, [2, 0, 4, 4], 0), &LIMITS).expect("a plan");
    assert!(plan.dispatches.is_empty());
}
