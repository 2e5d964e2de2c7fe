//! Counts per bin.
//!
//! Chunks of a fixed length are counted by themselves and added in their order: the result has the same bits
//! however many threads there are.

use streampool_device::{Dims, Error, Histogram, View};

use super::each_chunk;
use crate::kernels::convert::{Native, with_native};
use crate::kernels::scratch::{Count, filled};
use crate::kernels::simd::vectorised;
use crate::kernels::split::Shared;
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// Elements of a chunk, if there are not as many bins.
const CHUNK: usize = 1 << 16;
/// Elements that are read before they are counted.
const BLOCK: usize = 256;

/// `dst[b] =` how many elements of `src` lie in bin `b`, or the sum of their weights.
///
/// # Safety
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn histogram(op: &Histogram, team: &dyn Team) -> Result<(), String> {
    // SAFETY: passed on.
    unsafe {
        match &op.weights {
            None => tally::<i64>(op, None, team),
            Some(weights) => tally::<f64>(op, Some(weights), team),
        }
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

/// The elements of a view as `f64`.
#[derive(Clone, Copy)]
struct Reader {
    first: Shared<u8>,
    size: isize,
    read: unsafe fn(*const u8, isize, &mut [f64]),
}

impl Reader {
    fn new(view: &View) -> Reader {
        with_native!(view.dtype(), T => Reader {
            first: Shared(address::<T>(view).cast()),
            size: size_of::<T>() as isize,
            read: read::<T>,
        })
    }

    /// Reads the elements from this one on, `step` apart.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn read(&self, at: isize, step: isize, to: &mut [f64]) {
        // SAFETY: the elements are of the type of `read`; the rest is passed on.
        unsafe { (self.read)(self.first.at(at * self.size), step, to) };
    }
}

vectorised! {
    /// # Safety
    /// The elements are of type `T` and can be read.
    unsafe fn read[T: Native](from: *const u8, step: isize, to: &mut [f64]) {
        let from = from.cast::<T>();
        for (element, to) in (0..).zip(to) {
            // SAFETY: the caller's promise.
            *to = unsafe { *from.offset(element * step) }.to_f64();
        }
    }
}

/// # Safety
/// As for [`histogram`]; the weights have the shape of the source.
unsafe fn tally<A: Sum>(
    op: &Histogram,
    weights: Option<&View>,
    team: &dyn Team,
) -> Result<(), String> {
    let bins = op.dst.layout().elements();
    let strides = [&op.src, weights.unwrap_or(&op.src)].map(|view| view.layout().strides());
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
    let (values, weights) = (Reader::new(&op.src), weights.map(Reader::new));
    let steps = walk.run_strides();
    let places = Shared(sums.as_mut_ptr());
    each_chunk(&walk, length, team, &|chunk| {
        // SAFETY: each chunk has bins of its own in the vector.
        let sums =
            unsafe { std::slice::from_raw_parts_mut(places.at((chunk * bins) as isize), bins) };
        let (mut value, mut weight) = ([0.0; BLOCK], [1.0; BLOCK]);
        walk.for_each_run(
            chunk * length..(chunk + 1) * length,
            &mut |offsets, count| {
                for start in (0..count).step_by(BLOCK) {
                    let block = BLOCK.min(count - start);
                    let at =
                        [0, 1].map(|operand| offsets[operand] + start as isize * steps[operand]);
                    // SAFETY: the walk stays inside the source and the weights.
                    unsafe {
                        values.read(at[0], steps[0], &mut value[..block]);
                        if let Some(weights) = &weights {
                            weights.read(at[1], steps[1], &mut weight[..block]);
                        }
                    }
                    for (&value, &weight) in value[..block].iter().zip(&weight) {
                        if let Some(bin) = bin(value, op.low, op.high, bins) {
                            sums[bin].add(weight);
                        }
                    }
                }
            },
        );
    });
    let (total, others) = sums.split_at_mut(bins);
    for sums in others.chunks_exact(bins) {
        for (total, &sum) in total.iter_mut().zip(sums) {
            *total = total.plus(sum);
        }
    }
    if repeats > 1 {
        total.iter_mut().for_each(|total| total.repeat(repeats));
    }
    with_native!(op.dst.dtype(), T => {
        let (to, step) = (address::<T>(&op.dst), op.dst.layout().strides()[0]);
        for (bin, &sum) in (0..).zip(&*total) {
            // SAFETY: passed on; there are as many elements as bins.
            unsafe { to.offset(bin * step).write(sum.cast()) };
        }
    });
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

/// What the elements of a bin come to: their number, or the sum of their weights.
trait Sum: Copy + Default + Send {
    /// Counts one element more.
    fn add(&mut self, weight: f64);

    /// Counts it so many times.
    fn repeat(&mut self, count: usize);

    fn plus(self, other: Self) -> Self;

    fn cast<T: Native>(self) -> T;
}

impl Sum for i64 {
    #[inline(always)]
    fn add(&mut self, _weight: f64) {
        *self += 1;
    }

    fn repeat(&mut self, count: usize) {
        *self = self.wrapping_mul(count as i64);
    }

    fn plus(self, other: i64) -> i64 {
        self + other
    }

    fn cast<T: Native>(self) -> T {
        T::of_int(self)
    }
}

impl Sum for f64 {
    #[inline(always)]
    fn add(&mut self, weight: f64) {
        *self += weight;
    }

    fn repeat(&mut self, count: usize) {
        *self *= count as f64;
    }

    fn plus(self, other: f64) -> f64 {
        self + other
    }

    fn cast<T: Native>(self) -> T {
        T::of_float(self)
    }
}
