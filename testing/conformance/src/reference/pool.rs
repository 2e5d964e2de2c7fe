//! Pooling: each window by itself.

use streampool_device::{DType, Pool, PoolKind, Slide};

use super::expected::{Expected, total};
use crate::num::Num;
use crate::operand::Operand;

/// The results, and where the largest are.
pub(super) fn pool(op: &Pool<usize>, operands: &[Operand]) -> [Vec<Expected>; 2] {
    let (src, dst) = (&operands[op.src], &operands[op.dst]);
    let values = src.values();
    let (from, to) = (&src.shape()[2..], &dst.shape()[2..]);
    let pixels: usize = from.iter().product();
    let windows: usize = to.iter().product();
    let channels = dst.shape()[0] * dst.shape()[1];
    let (mut results, mut indices) = (Vec::new(), Vec::new());
    for channel in 0..channels {
        for window in 0..windows {
            let (mut seen, mut padded) = (vec![0], 1);
            let mut rest = window;
            let mut places = Vec::new();
            for (axis, slide) in op.window.iter().enumerate().rev() {
                places.push(along(slide, rest % to[axis], from[axis]));
                rest /= to[axis];
            }
            for (axis, (inside, counted)) in places.into_iter().rev().enumerate() {
                seen = seen
                    .iter()
                    .flat_map(|outer| inside.iter().map(move |place| outer * from[axis] + place))
                    .collect();
                padded *= counted;
            }
            let elements = seen.iter().map(|&pixel| values[channel * pixels + pixel]);
            let count = match op.kind {
                PoolKind::Mean {
                    count_padding: true,
                } => padded,
                _ => seen.len(),
            };
            let (result, at) = of_window(op.kind, src.dtype, elements.collect(), count);
            results.push(result);
            let index = at.map_or(-1, |at| seen[at] as i64);
            indices.push(Expected::exact(Num::whole(index)));
        }
    }
    [results, indices]
}

/// The places inside that the window sees, and how many there are with the padding.
fn along(slide: &Slide, output: usize, size: usize) -> (Vec<usize>, usize) {
    let start = output as i64 * i64::from(slide.stride) - i64::from(slide.before);
    let places = (0..slide.kernel).map(|tap| start + i64::from(tap) * i64::from(slide.dilation));
    let padded = places
        .clone()
        .filter(|&place| place < size as i64 + i64::from(slide.after));
    let inside = places.filter_map(|place| usize::try_from(place).ok());
    (
        inside.filter(|&place| place < size).collect(),
        padded.count(),
    )
}

fn of_window(
    kind: PoolKind,
    dtype: DType,
    elements: Vec<Num>,
    count: usize,
) -> (Expected, Option<usize>) {
    let floats = || elements.iter().map(|element| element.float());
    match kind {
        PoolKind::Max => {
            let mut largest: Option<usize> = None;
            for (at, element) in elements.iter().enumerate() {
                let is_larger = largest.is_none_or(|largest| match (elements[largest], element) {
                    (Num::Int(old), Num::Int(new)) => *new > old,
                    (old, new) => !old.is_nan() && (new.is_nan() || new.float() > old.float()),
                });
                if is_larger {
                    largest = Some(at);
                }
            }
            let lowest = match dtype.is_float() {
                true => Num::Float(f64::NEG_INFINITY),
                // It saturates.
                false => Num::Float(f64::NEG_INFINITY).cast(dtype),
            };
            let value = largest.map_or(lowest, |largest| elements[largest]);
            (Expected::exact(value), largest)
        }
        PoolKind::Mean { .. } => {
            let divisor = count.max(1) as f64;
            let value = total(floats()) / divisor;
            (
                spread(value, floats().map(f64::abs).sum::<f64>() / divisor),
                None,
            )
        }
        PoolKind::Lp(power) => {
            let sum = total(floats().map(|x| x.abs().powf(power)));
            let value = sum.powf(1.0 / power);
            // The logarithms that powers are made by lose more.
            (spread(value, 8.0 * value), None)
        }
    }
}

fn spread(value: f64, scale: f64) -> Expected {
    Expected {
        value: Num::Float(value),
        scale: if scale.is_finite() { scale } else { 0.0 },
    }
}
