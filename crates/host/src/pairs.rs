//! Pairs of ops: a convolution, and the elementwise op that goes over what it makes while that is in the cache.

use streampool_device::{Conv, Op, View};

use crate::kernels::Prepared;

/// Whether `next` can be executed on results of `op` as soon as they are there.
pub(crate) fn can_follow((op, ready): (&Op, &Prepared), (next, map): (&Op, &Prepared)) -> bool {
    match (op, ready.conv(), next, map) {
        (
            Op::Conv(conv),
            Some(ready),
            Op::Map {
                expr,
                inputs,
                outputs,
            },
            Prepared::Map(_),
        ) => {
            ready.goes_on(conv)
                && outputs.len() == expr.outputs().len()
                && goes_along(conv, inputs, outputs)
        }
        _ => false,
    }
}

/// Whether elements of the outputs need of what the convolution makes only those of the same number, and nothing that it still
/// reads is written.
fn goes_along(conv: &Conv, inputs: &[View], outputs: &[View]) -> bool {
    let dst = &conv.dst;
    let alike = |view: &View| {
        (view.shape(), view.layout().strides()) == (dst.shape(), dst.layout().strides())
    };
    let scale = conv.to_bytes.as_ref().map(|bytes| &bytes.scale);
    let read = [
        Some(&conv.src),
        Some(&conv.weight),
        conv.bias.as_ref(),
        scale,
    ];
    inputs.contains(dst)
        && inputs.iter().all(|view| view == dst || !meet(view, dst))
        && outputs.iter().all(|output| {
            alike(output)
                && (output == dst || !meet(output, dst))
                && read.iter().flatten().all(|view| !meet(output, view))
        })
}

/// Whether they may have memory in common. On the host a handle is an address.
fn meet(one: &View, other: &View) -> bool {
    let range = |view: &View| {
        let span = view.span();
        let start = span.handle.wrapping_add(span.offset as u64);
        start..start.wrapping_add(span.bytes as u64)
    };
    let (one, other) = (range(one), range(other));
    one.start < other.end && other.start < one.end
}
