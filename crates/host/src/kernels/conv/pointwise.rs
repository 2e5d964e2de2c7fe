//! Convolutions that see one element each: products of matrices.

use streampool_device::{Conv, Layout, MatMul, View};

/// The product that the convolution is, if its window is one element and what lies around is of no matter.
pub(super) fn product(op: &Conv) -> Option<MatMul> {
    let is_plain = op
        .window
        .iter()
        .all(|slide| (slide.kernel, slide.stride, slide.before, slide.after) == (1, 1, 0, 0));
    if !is_plain || op.src.shape()[2..] != op.dst.shape()[2..] {
        return None;
    }
    let groups = op.groups;
    let (made, read) = (op.dst.shape()[1] / groups, op.src.shape()[1] / groups);
    let weight = op.weight.layout().strides();
    // From one group to the next, from one channel made to the next, and from one read.
    let [group, row, column] = match op.transposed {
        false => [weight[0] * made as isize, weight[0], weight[1]],
        true => [weight[0] * read as isize, weight[1], weight[0]],
    };
    let with = |view: &View, shape: &[usize], strides: &[isize]| {
        let layout = Layout::strided(shape, strides, view.layout().offset()).ok()?;
        View::new(view.span(), view.dtype(), layout).ok()
    };
    let bias = match &op.bias {
        Some(bias) => {
            let step = bias.layout().strides()[0];
            Some(with(
                bias,
                &[groups, made, 1],
                &[step * made as isize, step, 0],
            )?)
        }
        None => None,
    };
    Some(MatMul {
        a: with(&op.weight, &[groups, made, read], &[group, row, column])?,
        b: pixels(&op.src, groups)?,
        out: pixels(&op.dst, groups)?,
        bias,
        activation: op.activation,
        alpha: 1.0,
    })
}

/// `[batch, groups, channels of one, pixels]`, if the spatial dimensions are as good as one.
fn pixels(view: &View, groups: usize) -> Option<View> {
    let (shape, strides) = (view.shape(), view.layout().strides());
    let (mut pixels, mut step) = (1, 1);
    for (&size, &stride) in shape[2..].iter().zip(&strides[2..]).rev() {
        if size == 1 {
            continue;
        }
        if pixels == 1 {
            step = stride;
        } else if stride != step * pixels as isize {
            return None;
        }
        pixels *= size;
    }
    let channels = shape[1] / groups;
    let layout = Layout::strided(
        &[shape[0], groups, channels, pixels],
        &[strides[0], strides[1] * channels as isize, strides[1], step],
        view.layout().offset(),
    );
    View::new(view.span(), view.dtype(), layout.ok()?).ok()
}
