//! Which form an op takes.

use streampool_device::{Attention as Op, DType, Layout, Span, View};

use super::few::Few;
use super::{Form, attention, simdgroup_attention};
use crate::text::SharedArray;
use crate::{Dialect, Kernel, Limits};

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
    assert_eq!(of([1, 1, 9, 20], 0).0, tiles([32; 2], 64, 1, false));
    assert_eq!(of([1, 1, 1, 300], 0).0, Form::Single);
}

/// The same with other numbers of heads, queries and keys.
fn with_sizes(dtype: DType, [heads, key_heads, queries, keys, width]: [usize; 5]) -> Op {
    let many = op(dtype, [1, key_heads, keys, width], 0);
    let few = op(dtype, [1, heads, queries, width], 0);
    Op {
        query: few.query,
        out: few.out,
        ..many
    }
}

#[test]
fn few_queries_divide_the_keys() {
    let few = |team, rows, parted| {
        Form::Few(Few {
            team,
            rows,
            dense: true,
            parted,
        })
    };
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let of = |sizes| form(&with_sizes(dtype, sizes));
        // So few keys are no work for more groups.
        assert_eq!(of([32, 32, 1, 128, 64]), (few(8, 1, false), [32, 1, 1]));
        // Eight parts for each of 32 heads.
        assert_eq!(of([32, 32, 1, 4096, 128]), (few(16, 1, true), [256, 1, 1]));
        // Four heads that share keys are one group.
        assert_eq!(of([32, 8, 1, 4096, 128]), (few(16, 4, true), [256, 1, 1]));
        assert_eq!(of([5, 1, 1, 300, 16]), (few(4, 4, true), [6, 1, 1]));
        assert_eq!(of([2, 2, 3, 20, 256]), (few(32, 4, false), [2, 1, 1]));
        assert_eq!(of([2, 2, 8, 20, 40]), (few(8, 4, false), [4, 1, 1]));
        assert!(!matches!(of([2, 2, 9, 20, 40]).0, Form::Few(_)));
        assert!(!matches!(of([2, 2, 1, 20, 264]).0, Form::Few(_)));
        // With heads for all processors, tensor cores take less time for more than two.
        assert!(matches!(of([132, 132, 2, 20, 40]).0, Form::Few(_)));
        let many = of([132, 132, 3, 20, 40]).0;
        assert_eq!(matches!(many, Form::Few(_)), dtype == DType::F32);
    }
    // Only what the queries see is divided.
    let mut op = with_sizes(DType::F16, [32, 32, 1, 4096, 128]);
    op.causal = Some(10);
    assert_eq!(form(&op), (few(16, 1, false), [32, 1, 1]));
}

#[test]
fn no_group_has_more_queries_than_there_are() {
    let rows = |queries| {
        let (form, groups) = form(&with_sizes(DType::F16, [2, 2, queries, 100, 64]));
        (form.queries(), groups[0])
    };
    assert_eq!(rows(1), (1, 2));
    assert_eq!(rows(2), (2, 2));
    assert_eq!(rows(7), (4, 4));
    assert_eq!(rows(64), (64, 2));
}

#[test]
fn what_parts_leave_is_merged() {
    let plan = attention::<Kernel>(&with_sizes(DType::F16, [32, 8, 1, 4096, 128]), &LIMITS)
        .expect("a plan");
    let launches: Vec<_> = plan.dispatches.iter().map(|each| each.groups).collect();
    assert_eq!(launches, [[256, 1, 1], [32, 1, 1]]);
    // A total, a best score and 128 sums for each of 32 parts of 32 queries.
    assert_eq!(plan.scratch, 32 * 32 * (2 + 128) * 4);
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
    let plan = attention::<Kernel>(&op(DType::F32, [2, 0, 4, 4], 0), &LIMITS).expect("a plan");
    assert!(plan.dispatches.is_empty());
}

#[test]
fn simdgroups_of_apple_multiply_matrices_of_short_floats() {
    let of = |op: &Op| {
        let plan = simdgroup_attention(op, &LIMITS)?;
        match &plan.dispatches[0].kernel {
            Kernel::Attention(kernel) => Some((kernel.form, plan.dispatches[0].groups)),
            other => panic!("{other:?} does not attend"),
        }
    };
    for dtype in [DType::F16, DType::BF16] {
        let many = with_sizes(dtype, [12, 4, 128, 128, 80]);
        let widths = [80; 2];
        let dense = true;
        assert_eq!(
            of(&many),
            Some((Form::Matrices { widths, dense }, [48, 1, 1]))
        );
        // Fewer are no work for matrices, and wider rows fit no registers.
        assert_eq!(of(&with_sizes(dtype, [12, 4, 8, 128, 80])), None);
        assert_eq!(of(&with_sizes(dtype, [12, 4, 128, 128, 264])), None);
        assert_eq!(of(&op(dtype, [2, 0, 64, 64], 0)), None);
        assert_eq!(of(&op(dtype, [2, 0, 4, 64], 0)), None);
    }
    assert_eq!(of(&with_sizes(DType::F32, [12, 4, 128, 128, 80])), None);
    // 32 KiB of memory hold a tile of the widest rows, and what simdgroups exchange.
    let widest = with_sizes(DType::F16, [1, 1, 128, 128, 256]);
    let plan = simdgroup_attention(&widest, &LIMITS).expect("a plan");
    let Kernel::Attention(kernel) = plan.dispatches[0].kernel else {
        unreachable!()
    };
    let text = kernel.text(Dialect::Metal).expect("Metal has it");
    let bytes = |array: &SharedArray| match array.ty {
        "Words" => array.length * 16,
        "f32" => array.length * 4,
        _ => array.length * 2,
    };
    assert!(text.shared.iter().map(bytes).sum::<usize>() <= 32 << 10);
    assert!(kernel.text(Dialect::Cuda).is_none());
}
