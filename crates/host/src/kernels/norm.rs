//! Layer and RMS normalisation.

use streampool_device::{Norm, NormKind, View};

use super::convert::{Float, with_float};
use super::real::Real;
use super::rows::{self, sum_of};
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 15;

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
    // Within a row, the order of the numbers in the scratch must be the one of scale and bias.
    let none = [0; streampool_device::MAX_RANK];
    let strides = |view: &Option<View>| {
        view.map_or(none, |view| {
            let mut strides = none;
            strides[..inner.len()].copy_from_slice(view.layout().strides());
            strides
        })
    };
    let (scale, bias) = (strides(&op.scale), strides(&op.bias));
    let reading = Walk::new(inner, [&source[op.axis..]]);
    let writing = Walk::new(
        inner,
        [
            &target[op.axis..],
            &scale[..inner.len()],
            &bias[..inner.len()],
        ],
    );
    let (from, to) = (Shared(address::<T>(&op.src)), Shared(address::<T>(&op.dst)));
    let scale = op.scale.map(|view| Shared(address::<T>(&view)));
    let bias = op.bias.map(|view| Shared(address::<T>(&view)));
    split(rows.elements(), GRAIN.div_ceil(length), team, &|range| {
        rows::with_row::<T::Wide, _>(length, |row| {
            rows.for_each_run(range, |offsets, count| {
                for index in 0..count as isize {
                    let from = from.at(offsets[0] + index * between[0]);
                    let to = to.at(offsets[1] + index * between[1]);
                    // SAFETY: the row lies in the views and is read before it is written, in case they are
                    // one; scale and bias have its shape; ranges are disjoint.
                    unsafe {
                        let mut filled = 0;
                        reading.for_each_run(0..length, |[offset], count| {
                            let part = &mut row[filled..filled + count];
                            rows::read::<T>(from.offset(offset), reading.run_strides()[0], part);
                            filled += count;
                        });
                        normalise::<T::Wide>(row, op.kind, op.epsilon);
                        let mut done = 0;
                        writing.for_each_run(
                            0..length,
                            |[offset, scale_offset, bias_offset], count| {
                                let part = &mut row[done..done + count];
                                let [step, scale_step, bias_step] = writing.run_strides();
                                let scale = scale
                                    .map(|scale| (scale.at(scale_offset).cast_const(), scale_step));
                                let bias =
                                    bias.map(|bias| (bias.at(bias_offset).cast_const(), bias_step));
                                affine::<T>(part, scale, bias);
                                rows::write::<T>(part, to.offset(offset), step);
                                done += count;
                            },
                        );
                    }
                }
            });
        });
    });
}

vectorised! {
    /// Normalises a row in place.
    ///
    /// # Safety
    /// None is needed: it is declared so as the other compiled loops are.
    unsafe fn normalise[R: Real](row: &mut [R], kind: NormKind, epsilon: f64) {
        let count = R::from_f64(row.len() as f64);
        if kind == NormKind::Layer {
            let mean = sum_of(row, |x| x) / count;
            row.iter_mut().for_each(|x| *x = *x - mean);
        }
        let square = sum_of(row, |x| x * x) / count;
        let scale = R::ONE / (square + R::from_f64(epsilon)).sqrt();
        row.iter_mut().for_each(|x| *x = *x * scale);
    }
}

vectorised! {
    /// Multiplies the row with one operand and adds another, each elements some step apart.
    ///
    /// # Safety
    /// As many elements of both can be read as the row is long.
    unsafe fn affine[T: Float](
        row: &mut [T::Wide],
        scale: Option<(*const T, isize)>,
        bias: Option<(*const T, isize)>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match scale {
                Some((scale, 1)) => {
                    for (index, value) in row.iter_mut().enumerate() {
                        *value = *value * (*scale.add(index)).widen();
                    }
                }
                Some((scale, step)) => {
                    for (index, value) in row.iter_mut().enumerate() {
                        *value = *value * (*scale.offset(index as isize * step)).widen();
                    }
                }
                None => {}
            }
            match bias {
                Some((bias, 1)) => {
                    for (index, value) in row.iter_mut().enumerate() {
                        *value = *value + (*bias.add(index)).widen();
                    }
                }
                Some((bias, step)) => {
                    for (index, value) in row.iter_mut().enumerate() {
                        *value = *value + (*bias.offset(index as isize * step)).widen();
                    }
                }
                None => {}
            }
        }
    }
}
