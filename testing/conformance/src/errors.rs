//! Nonsense: each call that can be given some refuses it with the error that names it, and goes on.

use std::sync::Arc;

use streampool_device::{
    Activation, Axes, DType, Error, Expr, Layout, MatMul, Norm, NormKind, Op, OpKind, ReduceKind,
    Span, Unary, View,
};

use crate::build::{copy, fill, matmul};
use crate::fixture::Fixture;

/// Views of one memory, each as an op needs it wrong.
struct Views(Span);

impl Views {
    fn of(&self, dtype: DType, shape: &[usize]) -> View {
        let layout = Layout::contiguous(shape).expect("the shape is small");
        View::new(self.0, dtype, layout).expect("it fits")
    }

    fn f32(&self, shape: &[usize]) -> View {
        self.of(DType::F32, shape)
    }

    /// Two rows that are one.
    fn overlapping(&self, dtype: DType) -> View {
        let layout = Layout::strided(&[2, 3], &[0, 1], 0).expect("it is a layout");
        View::new(self.0, dtype, layout).expect("it fits")
    }
}

fn axes(axes: &[usize]) -> Axes {
    Axes::new(axes).expect("below the maximum")
}

fn reduce(kind: ReduceKind, src: View, dst: View, over: &[usize]) -> Op {
    Op::Reduce {
        kind,
        src,
        dst,
        axes: axes(over),
    }
}

fn norm(src: View, dst: View, axis: usize) -> Norm {
    Norm {
        added: None,
        sum: None,
        kind: NormKind::Layer,
        src,
        dst,
        scale: None,
        bias: None,
        axis,
        epsilon: 1e-5,
    }
}

fn product(a: View, b: View, out: View) -> MatMul {
    match matmul(a, b, out) {
        Op::MatMul(product) => product,
        other => panic!("{other:?} is no product"),
    }
}

fn moving_ops(v: &Views) -> Vec<(&'static str, Op)> {
    use DType::{Bool, F32, I32};
    let unary = Arc::new(Expr::unary(Unary::Neg, F32).expect("it is right"));
    let map = |inputs: &[View], outputs: &[View]| Op::Map {
        expr: Arc::clone(&unary),
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
    };
    let iota = |dst| Op::Iota {
        dst,
        start: 0.into(),
        step: 1.into(),
    };
    vec![
        ("dst", copy(v.f32(&[2, 3]), v.f32(&[2, 3]))),
        ("dst", copy(v.f32(&[2, 3]), v.f32(&[3, 2]))),
        ("dst", copy(v.f32(&[2, 3]), v.f32(&[6]))),
        ("dst", copy(v.f32(&[2, 3]), v.overlapping(F32))),
        ("dst", fill(v.overlapping(F32), 0.0)),
        ("dst", iota(v.overlapping(I32))),
        ("dst", iota(v.of(Bool, &[3]))),
        ("inputs", map(&[], &[v.f32(&[3])])),
        ("inputs", map(&[v.f32(&[3]); 2], &[v.f32(&[3])])),
        ("outputs", map(&[v.f32(&[3])], &[])),
        ("inputs", map(&[v.f32(&[3])], &[v.f32(&[3]); 2])),
        ("input", map(&[v.f32(&[4])], &[v.f32(&[3])])),
        ("input", map(&[v.f32(&[2, 3])], &[v.f32(&[3])])),
        ("input", map(&[v.of(I32, &[3])], &[v.f32(&[3])])),
        ("output", map(&[v.f32(&[3])], &[v.of(I32, &[3])])),
        ("output", map(&[v.f32(&[3])], &[v.overlapping(F32)])),
    ]
}

