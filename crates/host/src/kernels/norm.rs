//! Layer and RMS normalisation.

use streampool_device::{Norm, NormKind, View};

use super::convert::{Float, with_float};
use super::real::Real;
use super::rows::{self, MOST_TOGETHER, sum_of};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 13;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Norm, team: &dyn Team) -> Result<(), String> {
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { rows_of::<T>(op, team) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn rows_of<T: Float>(op: &Norm, team: &dyn Team) {
    let (outer, inner) = op.src.shape().split_at(op.axis);
    let length: usize = inner.iter().product();
    if length == 0 {
        return;
    }
    let (source, target) = (op.src.layout().strides(), op.dst.layout().strides());
    let rows = Walk::in_memory_order(outer, [&source[..op.axis], &target[..op.axis]], 1);
    let between = rows.run_strides();
    // Within a row, the numbers in the scratch are in the order of the row's dimensions.
    let reading = Walk::new(inner, [&source[op.axis..]]);
    let writing = Walk::new(inner, [&target[op.axis..]]);
    let (from, to) = (Shared(address::<T>(&op.src)), Shared(address::<T>(&op.dst)));
    let added = op.added.map(|added| Shared(address::<T>(&added)));
    let sum = op.sum.map(|sum| Shared(address::<T>(&sum)));
    let together = rows::together(length);
    split(rows.elements(), GRAIN.div_ceil(length), team, &|range| {
        rows::with_row::<T::Wide, _>((2 + together) * length, |scratch| {
            let (scale, scratch) = scratch.split_at_mut(length);
            let (bias, scratch) = scratch.split_at_mut(length);
            // SAFETY: the views have the rows' shape.
            unsafe {
                operand::<T>(op.scale.as_ref(), T::Wide::ONE, scale);
                // Added to a negative zero it leaves that as it is, which a positive one does not.
                operand::<T>(op.bias.as_ref(), -T::Wide::ZERO, bias);
            }
            rows.for_each_run(range, &mut |offsets, count| {
                for first in (0..count).step_by(together) {
                    let indices = || (first..count.min(first + together)).map(|row| row as isize);
                    let some = &mut scratch[..indices().len() * length];
                    for (row, index) in some.chunks_exact_mut(length).zip(indices()) {
                        let row_from =
                            |index: isize| from.at(offsets[0] + index * between[0]).cast_const();
                        if reading.run_strides()[0] == 1 {
                            rows::prefetch(row_from(index + together as isize), length);
                        }
                        // SAFETY: the row lies in the view, and is read before it is written, in case they are one.
                        unsafe {
                            for_each_part::<T>(&reading, row_from(index), row, rows::read::<T>)
                        };
                        if let Some(added) = &added {
                            let from = added.at(offsets[0] + index * between[0]).cast_const();
                            // SAFETY: it is laid out as the view is.
                            unsafe { for_each_part::<T>(&reading, from, row, rows::add::<T>) };
                        }
                        if let Some(sum) = &sum {
                            let to = sum.at(offsets[0] + index * between[0]);
                            let step = reading.run_strides()[0];
                            let mut done = 0;
                            reading.for_each_run(0..length, &mut |[offset], count| {
                                let part = &row[done..done + count];
                                // SAFETY: it is laid out as the view is; ranges are disjoint.
                                unsafe { store::<T>(part, to.offset(offset), step) };
                                done += count;
                            });
                        }
                    }
                    let mut factors = [T::Wide::ONE; MOST_TOGETHER];
                    // SAFETY: none is needed.
                    unsafe {
                        normalise::<T::Wide>(some, length, &mut factors, op.kind, op.epsilon)
                    };
                    let finished = some.chunks_exact(length).zip(&factors);
                    for ((row, &factor), index) in finished.zip(indices()) {
                        let to = to.at(offsets[1] + index * between[1]);
                        let step = writing.run_strides()[0];
                        let mut done = 0;
                        writing.for_each_run(0..length, &mut |[offset], count| {
                            let end = done + count;
                            let (row, scale, bias) =
                                (&row[done..end], &scale[done..end], &bias[done..end]);
                            // SAFETY: the row lies in the view; ranges are disjoint.
                            unsafe {
                                finish::<T>(row, factor, scale, bias, to.offset(offset), step)
                            };
                            done = end;
                        });
                    }
                }
            });
        });
    });
}

/// Fills the row from a view of its shape, or with the number that makes no difference.
///
/// # Safety
/// The elements are of type `T` and can be read.
unsafe fn operand<T: Float>(view: Option<&View>, neutral: T::Wide, row: &mut [T::Wide]) {
    match view {
        // SAFETY: the caller's promise.
        Some(view) => unsafe {
            let walk = Walk::new(view.shape(), [view.layout().strides()]);
            for_each_part::<T>(&walk, address::<T>(view), row, rows::read::<T>);
        },
        None => row.fill(neutral),
    }
}

/// Calls `act` with the elements that the walk comes to, in runs a step apart, and the part of the row for each.
///
/// # Safety
/// The elements can be read.
unsafe fn for_each_part<T: Float>(
    walk: &Walk<1>,
    from: *const T,
    row: &mut [T::Wide],
    act: unsafe fn(*const T, isize, &mut [T::Wide]),
) {
    let mut done = 0;
    walk.for_each_run(0..row.len(), &mut |[offset], count| {
        let part = &mut row[done..done + count];
        // SAFETY: the caller's promise.
        unsafe { act(from.offset(offset), walk.run_strides()[0], part) };
        done += count;
    });
}

vectorised! {
    /// Centres rows of this length where they are to be, and leaves the factors to normalise them with.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    unsafe fn normalise[R: Real](
        rows: &mut [R],
        length: usize,
        factors: &mut [R; MOST_TOGETHER],
        kind: NormKind,
        epsilon: f64,
    ) {
        let count = R::from_f64(length as f64);
        let mut means = [R::ZERO; MOST_TOGETHER];
        if kind == NormKind::Layer {
            for (row, mean) in rows.chunks_exact_mut(length).zip(&mut means) {
                *mean = sum_of(row, |x| *x) / count;
            }
        }
        for ((row, &mean), factor) in rows.chunks_exact_mut(length).zip(&means).zip(factors) {
            let square = sum_of(row, |x| {
                *x = *x - mean;
                *x * *x
            });
            *factor = R::ONE / (square / count + R::from_f64(epsilon)).sqrt();
        }
    }
}

vectorised! {
    /// Stores the row, multiplied with a factor and a scale, plus a bias, to elements `step` apart.
    ///
    /// # Safety
    /// The elements can be written.
    unsafe fn finish[T: Float](
        row: &[T::Wide],
        factor: T::Wide,
        scale: &[T::Wide],
        bias: &[T::Wide],
        to: *mut T,
        step: isize,
    ) {
        let numbers = row.iter().zip(scale).zip(bias);
        let numbers = numbers.map(|((&x, &scale), &bias)| x * factor * scale + bias);
        // SAFETY: the caller's promise.
        unsafe { rows::store::<T>(numbers, to, step) };
    }
}

vectorised! {
    /// Stores a part of a row to elements `step` apart.
    ///
    /// # Safety
    /// The elements can be written.
    unsafe fn store[T: Float](row: &[T::Wide], to: *mut T, step: isize) {
        // SAFETY: the caller's promise.
        unsafe { rows::store::<T>(row.iter().copied(), to, step) };
    }
}
