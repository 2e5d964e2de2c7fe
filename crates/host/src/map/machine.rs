//! Loops over blocks, compiled once for each instruction set and chosen when the program runs.

use std::mem::MaybeUninit;
use std::slice;

#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Fused;
use crate::kernels::simd::{Always, Machine};

/// An instruction's loop over a block: result, operands, elements.
///
/// # Safety
/// The result and as many operands as the instruction has must point to that many aligned elements of its
/// types; the operands must be initialised and the result must overlap none of them. The processor must have
/// the instruction set the loop was made for.
pub(super) type Entry = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// A function of one element.
pub(super) trait Call1<T> {
    type Output: Copy;

    fn call<M: Machine>(x: T) -> Self::Output;

    /// Computes again what the straight-line code does not cover.
    #[inline(always)]
    fn repair(_results: &mut [MaybeUninit<Self::Output>], _operands: &[T]) {}
}

/// A function of two elements.
pub(super) trait Call2<T> {
    type Output: Copy;

    fn call<M: Machine>(x: T, y: T) -> Self::Output;
}

/// A function of three elements.
pub(super) trait Call3<T> {
    fn call(x: T, y: T, z: T) -> T;
}

/// Where loops come from: one type for each [`Level`](crate::kernels::simd::Level).
pub(super) trait Isa {
    fn one<T: Copy, F: Call1<T>>() -> Entry;
    fn two<T: Copy, F: Call2<T>>() -> Entry;
    fn three<T: Copy, F: Call3<T>>() -> Entry;
    fn select<T: Copy>() -> Entry;
}

#[inline(always)]
fn each_one<T: Copy, F: Call1<T>, M: Machine>(results: &mut [MaybeUninit<F::Output>], xs: &[T]) {
    for (result, &x) in results.iter_mut().zip(xs) {
        result.write(F::call::<M>(x));
    }
    F::repair(results, xs);
}

#[inline(always)]
fn each_two<T: Copy, F: Call2<T>, M: Machine>(
    results: &mut [MaybeUninit<F::Output>],
    xs: &[T],
    ys: &[T],
) {
    for ((result, &x), &y) in results.iter_mut().zip(xs).zip(ys) {
        result.write(F::call::<M>(x, y));
    }
}

#[inline(always)]
fn each_three<T: Copy, F: Call3<T>>(results: &mut [MaybeUninit<T>], xs: &[T], ys: &[T], zs: &[T]) {
    for (((result, &x), &y), &z) in results.iter_mut().zip(xs).zip(ys).zip(zs) {
        result.write(F::call(x, y, z));
    }
}

#[inline(always)]
fn each_select<T: Copy>(results: &mut [MaybeUninit<T>], conditions: &[u8], xs: &[T], ys: &[T]) {
    for (((result, &condition), &x), &y) in results.iter_mut().zip(conditions).zip(xs).zip(ys) {
        result.write(if condition != 0 { x } else { y });
    }
}

macro_rules! isa {
    ($name:ident, $machine:ident $(, $features:literal)?) => {
        pub(super) struct $name;

        impl Isa for $name {
            fn one<T: Copy, F: Call1<T>>() -> Entry {
                $(#[target_feature(enable = $features)])?
                unsafe fn run<T: Copy, F: Call1<T>>(
                    to: *mut u8,
                    x: *const u8,
                    _: *const u8,
                    _: *const u8,
                    n: usize,
                ) {
                    // SAFETY: the caller of an `Entry` gives valid, aligned blocks that do not overlap.
                    let (results, xs) = unsafe {
                        (slice::from_raw_parts_mut(to.cast(), n), slice::from_raw_parts(x.cast(), n))
                    };
                    each_one::<T, F, $machine>(results, xs);
                }
                run::<T, F>
            }

            fn two<T: Copy, F: Call2<T>>() -> Entry {
                $(#[target_feature(enable = $features)])?
                unsafe fn run<T: Copy, F: Call2<T>>(
                    to: *mut u8,
                    x: *const u8,
                    y: *const u8,
                    _: *const u8,
                    n: usize,
                ) {
                    // SAFETY: as in `one`.
                    let (results, xs, ys) = unsafe {
                        (
                            slice::from_raw_parts_mut(to.cast(), n),
                            slice::from_raw_parts(x.cast(), n),
                            slice::from_raw_parts(y.cast(), n),
                        )
                    };
                    each_two::<T, F, $machine>(results, xs, ys);
                }
                run::<T, F>
            }

            fn three<T: Copy, F: Call3<T>>() -> Entry {
                $(#[target_feature(enable = $features)])?
                unsafe fn run<T: Copy, F: Call3<T>>(
                    to: *mut u8,
                    x: *const u8,
                    y: *const u8,
                    z: *const u8,
                    n: usize,
                ) {
                    // SAFETY: as in `one`.
                    let (results, xs, ys, zs) = unsafe {
                        (
                            slice::from_raw_parts_mut(to.cast(), n),
                            slice::from_raw_parts(x.cast(), n),
                            slice::from_raw_parts(y.cast(), n),
                            slice::from_raw_parts(z.cast(), n),
                        )
                    };
                    each_three::<T, F>(results, xs, ys, zs);
                }
                run::<T, F>
            }

            fn select<T: Copy>() -> Entry {
                $(#[target_feature(enable = $features)])?
                unsafe fn run<T: Copy>(
                    to: *mut u8,
                    condition: *const u8,
                    x: *const u8,
                    y: *const u8,
                    n: usize,
                ) {
                    // SAFETY: as in `one`.
                    let (results, conditions, xs, ys) = unsafe {
                        (
                            slice::from_raw_parts_mut(to.cast(), n),
                            slice::from_raw_parts(condition, n),
                            slice::from_raw_parts(x.cast(), n),
                            slice::from_raw_parts(y.cast(), n),
                        )
                    };
                    each_select::<T>(results, conditions, xs, ys);
                }
                run::<T>
            }
        }
    };
}

isa!(Baseline, Always);
#[cfg(target_arch = "x86_64")]
isa!(Avx2, Fused, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
isa!(
    Avx512,
    Fused,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
);