fn reducing_ops(v: &Views) -> Vec<(&'static str, Op)> {
    use DType::{Bool, F32, I32, I64};
    use ReduceKind::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Prod, Sum};
    let (src, one) = (v.f32(&[2, 3]), v.f32(&[2, 1]));
    let softmax = |src, dst, axis| Op::Softmax {
        src,
        dst,
        axis,
        log: false,
    };
    vec![
        ("dst", reduce(Sum, src, v.f32(&[2]), &[1])),
        ("dst", reduce(Sum, src, src, &[1])),
        ("dst", reduce(Sum, src, v.of(I32, &[2, 1]), &[1])),
        (
            "dst",
            reduce(Sum, v.f32(&[2, 3, 4]), v.overlapping(F32), &[2]),
        ),
        ("axis", reduce(Sum, src, one, &[2])),
        (
            "src",
            reduce(Mean, v.of(I32, &[2, 3]), v.of(I32, &[2, 1]), &[1]),
        ),
        ("src", reduce(Any, src, one, &[1])),
        ("src", reduce(All, src, one, &[1])),
        (
            "src",
            reduce(Prod, v.of(Bool, &[2, 3]), v.of(Bool, &[2, 1]), &[1]),
        ),
        ("dst", reduce(ArgMax, src, one, &[1])),
        ("axes", reduce(ArgMin, src, v.of(I64, &[1, 1]), &[0, 1])),
        ("axes", reduce(ArgMax, src, v.of(I64, &[2, 3]), &[])),
        ("src", reduce(Max, v.f32(&[2, 0]), one, &[1])),
        ("src", reduce(Min, v.f32(&[2, 0]), one, &[1])),
        (
            "src",
            reduce(ArgMax, v.f32(&[2, 0]), v.of(I64, &[2, 1]), &[1]),
        ),
        ("src", softmax(v.of(I32, &[2, 3]), v.of(I32, &[2, 3]), 1)),
        ("dst", softmax(src, v.f32(&[3, 2]), 1)),
        ("dst", softmax(src, v.of(DType::F16, &[2, 3]), 1)),
        ("dst", softmax(src, v.overlapping(F32), 1)),
        ("axis", softmax(src, src, 2)),
        ("axis", softmax(v.f32(&[]), v.f32(&[]), 0)),
    ]
}

fn normalising_ops(v: &Views) -> Vec<(&'static str, Op)> {
    let src = v.f32(&[2, 3]);
    let right = norm(src, src, 1);
    let ints = v.of(DType::I32, &[2, 3]);
    [
        ("src", norm(ints, ints, 1)),
        ("dst", norm(src, v.f32(&[3, 2]), 1)),
        ("dst", norm(src, v.overlapping(DType::F32), 1)),
        ("axis", norm(src, src, 2)),
        (
            "added",
            Norm {
                added: Some(v.f32(&[3])),
                ..right
            },
        ),
        (
            "added",
            Norm {
                added: Some(v.of(DType::F16, &[2, 3])),
                ..right
            },
        ),
        (
            "sum",
            Norm {
                sum: Some(v.f32(&[3])),
                ..right
            },
        ),
        (
            "sum",
            Norm {
                sum: Some(v.overlapping(DType::F32)),
                ..right
            },
        ),
        (
            "dst",
            Norm {
                sum: Some(right.dst),
                ..right
            },
        ),
        (
            "scale",
            Norm {
                scale: Some(v.f32(&[2])),
                ..right
            },
        ),
        (
            "scale",
            Norm {
                scale: Some(v.of(DType::F16, &[3])),
                ..right
            },
        ),
        (
            "bias",
            Norm {
                bias: Some(v.f32(&[2, 3])),
                ..right
            },
        ),
        (
            "epsilon",
            Norm {
                epsilon: -1.0,
                ..right
            },
        ),
        (
            "epsilon",
            Norm {
                epsilon: f64::NAN,
                ..right
            },
        ),
        (
            "epsilon",
            Norm {
                epsilon: f64::INFINITY,
                ..right
            },
        ),
    ]
    .map(|(argument, op)| (argument, Op::Norm(op)))
    .to_vec()
}

fn product_ops(v: &Views) -> Vec<(&'static str, Op)> {
    use DType::{F16, F32, I8, I32, I64, U16};
    let (a, b, out) = (v.f32(&[2, 3]), v.f32(&[3, 2]), v.f32(&[2, 2]));
    let right = product(a, b, out);
    let bytes = product(v.of(I8, &[2, 3]), v.of(I8, &[3, 2]), v.of(I32, &[2, 2]));
    let batch = |dims: [usize; 3], other: [usize; 3], out: [usize; 3]| {
        product(v.f32(&dims), v.f32(&other), v.f32(&out))
    };
    [
        (
            "a",
            product(v.of(I64, &[2, 3]), v.of(I64, &[3, 2]), v.of(I64, &[2, 2])),
        ),
        (
            "a",
            product(v.of(U16, &[2, 3]), v.of(U16, &[3, 2]), v.of(I32, &[2, 2])),
        ),
        ("a", product(v.f32(&[3]), b, out)),
        ("b", product(a, v.f32(&[3]), out)),
        ("b", product(a, v.of(F16, &[3, 2]), out)),
        ("b", product(a, v.f32(&[2, 2]), out)),
        ("b", batch([2, 2, 3], [3, 3, 2], [2, 2, 2])),
        ("out", product(a, b, v.f32(&[2, 3]))),
        ("out", product(a, b, v.f32(&[1, 2, 2]))),
        ("out", product(a, b, v.of(F16, &[2, 2]))),
        (
            "out",
            product(v.of(I8, &[2, 3]), v.of(I8, &[3, 2]), v.of(I8, &[2, 2])),
        ),
        ("out", product(a, v.f32(&[3, 3]), v.overlapping(F32))),
        (
            "bias",
            MatMul {
                bias: Some(v.f32(&[3])),
                ..right
            },
        ),
        (
            "bias",
            MatMul {
                bias: Some(v.f32(&[1, 2, 2])),
                ..right
            },
        ),
        (
            "bias",
            MatMul {
                bias: Some(v.of(F16, &[2])),
                ..right
            },
        ),
        (
            "alpha",
            MatMul {
                alpha: f64::NAN,
                ..right
            },
        ),
        (
            "activation",
            MatMul {
                activation: Activation::Relu,
                ..bytes
            },
        ),
        (
            "activation",
            MatMul {
                alpha: 0.5,
                ..bytes
            },
        ),
    ]
    .map(|(argument, op)| (argument, Op::MatMul(op)))
    .to_vec()
}

