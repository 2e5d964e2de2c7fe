//! Counts per bin.
//!
//! Chunks of a fixed length are counted by themselves and added in their order: the result has the same bits
//! however many threads there are.

use streampool_device::{Dims, Error, Histogram, View};

use super::each_chunk;
use crate::kernels::convert::{CastTo, Native, with_native};
use crate::kernels::scratch::{Count, filled};
use crate::kernels::split::Shared;
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// Elements of a chunk, if there are not as many bins.
const CHUNK: usize = 1 << 16;

/// `dst[b] =` how many elements of `src` lie in bin `b`, or the sum of their weights.
///
/// # Safety
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn histogram(op: &Histogram, team: &dyn Team) -> Result<(), String> {
    with_native!(op.src.dtype(), T => {
        // SAFETY: elements are of the types; the rest is passed on.
        unsafe {
            match &op.weights {
                None => tally::<T, i64, One>(op, One, op.src, team),
                Some(weights) => with_native!(weights.dtype(), W => {
                    tally::<T, f64, Each<W>>(op, Each(Shared(address::<W>(weights))), *weights, team)
                }),
            }
        }
    })
}

fn told(error: Error) -> String {
    error.to_string()
}

/// What an element counts for.
trait Weight<A>: Copy + Sync {
    /// What the element at this offset counts for.
    ///
    /// # Safety
    /// The weight there can be read.
    unsafe fn at(self, offset: isize) -> A;
}

/// One, whichever it is.
#[derive(Clone, Copy)]
struct One;

impl Weight<i64> for One {
    #[inline(always)]
    unsafe fn at(self, _offset: isize) -> i64 {
        1
    }
}

/// What its weight says.
struct Each<W>(Shared<W>);

impl<W> Clone for Each<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Each<W> {}

impl<W: CastTo<f64>> Weight<f64> for Each<W> {
    #[inline(always)]
    unsafe fn at(self, offset: isize) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { *self.0.at(offset) }.cast_to()
    }
}

/// # Safety
/// As for [`histogram`]; elements are of type `T`, and `weights` has the shape of the source.
unsafe fn tally<T, A, W>(
    op: &Histogram,
    weight: W,
    weights: View,
    team: &dyn Team,
) -> Result<(), String>
where
    T: Native + CastTo<f64>,
    A: Copy + Default + Send + std::ops::AddAssign + Storable,
    W: Weight<A>,
{
    let bins = op.dst.layout().elements();
    let strides = [op.src.layout().strides(), weights.layout().strides()];
    // Along an axis that is broadcast in both, all elements are one.
    let (mut shape, mut repeats) = (Dims::new(op.src.shape()).map_err(told)?, 1);
    for (axis, size) in shape.iter_mut().enumerate() {
        if *size > 1 && strides.iter().all(|strides| strides[axis] == 0) {
            repeats *= std::mem::replace(size, 1);
        }
    }
    let walk = Walk::in_memory_order(&shape, strides, 0);
    let length = CHUNK.max(bins.saturating_mul(4));
    let chunks = walk.elements().div_ceil(length).max(1);
    let mut sums = filled(A::default(), Count::of(chunks) * bins);
    let (from, steps) = (Shared(address::<T>(&op.src)), walk.run_strides());
    let places = Shared(sums.as_mut_ptr());
    each_chunk(&walk, length, team, &|chunk| {
        // SAFETY: each chunk has bins of its own in the vector.
        let sums =
            unsafe { std::slice::from_raw_parts_mut(places.at((chunk * bins) as isize), bins) };
        walk.for_each_run(chunk * length..(chunk + 1) * length, |offsets, count| {
            for element in 0..count as isize {
                // SAFETY: the walk stays inside the source and the weights.
                unsafe {
                    let value = (*from.at(offsets[0] + element * steps[0])).cast_to();
                    if let Some(bin) = bin(value, op.low, op.high, bins) {
                        sums[bin] += weight.at(offsets[1] + element * steps[1]);
                    }
                }
            }
        });
    });
    let (total, others) = sums.split_at_mut(bins);
    for sums in others.chunks_exact(bins) {
        for (total, &sum) in total.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    if repeats > 1 {
        total.iter_mut().for_each(|total| total.repeat(repeats));
    }
    // SAFETY: passed on.
    unsafe { A::store(total, &op.dst) };
    Ok(())
}

/// The bin of a value, if it lies in one.
#[inline(always)]
fn bin(value: f64, low: f64, high: f64, bins: usize) -> Option<usize> {
    // False for NaN.
    if !(value >= low && value <= high) {
        return None;
    }
    let place = (value - low) / (high - low) * bins as f64;
    Some((place as usize).min(bins - 1))
}

/// A sum that can be stored as the type of the result.
trait Storable: Sized {
    /// Counts it so many times.
    fn repeat(&mut self, count: usize);

    /// Writes the sums.
    ///
    /// # Safety
    /// The result can be written and has as many elements.
    unsafe fn store(sums: &[Self], dst: &View);
}

impl Storable for i64 {
    fn repeat(&mut self, count: usize) {
        *self = self.wrapping_mul(count as i64);
    }

    unsafe fn store(sums: &[i64], dst: &View) {
        // SAFETY: passed on.
        unsafe { store::<i64, i64>(sums, dst) }
    }
}

impl Storable for f64 {
    fn repeat(&mut self, count: usize) {
        *self *= count as f64;
    }

    unsafe fn store(sums: &[f64], dst: &View) {
        with_native!(dst.dtype(), W => {
            // SAFETY: passed on.
            unsafe { store::<f64, W>(sums, dst) }
        });
    }
}

/// # Safety
/// As for [`Storable::store`]; the result is of type `W`.
unsafe fn store<A: CastTo<W>, W: Native>(sums: &[A], dst: &View) {
    let (to, step) = (address::<W>(dst), dst.layout().strides()[0]);
    for (bin, &sum) in (0..).zip(sums) {
        // SAFETY: the caller's promise.
        unsafe { to.offset(bin * step).write(sum.cast_to()) };
    }
}
