//! Loops over blocks, compiled once for each instruction set and chosen when the program runs.

use std::mem::MaybeUninit;
use std::slice;
use std::sync::OnceLock;

/// An instruction's loop over a block: result, operands, elements.
///
/// # Safety
/// The result and as many operands as the instruction has must point to that many aligned elements of its
/// types; the operands must be initialised and the result must overlap none of them. The processor must have
/// the instruction set the loop was made for.
pub(super) type Entry = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// How a machine multiplies and adds.
pub(crate) trait Machine {
    /// Whether `fma` rounds once.
    const FUSED: bool;

    /// `x * y + z`.
    fn fma(x: f32, y: f32, z: f32) -> f32;
}

/// A machine with fused multiply-add.
pub(crate) struct Fused;

impl Machine for Fused {
    const FUSED: bool = true;

    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x.mul_add(y, z)
    }
}

/// A machine without; there, `mul_add` would be a call.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) struct Separate;

#[cfg(not(target_arch = "aarch64"))]
impl Machine for Separate {
    const FUSED: bool = false;

    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

/// What every machine of this architecture is.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) type Always = Separate;
// Every 64-bit ARM has fused multiply-add.
#[cfg(target_arch = "aarch64")]
pub(crate) type Always = Fused;

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

/// Where loops come from: one type for each instruction set.
pub(super) trait Isa {
    fn one<T: Copy, F: Call1<T>>() -> Entry;
    fn two<T: Copy, F: Call2<T>>() -> Entry;
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
isa!(Avx2, Fused, "avx2,fma,bmi1,bmi2,lzcnt,popcnt");
#[cfg(target_arch = "x86_64")]
isa!(
    Avx512,
    Fused,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
);

/// The instruction sets that loops exist for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best that this processor has.
    pub(super) fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            Level::available()
                .last()
                .copied()
                .unwrap_or(Level::Baseline)
        })
    }

    /// All that this processor has, the best last.
    pub(super) fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "some processors have one level only")]
        let mut levels = Vec::from([Level::Baseline]);
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2")
                && has!("fma")
                && has!("bmi1")
                && has!("bmi2")
                && has!("lzcnt")
                && has!("popcnt");
            let avx512 =
                has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            if avx2 {
                levels.push(Level::Avx2);
            }
            if avx2 && avx512 {
                levels.push(Level::Avx512);
            }
        }
        levels
    }

    /// The name in the stamp of what is kept on disk.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }
}