/// Ops in 4096 bytes that are wrong, and which argument is.
fn wrong_ops(memory: Span) -> Vec<(&'static str, Op)> {
    let views = Views(memory);
    let mut ops = moving_ops(&views);
    ops.extend(reducing_ops(&views));
    ops.extend(normalising_ops(&views));
    ops.extend(product_ops(&views));
    ops
}

/// An op whose operands do not fit is refused with the argument's name, leaves nothing behind, and the
/// queue is usable; the same inside a capture.
pub fn wrong_ops_are_refused_by_argument(fixture: &Fixture) {
    let cases = wrong_ops(fixture.span(4096));
    let (mut lane, mut capturing) = (fixture.lane(), fixture.lane());
    capturing.begin_capture().expect("a capture can begin");
    let mut appended = 0;
    for (expected, op) in &cases {
        if !fixture.device().supports(op.kind()) {
            continue;
        }
        for result in [lane.encode(op), capturing.encode(op)] {
            match result {
                Err(Error::InvalidOp {
                    op: kind,
                    argument,
                    got,
                    expected: right,
                }) => {
                    assert_eq!((kind, argument), (op.kind(), *expected), "{op:?}");
                    assert!(!got.is_empty() && !right.is_empty());
                }
                other => panic!("{op:?}: expected InvalidOp of {expected}, got {other:?}"),
            }
        }
        appended += 1;
        assert_eq!(lane.encode(&Op::Nop), Ok(appended));
    }
    lane.sync();
    let program = capturing.end_capture(&[]).expect("the capture can end");
    assert_eq!(program.ops(), 0);
}

/// An upload that does not fit and a download of another size are refused.
pub fn wrong_copies_are_refused(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let span = fixture.span(64);
    lane.upload(span, &[1; 64]).expect("it fits");
    let inner = span.part(16, 16).expect("inside");
    let refused = [
        ("upload of one more", lane.upload(span, &[2; 65]).map(drop)),
        ("upload past a part", lane.upload(inner, &[2; 17]).map(drop)),
        (
            "download into one more",
            lane.download_into(span, 65).map(drop),
        ),
        (
            "download into one less",
            lane.download_into(span, 63).map(drop),
        ),
        (
            "download into nothing",
            lane.download_into(span, 0).map(drop),
        ),
    ];
    for (call, result) in refused {
        match result {
            Err(Error::Invalid { got, expected, .. }) => {
                assert!(!got.is_empty() && !expected.is_empty())
            }
            Err(Error::InvalidOp { op, .. }) => {
                assert!(
                    matches!(op, OpKind::Upload | OpKind::Download),
                    "{call}: {op}"
                );
            }
            other => panic!("{call}: expected Invalid, got {other:?}"),
        }
    }
    let landing = lane.download(span).expect("the sizes agree");
    lane.sync();
    assert_eq!(landing.read::<u8>(), [1; 64]);
    assert_eq!(landing.tick, 2, "nothing refused took a tick");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_refused_before_a_device_sees_it() {
        let memory = Span {
            handle: 1,
            offset: 0,
            bytes: 4096,
        };
        for (expected, op) in wrong_ops(memory) {
            let refused = op.validate();
            let named = matches!(&refused, Err(Error::InvalidOp { op: kind, argument, .. })
                if (*kind, *argument) == (op.kind(), expected));
            assert!(
                named,
                "{op:?}: expected InvalidOp of {expected}, got {refused:?}"
            );
        }
    }
}
