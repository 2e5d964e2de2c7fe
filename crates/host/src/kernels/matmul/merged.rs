//! Products that are one: rows that share a right operand, whatever axes lie between them.

use streampool_device::{Layout, MAX_RANK, MatMul, View};

use crate::kernels::strided::broadcast_strides;

/// The same product with as many leading axes as possible among its rows, if any can be.
pub(super) fn merged(op: &MatMul) -> Option<MatMul> {
    let shape = op.out.shape();
    let lead = shape.len().checked_sub(2)?;
    if lead == 0 || shape[..lead].iter().all(|&size| size == 1) {
        return None;
    }
    let [a, b] = [&op.a, &op.b].map(|view| leading(view, &shape[..lead]));
    let bias = op.bias.as_ref().map(|bias| broadcast_strides(bias, shape));
    let out = op.out.layout().strides();
    let own = op.a.layout().strides();
    let mut rows = shape[lead];
    let mut steps = [
        own[own.len() - 2],
        out[lead],
        bias.map_or(0, |bias| bias[lead]),
    ];
    let mut left = lead;
    while let Some(axis) = left.checked_sub(1) {
        let next = [a[axis], out[axis], bias.map_or(0, |bias| bias[axis])];
        let continues = rows == 1 || (0..3).all(|of| next[of] == steps[of] * rows as isize);
        match shape[axis] {
            1 => {}
            size if b[axis] == 0 && continues => {
                if rows == 1 {
                    steps = next;
                }
                rows *= size;
            }
            _ => break,
        }
        left = axis;
    }
    if left == lead || rows == shape[lead] {
        return None;
    }
    let columns = shape[lead + 1];
    let inner = op.b.shape()[op.b.layout().rank() - 2];
    // The axes that are left, then rows and columns.
    let view = |view: &View, lead: &[isize], last: [usize; 2], steps: [isize; 2]| {
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for axis in 0..left {
            // What is broadcast has one.
            if lead[axis] != 0 {
                (sizes[axis], strides[axis]) = (shape[axis], lead[axis]);
            }
        }
        (sizes[left], sizes[left + 1]) = (last[0], last[1]);
        (strides[left], strides[left + 1]) = (steps[0], steps[1]);
        let rank = left + 2;
        let layout = Layout::strided(&sizes[..rank], &strides[..rank], view.layout().offset());
        View::new(view.span(), view.dtype(), layout.ok()?).ok()
    };
    let out_view = {
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        sizes[..left].copy_from_slice(&shape[..left]);
        strides[..left].copy_from_slice(&out[..left]);
        (sizes[left], sizes[left + 1]) = (rows, columns);
        (strides[left], strides[left + 1]) = (steps[1], out[lead + 1]);
        let rank = left + 2;
        let layout = Layout::strided(&sizes[..rank], &strides[..rank], op.out.layout().offset());
        View::new(op.out.span(), op.out.dtype(), layout.ok()?).ok()?
    };
    let right = op.b.layout().strides();
    let bias = match (&op.bias, bias) {
        (Some(of), Some(strides)) => {
            let size = |step: isize, size: usize| if step == 0 { 1 } else { size };
            let last = [size(steps[2], rows), size(strides[lead + 1], columns)];
            Some(view(
                of,
                &strides[..lead],
                last,
                [steps[2], strides[lead + 1]],
            )?)
        }
        _ => None,
    };
    Some(MatMul {
        a: view(
            &op.a,
            &a[..lead],
            [rows, inner],
            [steps[0], own[own.len() - 1]],
        )?,
        b: view(
            &op.b,
            &b[..lead],
            [inner, columns],
            [right[right.len() - 2], right[right.len() - 1]],
        )?,
        out: out_view,
        bias,
        ..*op
    })
}

/// The strides of a view's leading axes as they broadcast.
fn leading(view: &View, batch: &[usize]) -> [isize; MAX_RANK] {
    let own = view.layout().rank() - 2;
    let missing = batch.len() - own;
    let mut strides = [0; MAX_RANK];
    for axis in 0..own {
        if view.shape()[axis] == batch[missing + axis] && view.shape()[axis] != 1 {
            strides[missing + axis] = view.layout().strides()[axis];
        }
    }
    strides
}
