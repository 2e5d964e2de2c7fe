//! Regions of pictures at one size: tables say where the samples of each row and column of cells lie, and each channel is
//! gone over by them.

use std::ops::Range;

use streampool_device::Regions;

use super::convert::{Float, Native, with_float};
use super::real::Real;
use super::scratch::{Count, push, with_room};
use super::split::{Shared, split};
use super::strided::address;
use crate::given_up;
use crate::team::Team;

/// Samples that are worth a thread.
const GRAIN: usize = 1 << 13;
/// Places farther in a region than this are not looked at.
const FARTHEST: usize = 1 << 30;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Regions, team: &dyn Team) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    let pictures = op.src.shape()[0];
    let (batches, step) = (
        address::<i64>(&op.batches),
        op.batches.layout().strides()[0],
    );
    for region in 0..op.dst.shape()[0] {
        // SAFETY: the region is one of those that there are.
        let picture = unsafe { *batches.offset(region as isize * step) };
        if usize::try_from(picture).is_ok_and(|picture| picture < pictures) {
            continue;
        }
        return Err(format!(
            "region {region} is of picture {picture} of {pictures}"
        ));
    }
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { typed::<T>(op, team) };
        Ok(())
    })
}

/// Where a sample lies along one side: between two elements.
#[derive(Debug, Clone, Copy)]
struct Tap<W> {
    /// Where these lie in memory.
    low: isize,
    high: isize,
    /// What they count.
    near: W,
    far: W,
}

/// The samples of all cells along one side of a region that lie in the picture.
struct Taps<W> {
    taps: Vec<Tap<W>>,
    /// Where those of each cell end, and whether it has more outside.
    ends: Vec<(usize, bool)>,
    /// How many each cell has, inside or not.
    count: W,
}

/// A region, its taps downwards and across, and its picture.
type Tables<W> = (usize, [Taps<W>; 2], isize);

/// The taps of one cell downwards, and those across.
type Cell<'t, W> = (&'t [Tap<W>], &'t [Tap<W>]);

/// One side of a picture.
struct Side {
    size: usize,
    stride: isize,
    cells: usize,
}

impl<W: Real + Native> Taps<W> {
    fn new(op: &Regions, side: &Side, [first, last]: [W; 2]) -> Taps<W> {
        let (zero, one) = (W::ZERO, W::ONE);
        let scale = W::from_f64(op.scale);
        let half = W::from_f64(if op.aligned { 0.5 } else { 0.0 });
        let start = first * scale - half;
        let mut length = last * scale - half - start;
        // What is no number is no longer, either.
        let is_longer = length > one;
        if !op.aligned && !is_longer {
            length = one;
        }
        let cell = length / W::from_f64(side.cells as f64);
        let count = match op.samples {
            0 => W::from_f64(cell.to_f64().ceil().max(0.0)),
            samples => W::from_f64(samples as f64),
        };
        let whole = (count.to_f64() as usize).min(FARTHEST);
        let mut made = Taps {
            taps: Vec::new(),
            ends: with_room(Count::of(side.cells)),
            count,
        };
        let (step, size) = (cell / count, W::from_f64(side.size as f64));
        for index in 0..side.cells {
            given_up::check();
            let from = start + W::from_f64(index as f64) * cell;
            let inside = inside(from.to_f64(), step.to_f64(), side.size, whole);
            let mut is_outside = inside.len() < whole;
            for sample in inside {
                let place = from + (W::from_f64(sample as f64) + W::from_f64(0.5)) * step;
                if !(place >= -one && place <= size) {
                    is_outside = true;
                    continue;
                }
                let place = if place > zero { place } else { zero };
                let low = (place.to_f64() as usize).min(side.size - 1);
                let high = (low + 1).min(side.size - 1);
                let far = match low == high {
                    true => zero,
                    false => place - W::from_f64(low as f64),
                };
                push(
                    &mut made.taps,
                    Tap {
                        low: low as isize * side.stride,
                        high: high as isize * side.stride,
                        near: one - far,
                        far,
                    },
                );
            }
            push(&mut made.ends, (made.taps.len(), is_outside));
        }
        made
    }

    /// Those of one cell, and whether it has more outside.
    fn of(&self, cell: usize) -> (&[Tap<W>], bool) {
        let start = cell.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, is_outside) = self.ends[cell];
        (&self.taps[start..end], is_outside)
    }
}

