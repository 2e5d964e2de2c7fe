//! How much work an op is, whatever its operands hold: for bounds, not for schedules.

use crate::{Linalg, Op, View};

impl Op<View> {
    /// About how many elements it goes over, or how many multiplications it makes where these are more. Elements that are
    /// broadcast count each time, save where a reduction takes them at once.
    pub fn work(&self) -> u64 {
        let steps = match self {
            Op::Nop => 0,
            Op::Reduce { src, dst, axes, .. } => {
                let layout = src.layout();
                let reduced = axes.iter().filter(|&axis| layout.strides()[axis] != 0);
                times(reduced.map(|axis| layout.shape()[axis]), elements(dst))
            }
            Op::Map { expr, outputs, .. } => {
                let each = outputs.iter().step_by(expr.outputs().len().max(1));
                let all = each.map(elements).fold(0, u64::saturating_add);
                times([expr.nodes().len()], all)
            }
            Op::MatMul(op) => times(op.a.shape().last().copied(), elements(&op.out)),
            Op::Attention(op) => {
                let widths = [&op.query, &op.value].map(|view| view.shape()[3]);
                let keys = op.key.shape()[2];
                let scores = times(op.query.shape()[..3].iter().copied().chain([keys]), 1);
                times([widths[0].saturating_add(widths[1])], scores)
            }
            Op::Conv(op) => {
                let windows = if op.transposed { &op.src } else { &op.dst };
                let weights = elements(&op.weight) / (op.groups as u64).max(1);
                let channels = windows.shape()[1].max(1) as u64;
                // Each place of a window, whatever the channel, meets all weights of its group.
                let places = elements(windows) / channels;
                let grouped = weights.saturating_mul(op.groups as u64);
                places.saturating_mul(grouped)
            }
            Op::Pool(op) => {
                // Windows end at the edges.
                let sizes = op.window.iter().zip(&op.src.shape()[2..]);
                let taps = sizes.map(|(slide, &size)| size.min(slide.kernel as usize));
                times(taps, elements(&op.dst))
            }
            Op::Regions(op) => op.seen(),
            Op::Rnn(op) => {
                let products = elements(&op.weight).saturating_add(elements(&op.recurrent));
                times(op.src.shape()[..2].iter().copied(), products)
            }
            Op::Sort(op) => {
                let along = op.src.shape().get(op.axis).copied().unwrap_or(1).max(1);
                times([along.ilog2() as usize + 1], elements(&op.src))
            }
            Op::Linalg(op) => linalg(op),
            Op::Trees(op) => {
                // A leaf may list a weight for each target.
                let each = op.depth.saturating_add(op.dst.shape()[1]);
                times([op.dst.shape()[0], op.trees], each as u64)
            }
            _ => 0,
        };
        steps.max(self.walked())
    }

    /// The elements of the operand that has most of them; those of what is reduced count above.
    fn walked(&self) -> u64 {
        let mut most = 0;
        self.for_each_operand(|argument, _, view| {
            let is_product = matches!(
                self,
                Op::Reduce { .. } | Op::MatMul(_) | Op::Attention(_) | Op::Conv(_) | Op::Pool(_)
            );
            if !is_product || matches!(argument, "dst" | "out") {
                most = most.max(elements(view));
            }
        });
        most
    }
}

/// A multiplication for each element and each row or column that it meets.
fn linalg(op: &Linalg) -> u64 {
    let (result, met) = match op {
        Linalg::Lu { factors, .. } => (factors, factors.shape()),
        Linalg::LuSolve { factors, dst, .. } => (dst, factors.shape()),
        Linalg::Triangular { src, dst, .. } => (dst, src.shape()),
        Linalg::Cholesky { dst, .. } | Linalg::Inverse { dst, .. } => (dst, dst.shape()),
    };
    times(met.last().copied(), elements(result))
}

fn elements(view: &View) -> u64 {
    view.layout().elements() as u64
}

fn times(sizes: impl IntoIterator<Item = usize>, of: u64) -> u64 {
    let sizes = sizes.into_iter().map(|size| size as u64);
    sizes.fold(of, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Axes, DType, Layout, MatMul, ReduceKind, Span};

    fn view(shape: &[usize], handle: u64) -> View {
        let elements: usize = shape.iter().product();
        let span = Span {
            handle,
            offset: 0,
            bytes: elements * 4,
        };
        View::new(span, DType::F32, Layout::contiguous(shape).unwrap()).unwrap()
    }

    fn broadcast(shape: &[usize]) -> View {
        let one = view(&[1], 1);
        let layout = one.layout().broadcast_to(shape).unwrap();
        View::new(one.span(), DType::F32, layout).unwrap()
    }

    #[test]
    fn a_product_over_a_broadcast_counts_each_step() {
        let op = Op::MatMul(MatMul {
            a: broadcast(&[3, 1 << 40]),
            b: broadcast(&[1 << 40, 2]),
            out: view(&[3, 2], 2),
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        });
        assert_eq!(op.work(), 6 << 40);
    }

    #[test]
    fn a_reduction_takes_what_is_broadcast_at_once() {
        let sum = |src: View, dst: View, axes: &[usize]| Op::Reduce {
            kind: ReduceKind::Sum,
            src,
            dst,
            axes: Axes::new(axes).unwrap(),
        };
        let op = sum(broadcast(&[4, 1 << 40]), view(&[4, 1], 2), &[1]);
        assert_eq!(op.work(), 4);
        let op = sum(view(&[4, 100], 3), view(&[4, 1], 2), &[1]);
        assert_eq!(op.work(), 400);
    }
}
