//! Reductions.

use streampool_device::{Axes, ReduceKind};

use super::expected::{Expected, broadcast, total};
use crate::num::{Num, wrapped};
use crate::operand::Operand;

/// `kind(src)` over `axes`.
pub(super) fn reduce(kind: ReduceKind, src: &Operand, axes: Axes) -> Vec<Expected> {
    let kept: Vec<usize> = src
        .shape()
        .iter()
        .enumerate()
        .map(|(axis, &size)| if axes.contains(axis) { 1 } else { size })
        .collect();
    let mut groups = vec![Vec::new(); kept.iter().product()];
    let to = broadcast(&kept, src.shape());
    for (value, group) in src.values().into_iter().zip(to) {
        groups[group].push(value);
    }
    groups
        .into_iter()
        .map(|group| combine(kind, src, &group))
        .collect()
}

/// Elements whose sum is as exact as that of a few.
const LONG: f64 = 16384.0;

fn combine(kind: ReduceKind, src: &Operand, group: &[Num]) -> Expected {
    let float = src.dtype.is_float();
    let ints = || group.iter().map(|value| value.int());
    let floats = || group.iter().map(|value| value.float());
    // Sums of sums: what is lost grows with the root of how many there are.
    let long = (group.len() as f64 / LONG).sqrt().max(1.0);
    let magnitude = long * floats().map(f64::abs).sum::<f64>();
    match kind {
        ReduceKind::Sum if float => Expected {
            value: Num::Float(total(floats())),
            scale: finite(magnitude),
        },
        ReduceKind::Sum => whole(src, ints().fold(0, i128::wrapping_add)),
        ReduceKind::Mean => Expected {
            value: Num::Float(total(floats()) / group.len() as f64),
            scale: finite(magnitude / group.len() as f64),
        },
        ReduceKind::Prod if float => {
            let product: f64 = floats().product();
            Expected {
                value: Num::Float(product),
                scale: finite(product.abs() * group.len().max(1) as f64),
            }
        }
        ReduceKind::Prod => whole(src, ints().fold(1, i128::wrapping_mul)),
        ReduceKind::Max | ReduceKind::Min => Expected::exact(group[best(kind, group)]),
        ReduceKind::ArgMax | ReduceKind::ArgMin => {
            Expected::exact(Num::Int(best(kind, group) as i128))
        }
        ReduceKind::Any => Expected::exact(truth(group.iter().any(|value| value.is_true()))),
        ReduceKind::All => Expected::exact(truth(group.iter().all(|value| value.is_true()))),
    }
}

fn whole(src: &Operand, value: i128) -> Expected {
    Expected::exact(Num::Int(wrapped(src.dtype, value)))
}

fn truth(value: bool) -> Num {
    Num::Int(i128::from(value))
}

/// An error bound that an infinite element would make meaningless asks for the exact value instead.
fn finite(scale: f64) -> f64 {
    if scale.is_finite() { scale } else { 0.0 }
}

/// The index of the first NaN, else of the first largest or smallest.
fn best(kind: ReduceKind, group: &[Num]) -> usize {
    let largest = matches!(kind, ReduceKind::Max | ReduceKind::ArgMax);
    let mut best = 0;
    for (index, &value) in group.iter().enumerate() {
        let wins = match (group[best], value) {
            (held, _) if held.is_nan() => false,
            (_, value) if value.is_nan() => true,
            (Num::Int(held), Num::Int(value)) => {
                (largest && value > held) || (!largest && value < held)
            }
            (held, value) => {
                (largest && value.float() > held.float())
                    || (!largest && value.float() < held.float())
            }
        };
        if wins {
            best = index;
        }
    }
    best
}
