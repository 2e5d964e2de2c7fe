//! Convolutions whose windows lie side by side, such as patches of a picture: each element is seen once. So a copy in the order of
//! windows is as large as the picture, and the convolution is the product of that copy and the weights. Windows of one place need
//! no copy.

use smallvec::SmallVec;
use streampool_device::{Conv, Layout, MatMul, Slide, View};

use crate::dispatch::{Limits, Plan};
use crate::elementwise::{self, Elementwise};
use crate::matmul::{self, Product};
use crate::scratch::{in_scratch, place};
use crate::spatial::step_of;

/// Sizes of a view, and how far apart neighbours along each lie.
type Axes = SmallVec<[(usize, isize); 8]>;

/// The most bytes of scratch memory for one convolution, as for those of a library.
const MOST_SCRATCH: usize = 256 << 20;

/// The launches on tensor cores of a convolution that was validated; `None` if its windows overlap, or if this is no gain.
pub fn tensor_core_patches<K>(op: &Conv, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Elementwise> + From<Product>,
{
    let [picture, ordered] = copied(op)?;
    let [images, places, terms] = sizes(op);
    let at = ordered.span().offset;
    let rows = in_scratch(at, op.src.dtype(), &[images, places, terms])?;
    let product = product(op, rows, 1)?;
    let multiplied = matmul::tensor_core_product(&product, limits)?;
    let mut plan = elementwise::copy(&picture, &ordered, limits);
    if plan.scratch > 0 || multiplied.scratch > 0 || ordered.span().bytes > MOST_SCRATCH {
        return None;
    }
    plan.scratch = ordered.span().bytes;
    plan.dispatches.extend(multiplied.dispatches);
    place(&mut plan.dispatches);
    Some(plan).filter(Plan::fits)
}

/// The product that a convolution by windows of one place is; `None` if it is another one.
pub fn as_product(op: &Conv) -> Option<MatMul> {
    let of_one =
        |slide: &Slide| (slide.kernel, slide.stride, slide.before, slide.after) == (1, 1, 0, 0);
    let made = op.dst.shape();
    if op.groups != 1 || op.transposed || made.contains(&0) || !op.window.iter().all(of_one) {
        return None;
    }
    let ([images, places, terms], from) = (sizes(op), op.src.layout().strides());
    let across = step_of(made[2..].iter().copied().zip(from[2..].iter().copied()))?;
    let rows = [(images, from[0]), (places, across), (terms, from[1])];
    product(op, viewed(&op.src, &rows)?, op.weight.layout().strides()[1])
}

/// The elements of the picture by windows, each in the order of its weights, and as they are copied to scratch memory.
fn copied(op: &Conv) -> Option<[View; 2]> {
    let (sizes, made) = (op.weight.shape(), op.dst.shape());
    if !op.is_of_patches() || [sizes, made].iter().any(|shape| shape.contains(&0)) {
        return None;
    }
    let strides = op.weight.layout().strides();
    let mut order: SmallVec<[usize; 4]> = (1..sizes.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    step_of(order.iter().map(|&axis| (sizes[axis], strides[axis]))).filter(|&step| step == 1)?;
    let from = op.src.layout().strides();
    let mut axes: Axes = SmallVec::from_iter([(made[0], from[0])]);
    for ((slide, &count), &step) in op.window.iter().zip(&made[2..]).zip(&from[2..]) {
        axes.push((count, step.checked_mul(slide.stride as isize)?));
    }
    axes.extend(order.iter().map(|&axis| (sizes[axis], from[axis])));
    let shape: SmallVec<[usize; 8]> = axes.iter().map(|&(size, _)| size).collect();
    let ordered = in_scratch(0, op.src.dtype(), &shape)?;
    Some([viewed(&op.src, &axes)?, ordered])
}

/// How many images there are, windows of each, and terms of a window. None is zero.
fn sizes(op: &Conv) -> [usize; 3] {
    let made = op.dst.shape();
    let places = op.dst.layout().elements() / made[0] / made[1];
    [made[0], places, op.weight.layout().elements() / made[1]]
}

/// The product of windows, which are the rows of `a`, and the weights, whose terms are one `step` after the other.
fn product(op: &Conv, a: View, step: isize) -> Option<MatMul> {
    let ([_, places, terms], made) = (sizes(op), op.dst.shape());
    let to = op.dst.layout().strides();
    let across = step_of(made[2..].iter().copied().zip(to[2..].iter().copied()))?;
    let weights = [
        (1, 0),
        (terms, step),
        (made[1], op.weight.layout().strides()[0]),
    ];
    let written = [(made[0], to[0]), (places, across), (made[1], to[1])];
    Some(MatMul {
        a,
        b: viewed(&op.weight, &weights)?,
        out: viewed(&op.dst, &written)?,
        bias: op.bias,
        activation: op.activation,
        alpha: 1.0,
    })
}

/// The same memory, from the same element on, along these axes.
fn viewed(view: &View, axes: &[(usize, isize)]) -> Option<View> {
    let (sizes, strides): (SmallVec<[usize; 8]>, SmallVec<[isize; 8]>) =
        axes.iter().copied().unzip();
    let layout = Layout::strided(&sizes, &strides, view.layout().offset()).ok()?;
    View::new(view.span(), view.dtype(), layout).ok()
}
