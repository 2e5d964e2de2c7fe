//! Running totals, and order.

use std::cmp::Ordering;

use streampool_device::{DType, Scan, ScanKind, Sort};

use super::expected::Expected;
use super::index::{number, place};
use crate::num::{Num, wrapped};
use crate::operand::Operand;

/// The row-major numbers of each line of `shape` along `axis`.
fn lines(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let mut others = shape.to_vec();
    others[axis] = 1;
    let first = |line: usize| place(line, &others);
    (0..others.iter().product())
        .map(|line| {
            let mut at: Vec<usize> = first(line);
            (0..shape[axis])
                .map(|along| {
                    at[axis] = along;
                    number(&at, shape)
                })
                .collect()
        })
        .collect()
}

/// The running totals of every line.
pub(super) fn scan(op: &Scan<usize>, src: &Operand) -> Vec<Expected> {
    let values = src.values();
    let mut results = vec![Expected::exact(Num::whole(0)); values.len()];
    for mut line in lines(src.shape(), op.axis) {
        if op.reverse {
            line.reverse();
        }
        let (mut total, mut met, mut sum) = (identity(op.kind, src.dtype), 0.0, 0.0);
        for number in line {
            let before = (total, met, sum);
            let next = values[number];
            total = combined(op.kind, total, next, src.dtype);
            met += 1.0;
            sum += next.float().abs();
            let (value, met, sum) = if op.exclusive {
                before
            } else {
                (total, met, sum)
            };
            let scale = match op.kind {
                ScanKind::Sum => sum,
                ScanKind::Prod => value.float().abs() * met,
                ScanKind::Max | ScanKind::Min => 0.0,
            };
            let scale = if src.dtype.is_float() && scale.is_finite() {
                scale
            } else {
                0.0
            };
            results[number] = Expected { value, scale };
        }
    }
    results
}

fn identity(kind: ScanKind, dtype: DType) -> Num {
    let value = match kind {
        ScanKind::Sum => 0.0,
        ScanKind::Prod => 1.0,
        ScanKind::Max => f64::NEG_INFINITY,
        ScanKind::Min => f64::INFINITY,
    };
    Num::Float(value).cast(dtype)
}

fn combined(kind: ScanKind, total: Num, next: Num, dtype: DType) -> Num {
    match (total, next) {
        (Num::Int(x), Num::Int(y)) => Num::Int(wrapped(
            dtype,
            match kind {
                ScanKind::Sum => x + y,
                ScanKind::Prod => x.wrapping_mul(y),
                ScanKind::Max => x.max(y),
                ScanKind::Min => x.min(y),
            },
        )),
        (x, y) if x.is_nan() || y.is_nan() => Num::Float(f64::NAN),
        (x, y) => {
            let (x, y) = (x.float(), y.float());
            Num::Float(match kind {
                ScanKind::Sum => x + y,
                ScanKind::Prod => x * y,
                ScanKind::Max => x.max(y),
                ScanKind::Min => x.min(y),
            })
        }
    }
}

/// The first values of every line in order, and where they were.
pub(super) fn sort(op: &Sort<usize>, operands: &[Operand]) -> [Vec<Expected>; 2] {
    let (src, out) = (&operands[op.src], &operands[op.values]);
    let values = src.values();
    let count = out.layout.elements();
    let nothing = vec![Expected::exact(Num::whole(0)); count];
    let mut results = [nothing.clone(), nothing];
    let targets = lines(out.shape(), op.axis);
    for (line, target) in lines(src.shape(), op.axis).into_iter().zip(targets) {
        let mut places: Vec<usize> = (0..line.len()).collect();
        places.sort_by(|&x, &y| {
            let order = compared(values[line[x]], values[line[y]]);
            if op.descending {
                order.reverse()
            } else {
                order
            }
        });
        for (&place, &to) in places.iter().zip(&target) {
            results[0][to] = Expected::exact(values[line[place]]);
            results[1][to] = Expected::exact(Num::Int(place as i128));
        }
    }
    results
}

/// NaN counts as larger than everything.
fn compared(x: Num, y: Num) -> Ordering {
    match (x, y) {
        (Num::Int(x), Num::Int(y)) => x.cmp(&y),
        (x, y) => x
            .float()
            .partial_cmp(&y.float())
            .unwrap_or_else(|| x.is_nan().cmp(&y.is_nan())),
    }
}