/// Which of `count` samples, the first half a step behind `from`, may lie in the picture: one more at each end.
fn inside(from: f64, step: f64, size: usize, count: usize) -> Range<usize> {
    // A cell without an end has samples at no place.
    if step.is_nan() {
        return 0..0;
    }
    // Without a step forward all lie together, or few were asked for.
    let is_forward = step > 0.0;
    if !is_forward {
        return 0..count;
    }
    let before = |place: f64| ((place - from) / step - 0.5).max(0.0) as usize;
    let begin = before(-1.0).saturating_sub(1).min(count);
    begin..before(size as f64).saturating_add(2).clamp(begin, count)
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn typed<T: Float>(op: &Regions, team: &dyn Team)
where
    T::Wide: Real,
{
    let [count, channels, rows, columns] = [0, 1, 2, 3].map(|axis| op.dst.shape()[axis]);
    let samples = op.samples.clamp(2, 1 << 10);
    let worth = rows
        .saturating_mul(columns)
        .saturating_mul(samples * samples);
    let grain = GRAIN.div_ceil(worth);
    let (from, to) = (op.src.layout().strides(), op.dst.layout().strides());
    let sides = [
        Side {
            size: op.src.shape()[2],
            stride: from[2],
            cells: rows,
        },
        Side {
            size: op.src.shape()[3],
            stride: from[3],
            cells: columns,
        },
    ];
    let (src, dst) = (Shared(address::<T>(&op.src)), Shared(address::<T>(&op.dst)));
    let corners = Shared(address::<T::Wide>(&op.corners));
    let batches = Shared(address::<i64>(&op.batches));
    let corner = op.corners.layout().strides();
    split(count * channels, grain, team, &|range| {
        let mut tables: Option<Tables<T::Wide>> = None;
        for number in range {
            let (region, channel) = (number / channels, number % channels);
            if tables.as_ref().is_none_or(|(other, ..)| *other != region) {
                let region = region as isize;
                let corner = |column: isize| {
                    // SAFETY: the region has four.
                    unsafe { *corners.at(region * corner[0] + column * corner[1]) }
                };
                // SAFETY: the region is one of those that there are.
                let batch = unsafe { *batches.at(region * op.batches.layout().strides()[0]) };
                let down = Taps::new(op, &sides[0], [corner(1), corner(3)]);
                let across = Taps::new(op, &sides[1], [corner(0), corner(2)]);
                tables = Some((region as usize, [down, across], batch as isize));
            }
            let Some((_, [down, across], batch)) = &tables else {
                continue;
            };
            let src = src.at(batch * from[0] + channel as isize * from[1]);
            let dst = dst.at(region as isize * to[0] + channel as isize * to[1]);
            for row in 0..rows {
                given_up::check();
                for column in 0..columns {
                    let ((below, out_below), (beside, out_beside)) =
                        (down.of(row), across.of(column));
                    let taps = (below, beside);
                    // SAFETY: taps lie in the picture, which was checked to be one of those that there are.
                    let value = unsafe {
                        match op.largest {
                            true => largest(src.cast_const(), taps, out_below || out_beside),
                            false => mean(src.cast_const(), taps, down.count * across.count),
                        }
                    };
                    let to = dst.wrapping_offset(row as isize * to[2] + column as isize * to[3]);
                    // SAFETY: the cell is one of the result's, and of this range alone.
                    unsafe { *to = T::narrow(value) };
                }
            }
        }
    });
}

/// # Safety
/// The taps can be read from.
#[inline(always)]
unsafe fn mean<T: Float>(
    src: *const T,
    (down, across): Cell<'_, T::Wide>,
    count: T::Wide,
) -> T::Wide
where
    T::Wide: Real,
{
    let mut sum = T::Wide::ZERO;
    // SAFETY: the caller's promise.
    let at = |offset: isize| unsafe { (*src.offset(offset)).widen() };
    for row in down {
        for column in across {
            let near =
                at(row.low + column.low) * column.near + at(row.low + column.high) * column.far;
            let far =
                at(row.high + column.low) * column.near + at(row.high + column.high) * column.far;
            sum = sum + (near * row.near + far * row.far);
        }
    }
    if down.is_empty() || across.is_empty() {
        return T::Wide::ZERO;
    }
    sum / count
}

/// # Safety
/// The taps can be read from.
unsafe fn largest<T: Float>(
    src: *const T,
    (down, across): Cell<'_, T::Wide>,
    outside: bool,
) -> T::Wide
where
    T::Wide: Real,
{
    let nothing = outside || down.is_empty() || across.is_empty();
    let mut most = match nothing {
        true => T::Wide::ZERO,
        false => T::Wide::NEG_INFINITY,
    };
    // SAFETY: the caller's promise.
    let at = |offset: isize| unsafe { (*src.offset(offset)).widen() };
    for row in down {
        for column in across {
            for (place, weight) in [(row.low, row.near), (row.high, row.far)] {
                most = most.larger(at(place + column.low) * (weight * column.near));
                most = most.larger(at(place + column.high) * (weight * column.far));
            }
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_lie_nowhere_are_not_looked_at() {
        assert!(inside(0.0, f64::NAN, 8, FARTHEST).is_empty());
        assert_eq!(inside(-4.0, 1.0, 8, FARTHEST), 1..13);
        assert_eq!(inside(3.0, 0.0, 8, 5), 0..5);
    }
}
