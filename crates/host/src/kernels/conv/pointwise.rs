//! Convolutions that see one element each: products of matrices.

use streampool_device::{Conv, Layout, MatMul, Slide, View};

/// The product that the convolution is, if its window is one element, or no other sees anything, and what lies around is of
/// no matter.
pub(super) fn product(op: &Conv) -> Option<MatMul> {
    if op.src.shape()[2..] != op.dst.shape()[2..] {
        return None;
    }
    let mut first = op.weight.layout().offset() as isize;
    let strides = op.weight.layout().strides()[2..].iter();
    for ((slide, &size), &stride) in op.window.iter().zip(&op.src.shape()[2..]).zip(strides) {
        first += only_tap(slide, size, op.transposed)? as isize * stride;
    }
    let groups = op.groups;
    let (made, read) = (op.dst.shape()[1] / groups, op.src.shape()[1] / groups);
    let weight = op.weight.layout().strides();
    // From one group to the next, from one channel made to the next, and from one read.
    let [group, row, column] = match op.transposed {
        false => [weight[0] * made as isize, weight[0], weight[1]],
        true => [weight[0] * read as isize, weight[1], weight[0]],
    };
    let from = |view: &View, first: usize, shape: &[usize], strides: &[isize]| {
        let layout = Layout::strided(shape, strides, first).ok()?;
        View::new(view.span(), view.dtype(), layout).ok()
    };
    let with = |view: &View, shape: &[usize], strides: &[isize]| {
        from(view, view.layout().offset(), shape, strides)
    };
    let first = usize::try_from(first).ok()?;
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
        a: from(
            &op.weight,
            first,
            &[groups, made, read],
            &[group, row, column],
        )?,
        b: pixels(&op.src, groups)?,
        out: pixels(&op.dst, groups)?,
        bias,
        activation: op.activation,
        alpha: 1.0,
    })
}

/// The only element of the window that sees anything but padding, if each result sees its own place by it.
fn only_tap(slide: &Slide, size: usize, transposed: bool) -> Option<usize> {
    if slide.stride != 1 {
        return None;
    }
    if slide.kernel == 1 {
        return (slide.before == 0 && slide.after == 0).then_some(0);
    }
    // Those beside it are a dilation away, which is beyond the picture.
    let (before, dilation) = (slide.before, slide.dilation);
    let is_alone = !transposed && dilation as usize >= size && before.is_multiple_of(dilation);
    let tap = before / dilation;
    (is_alone && tap < slide.kernel).then_some(tap as usize)
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
