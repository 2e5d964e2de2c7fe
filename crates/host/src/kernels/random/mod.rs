//! Random numbers: each a function of the seed and its place, and computed in steps that every device rounds alike.

mod draw;
mod gamma;
mod math;
mod philox;

use half::{bf16, f16};
use streampool_device::{DType, Random, View};
use streampool_kernels::random::Recipe;

use self::draw::{Bernoulli, Bits, Exponential, Integers, Normal, Source, Uniform};
use self::gamma::Gamma;
use self::philox::{Key, PLACES};
use super::convert::{Native, Truth, with_float, with_types};
use super::real::Real;
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 14;
/// Elements that are drawn before they are stored.
const BATCH: usize = 8 * PLACES;

/// `$body` with `$name` standing for the type of any number, or for that of truth values. Integers of one size are the
/// same bits.
macro_rules! with_any {
    ($dtype:expr, $name:ident => $body:expr) => {
        with_types!($dtype, $name => $body, {
            F32 = f32, F16 = f16, BF16 = bf16, F64 = f64, I8 = u8, U8 = u8, I16 = u16, U16 = u16,
            I32 = u32, U32 = u32, I64 = u64, U64 = u64, Bool = Truth
        })
    };
}

/// Executes it.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Random, team: &dyn Team) -> Result<(), String> {
    let (dst, offset) = (&op.dst, op.offset);
    let key = Key::of(op.seed);
    // SAFETY: the element types are the view's; the rest is passed on.
    unsafe {
        match Recipe::of(&op.distribution, dst.dtype()) {
            Recipe::Bits => with_types!(dst.dtype(), T => {
                run(dst, offset, Bits::<T>::new(key), team);
            }, {
                I8 = u8, U8 = u8, I16 = u16, U16 = u16, I32 = u32, U32 = u32, I64 = u64, U64 = u64
            }, other => return Err(not_an_integer(other))),
            Recipe::Integers { low, range } => with_any!(dst.dtype(), T => {
                run(dst, offset, Integers::<T>::new(key, low, range), team);
            }),
            Recipe::Bernoulli { threshold } => with_any!(dst.dtype(), T => {
                run(dst, offset, Bernoulli::<T>::new(key, threshold), team);
            }),
            Recipe::Uniform { low, high, span } => {
                return with_float!(dst.dtype(), T => {
                    run(dst, offset, Uniform::<T>::new(key, [low, high, span].map(Real::from_f64)), team);
                    Ok(())
                });
            }
            Recipe::Normal { mean, deviation } => {
                return with_float!(dst.dtype(), T => {
                    run(dst, offset, Normal::<T>::new(key, [mean, deviation].map(Real::from_f64)), team);
                    Ok(())
                });
            }
            Recipe::Exponential { rate } => {
                return with_float!(dst.dtype(), T => {
                    run(dst, offset, Exponential::<T>::new(key, Real::from_f64(rate)), team);
                    Ok(())
                });
            }
            Recipe::Gamma { d, c, boost } => {
                return with_float!(dst.dtype(), T => {
                    run(dst, offset, Gamma::<T>::new(key, d, c, boost), team);
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

#[cold]
fn not_an_integer(dtype: DType) -> String {
    format!("elements of type {dtype} reached a kernel that takes integers only")
}

/// # Safety
/// As for [`execute`]; the view's elements are of the source's type, or as good as of it.
unsafe fn run<S: Source>(dst: &View, offset: u64, source: S, team: &dyn Team) {
    let walk = Walk::new(dst.shape(), [dst.layout().strides()]);
    let (to, [step]) = (Shared(address::<S::Out>(dst)), walk.run_strides());
    split(walk.elements(), GRAIN, team, &|range| {
        let mut drawn = [S::Out::from_scalar(false.into()); BATCH];
        let mut index = range.start;
        while index < range.end {
            let place = offset.wrapping_add(index as u64);
            let skipped = (place % PLACES as u64) as usize;
            let count = (BATCH - skipped).min(range.end - index);
            let needed = (skipped + count).next_multiple_of(PLACES);
            // SAFETY: nothing is asked for.
            unsafe {
                draw(
                    &source,
                    place.wrapping_sub(skipped as u64),
                    &mut drawn[..needed],
                )
            };
            let mut rest = &drawn[skipped..skipped + count];
            walk.for_each_run(index..index + count, &mut |[offset], length| {
                let (run, after) = rest.split_at(length);
                rest = after;
                // SAFETY: the walk stays inside the view, which the caller may write; ranges are disjoint.
                unsafe { store(run, to.at(offset), step) };
            });
            index += count;
        }
    });
}

vectorised! {
    /// Draws the elements of places from `first` on, a multiple of [`PLACES`] as their number is.
    ///
    /// # Safety
    /// Nothing is asked for.
    unsafe fn draw[S: Source](source: &S, first: u64, drawn: &mut [S::Out]) {
        let (batches, _) = drawn.as_chunks_mut::<PLACES>();
        for (index, batch) in batches.iter_mut().enumerate() {
            source.draw(first.wrapping_add((index * PLACES) as u64), batch);
        }
    }
}

/// # Safety
/// The elements can be written.
unsafe fn store<T: Native>(values: &[T], to: *mut T, step: isize) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 {
            to.copy_from_nonoverlapping(values.as_ptr(), values.len());
        } else {
            for (index, &value) in values.iter().enumerate() {
                to.offset(index as isize * step).write(value);
            }
        }
    }
}
