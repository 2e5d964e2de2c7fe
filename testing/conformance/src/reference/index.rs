//! Picking and putting by index.

use streampool_device::{Combine, Gather, Indexing, Scatter};

use super::expected::Expected;
use crate::num::{Num, wrapped};
use crate::operand::Operand;

/// The elements that are named; zero for what is out of range.
pub(super) fn gather(op: &Gather<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (src, dst) = (&operands[op.src], &operands[op.dst]);
    let values = src.values();
    let named = named(op.indexing, src.shape(), &operands[op.indices], dst.shape());
    let picked = named.into_iter().map(|place| match place {
        Some(place) => Expected::exact(values[place]),
        None => Expected::exact(Num::whole(0).cast(src.dtype)),
    });
    picked.collect()
}

/// The source with the updates, one after the other; what is out of range is left out.
pub(super) fn scatter(op: &Scatter<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (src, updates) = (&operands[op.src], &operands[op.updates]);
    let float = src.dtype.is_float();
    let mut results: Vec<Expected> = src.values().into_iter().map(Expected::exact).collect();
    let named = named(
        op.indexing,
        src.shape(),
        &operands[op.indices],
        updates.shape(),
    );
    // How many became one, and the sum of their magnitudes.
    let mut met: Vec<(f64, f64)> = results
        .iter()
        .map(|result| (1.0, result.value.float().abs()))
        .collect();
    for (place, new) in named.into_iter().zip(updates.values()) {
        let Some(place) = place else { continue };
        let old = results[place].value;
        results[place].value = combined(op.combine, old, new);
        let (count, sum) = &mut met[place];
        *count += 1.0;
        *sum += new.float().abs();
    }
    for (result, (count, sum)) in results.iter_mut().zip(met) {
        let scale = match op.combine {
            Combine::Add => sum * count,
            Combine::Mul => result.value.float().abs() * count,
            Combine::Replace | Combine::Min | Combine::Max => 0.0,
        };
        match result.value {
            Num::Float(_) if float && scale.is_finite() && count > 1.0 => result.scale = scale,
            Num::Int(value) => result.value = Num::Int(wrapped(src.dtype, value)),
            Num::Float(_) => {}
        }
    }
    results
}

fn combined(combine: Combine, old: Num, new: Num) -> Num {
    if combine == Combine::Replace || new.is_nan() {
        return new;
    }
    if old.is_nan() {
        return old;
    }
    match (old, new) {
        (Num::Int(old), Num::Int(new)) => Num::Int(match combine {
            Combine::Add => old.wrapping_add(new),
            Combine::Mul => old.wrapping_mul(new),
            Combine::Min => old.min(new),
            Combine::Max | Combine::Replace => old.max(new),
        }),
        (old, new) => {
            let (old, new) = (old.float(), new.float());
            Num::Float(match combine {
                Combine::Add => old + new,
                Combine::Mul => old * new,
                Combine::Min => old.min(new),
                Combine::Max | Combine::Replace => old.max(new),
            })
        }
    }
}

/// For each of the indexed elements, whose shape is `picked`, the row-major number of its place in `data`, if it
/// has one.
fn named(
    indexing: Indexing,
    data: &[usize],
    indices: &Operand,
    picked: &[usize],
) -> Vec<Option<usize>> {
    let (values, lists) = (indices.values(), indices.shape());
    // The index at a place of the indices, along an axis of the data.
    let index = |at: &[usize], axis: usize| {
        let index = values[number(at, lists)].int();
        let size = data[axis] as i128;
        let from_start = if index < 0 { index + size } else { index };
        (0..size)
            .contains(&from_start)
            .then_some(from_start as usize)
    };
    (0..picked.iter().product())
        .map(|element| {
            let at = place(element, picked);
            let found: Vec<usize> = match indexing {
                Indexing::Axis(axis) => {
                    let end = axis + lists.len();
                    let index = index(&at[axis..end], axis)?;
                    [&at[..axis], &[index], &at[end..]].concat()
                }
                Indexing::Elements(axis) => {
                    let mut found = at.clone();
                    found[axis] = index(&at, axis)?;
                    found
                }
                Indexing::Nd(batch) => {
                    let end = lists.len() - 1;
                    let listed = (0..lists[end])
                        .map(|entry| index(&[&at[..end], &[entry]].concat(), batch + entry))
                        .collect::<Option<Vec<usize>>>()?;
                    [&at[..batch], &listed, &at[end..]].concat()
                }
            };
            Some(number(&found, data))
        })
        .collect()
}

/// The row-major number of a place.
pub(super) fn number(at: &[usize], shape: &[usize]) -> usize {
    at.iter()
        .zip(shape)
        .fold(0, |number, (&at, &size)| number * size + at)
}

/// The place of a row-major number.
pub(super) fn place(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (at, &size) in place.iter_mut().zip(shape).rev() {
        *at = number % size;
        number /= size;
    }
    place
}
