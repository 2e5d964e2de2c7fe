//! Shapes that no memory holds, and yet pass validation: broadcast views need none. Their plans are small, or there is none.

use streampool_device::*;
use streampool_kernels::{Limits, lower};

const LIMITS: Limits = Limits {
    compute_units: 132,
    shared_bytes: 48 << 10,
    buffers: 480,
};

/// A view somewhere of elements that are all one.
fn broadcast(handle: u64, dtype: DType, shape: &[usize]) -> View {
    let span = Span {
        handle,
        offset: 0,
        bytes: 8,
    };
    let one = Layout::contiguous(&[]).unwrap();
    View::new(span, dtype, one.broadcast_to(shape).unwrap()).unwrap()
}

/// A result as large as it says.
fn result(handle: u64, dtype: DType, shape: &[usize]) -> View {
    let layout = Layout::contiguous(shape).unwrap();
    let span = Span {
        handle,
        offset: 0,
        bytes: layout.elements() * dtype.size(),
    };
    View::new(span, dtype, layout).unwrap()
}

#[test]
fn what_cannot_be_counted_or_launched_has_no_plan() {
    let many = (1 << 32) + 1;
    let line = result(1, DType::U8, &[many, 512]);
    // Columns of lines, so that a broadcast does not make it another op.
    let lines = View::new(
        line.span(),
        DType::U8,
        Layout::strided(&[many, 512], &[0, 1], 0).unwrap(),
    )
    .unwrap();
    let sort = Op::Sort(Sort {
        src: lines,
        values: result(2, DType::U8, &[many, 512]),
        indices: None,
        axis: 1,
        descending: false,
    });
    let attention = Op::Attention(Box::new(Attention {
        query: broadcast(1, DType::F32, &[1, 1, many, 1]),
        key: broadcast(2, DType::F32, &[1, 1, 1, 1]),
        value: broadcast(3, DType::F32, &[1, 1, 1, 1]),
        mask: None,
        out: result(4, DType::F32, &[1, 1, many, 1]),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    }));
    let histogram = |weighted: bool| {
        let shape = [1 << 24, 1 << 24];
        let src = View::new(
            result(1, DType::F32, &[1 << 24]).span(),
            DType::F32,
            Layout::strided(&shape, &[1, 0], 0).unwrap(),
        )
        .unwrap();
        let weights = View::new(
            result(2, DType::F32, &[1 << 24]).span(),
            DType::F32,
            Layout::strided(&shape, &[0, 1], 0).unwrap(),
        )
        .unwrap();
        let dtype = if weighted { DType::F32 } else { DType::I64 };
        Op::Histogram(Histogram {
            src,
            weights: weighted.then_some(weights),
            dst: result(3, dtype, &[1 << 40]),
            low: 0.0,
            high: 1.0,
        })
    };
    let softmax = Op::Softmax {
        src: broadcast(1, DType::F16, &[1 << 42, 4]),
        dst: result(2, DType::F16, &[1 << 42, 4]),
        axis: 1,
        log: false,
    };
    let reduce = Op::Reduce {
        kind: ReduceKind::Max,
        src: broadcast(1, DType::U8, &[1 << 46, 4]),
        dst: result(2, DType::U8, &[1 << 46, 1]),
        axes: Axes::new(&[1]).unwrap(),
    };
    let side = 1 << 22;
    let triangular = Op::Linalg(Linalg::Triangular {
        src: broadcast(1, DType::F32, &[side, side]),
        rhs: broadcast(2, DType::F32, &[side, 1]),
        dst: result(3, DType::F32, &[side, 1]),
        upper: false,
        unit: true,
    });
    let random = Op::Random(Random {
        distribution: Distribution::Integers { low: 0, high: 9 },
        dst: result(1, DType::U8, &[1 << 47]),
        seed: 1,
        offset: 0,
    });
    for op in [
        sort,
        attention,
        histogram(true),
        softmax,
        reduce,
        triangular,
        random,
    ] {
        assert_eq!(op.validate(), Ok(()), "{op:?}");
        assert!(lower(&op, &LIMITS).is_none(), "{op:?}");
    }
    // What has a plan has one that fits.
    if let Some(plan) = lower(&histogram(false), &LIMITS) {
        assert!(plan.fits() && plan.scratch >= 4 << 40, "{}", plan.scratch);
    }
}

#[test]
fn a_broadcast_is_not_walked() {
    let src = broadcast(1, DType::F32, &[1 << 46, 2]);
    let reduced = |kind| Op::Reduce {
        kind,
        src,
        dst: result(2, DType::F32, &[1, 2]),
        axes: Axes::new(&[0]).unwrap(),
    };
    let histogram = Op::Histogram(Histogram {
        src,
        weights: None,
        dst: result(2, DType::I64, &[1 << 20]),
        low: 0.0,
        high: 1.0,
    });
    for (op, most) in [
        (reduced(ReduceKind::Sum), 0),
        (reduced(ReduceKind::Mean), 0),
        (histogram, 4 << 20),
    ] {
        let plan = lower(&op, &LIMITS).unwrap();
        assert!(plan.scratch <= most, "{} for {op:?}", plan.scratch);
        let groups = |dispatch: &streampool_kernels::Dispatch| dispatch.groups[0];
        assert!(plan.dispatches.iter().all(|it| groups(it) <= 4096));
    }
}
