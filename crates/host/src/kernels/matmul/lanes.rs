//! Vectors of accumulators: the one instruction set that the product's inner loops are written in.

use streampool_device::Activation;

/// A vector of sums, and how units are multiplied into it.
///
/// A unit is what one lane takes at one step: a float, or a pair of short integers. Sums are as wide as
/// units.
pub(in crate::kernels) trait Lanes: Copy {
    /// One lane's operand of a step.
    type Unit: Copy;
    /// One lane's sum.
    type Sum: Copy;
    /// How many lanes there are.
    const WIDTH: usize;
    /// How many vectors the registers of the machine hold.
    const REGISTERS: usize;

    /// All sums zero.
    fn zero() -> Self;
    /// The sums at `from`.
    ///
    /// # Safety
    /// `WIDTH` sums can be read there; the machine has the instructions. So for every method.
    unsafe fn load(from: *const Self::Sum) -> Self;
    /// Stores the sums.
    ///
    /// # Safety
    /// `WIDTH` sums can be written there.
    unsafe fn store(self, to: *mut Self::Sum);
    /// Units next to each other, one for each lane.
    ///
    /// # Safety
    /// `WIDTH` units can be read there.
    unsafe fn units(from: *const Self::Unit) -> Self;
    /// The first `count` units next to each other, then zeros.
    ///
    /// # Safety
    /// `count` units, fewer than `WIDTH`, can be read there.
    unsafe fn some_units(from: *const Self::Unit, count: usize) -> Self;
    /// One unit for all lanes.
    ///
    /// # Safety
    /// A unit can be read there.
    unsafe fn splat(from: *const Self::Unit) -> Self;
    /// The sums plus the product of two vectors of units.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn plus_product(self, left: Self, right: Self) -> Self;
    /// The sums plus others.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn plus(self, other: Self) -> Self;
    /// The sum of all lanes.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn total(self) -> Self::Sum;

    /// The sums of all lanes of each of four.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn totals(four: [Self; 4]) -> [Self::Sum; 4] {
        // SAFETY: the caller's promise.
        four.map(|sums| unsafe { sums.total() })
    }
}

/// Lanes that can be kept between bounds.
pub(in crate::kernels) trait Bounded: Lanes<Unit = f32, Sum = f32> {
    /// These numbers, or for those below it `least`. NaN stays.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn at_least(self, least: Self) -> Self;

    /// These numbers, or for those above it `most`. NaN stays.
    ///
    /// # Safety
    /// As above.
    unsafe fn at_most(self, most: Self) -> Self;
}

impl Bounded for PlainF32 {
    #[inline(always)]
    unsafe fn at_least(mut self, least: Self) -> Self {
        for (value, least) in self.0.iter_mut().zip(least.0) {
            *value = if *value < least { least } else { *value };
        }
        self
    }

    #[inline(always)]
    unsafe fn at_most(mut self, most: Self) -> Self {
        for (value, most) in self.0.iter_mut().zip(most.0) {
            *value = if *value > most { most } else { *value };
        }
        self
    }
}

/// Between which numbers results are kept. NaN stays, and so does zero of either sign.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: Option<f32>,
    pub(crate) most: Option<f32>,
}

impl Bounds {
    /// Those that an activation keeps results between, or these if there is none. `None` if the activation does more.
    pub(in crate::kernels) fn of(activation: Activation, bounds: Bounds) -> Option<Bounds> {
        match activation {
            Activation::None => Some(bounds),
            Activation::Relu => Some(Bounds {
                least: Some(0.0),
                most: None,
            }),
            _ => None,
        }
    }

    /// As lanes.
    ///
    /// # Safety
    /// The machine has the instructions of `L`.
    #[inline(always)]
    pub(in crate::kernels) unsafe fn lanes<L: Bounded>(self) -> [Option<L>; 2] {
        // SAFETY: the numbers can be read; the rest the caller promises.
        [self.least, self.most].map(|bound| bound.map(|bound| unsafe { L::splat(&bound) }))
    }
}

/// Lanes between such bounds.
///
/// # Safety
/// The machine has the instructions of `L`.
#[inline(always)]
pub(in crate::kernels) unsafe fn between<L: Bounded>(
    mut lanes: L,
    [least, most]: [Option<L>; 2],
) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(least) = least {
            lanes = lanes.at_least(least);
        }
        if let Some(most) = most {
            lanes = lanes.at_most(most);
        }
    }
    lanes
}

/// Plain lanes, for the compiler to put into whatever registers there are.
macro_rules! plain {
    ($name:ident, $unit:ty, $width:literal, $zero:expr, |$sum:ident, $x:ident, $y:ident| $step:expr, |$s:ident, $t:ident| $add:expr) => {
        #[derive(Clone, Copy)]
        pub(in crate::kernels) struct $name([$unit; $width]);

        impl Lanes for $name {
            type Unit = $unit;
            type Sum = $unit;
            const WIDTH: usize = $width;
            const REGISTERS: usize = if cfg!(target_arch = "aarch64") {
                32
            } else {
                16
            };

            #[inline(always)]
            fn zero() -> Self {
                $name([$zero; $width])
            }

            #[inline(always)]
            unsafe fn load(from: *const $unit) -> Self {
                // SAFETY: the caller promises that the lanes can be read.
                $name(unsafe { from.cast::<[$unit; $width]>().read_unaligned() })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $unit) {
                // SAFETY: the caller promises that the lanes can be written.
                unsafe { to.cast::<[$unit; $width]>().write_unaligned(self.0) }
            }

            #[inline(always)]
            unsafe fn units(from: *const $unit) -> Self {
                // SAFETY: the caller promises that the lanes can be read.
                unsafe { Self::load(from) }
            }

            #[inline(always)]
            unsafe fn some_units(from: *const $unit, count: usize) -> Self {
                let mut lanes = [$zero; $width];
                for (index, lane) in lanes.iter_mut().enumerate().take(count) {
                    // SAFETY: the caller promises that `count` units can be read.
                    *lane = unsafe { *from.add(index) };
                }
                $name(lanes)
            }

            #[inline(always)]
            unsafe fn splat(from: *const $unit) -> Self {
                // SAFETY: the caller promises that the unit can be read.
                $name([unsafe { *from }; $width])
            }

            #[inline(always)]
            unsafe fn plus_product(self, left: Self, right: Self) -> Self {
                let mut sums = self.0;
                for index in 0..$width {
                    let ($sum, $x, $y) = (sums[index], left.0[index], right.0[index]);
                    sums[index] = $step;
                }
                $name(sums)
            }

            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                let mut sums = self.0;
                for index in 0..$width {
                    let ($s, $t) = (sums[index], other.0[index]);
                    sums[index] = $add;
                }
                $name(sums)
            }

            #[inline(always)]
            unsafe fn total(self) -> $unit {
                let mut sums = self.0;
                let mut half = $width / 2;
                while half > 0 {
                    for index in 0..half {
                        let ($s, $t) = (sums[index], sums[index + half]);
                        sums[index] = $add;
                    }
                    half /= 2;
                }
                sums[0]
            }
        }
    };
}

/// Two 16-bit integers in one unit, the first in the low half: their products with another pair, summed.
#[inline(always)]
fn pair_product(x: i32, y: i32) -> i32 {
    let low = i32::from(x as i16).wrapping_mul(i32::from(y as i16));
    low.wrapping_add((x >> 16).wrapping_mul(y >> 16))
}

// Fused where the target always has the instruction; elsewhere it would be a function call.
#[cfg(target_arch = "aarch64")]
plain!(
    PlainF32,
    f32,
    4,
    0.0,
    |sum, x, y| x.mul_add(y, sum),
    |s, t| s + t
);
#[cfg(target_arch = "aarch64")]
plain!(
    PlainF64,
    f64,
    2,
    0.0,
    |sum, x, y| x.mul_add(y, sum),
    |s, t| s + t
);
#[cfg(not(target_arch = "aarch64"))]
plain!(PlainF32, f32, 4, 0.0, |sum, x, y| sum + x * y, |s, t| s + t);
#[cfg(not(target_arch = "aarch64"))]
plain!(PlainF64, f64, 2, 0.0, |sum, x, y| sum + x * y, |s, t| s + t);
plain!(
    PlainPairs,
    i32,
    4,
    0,
    |sum, x, y| sum.wrapping_add(pair_product(x, y)),
    |s, t| s.wrapping_add(t)
);

#[cfg(target_arch = "x86_64")]
pub(in crate::kernels) use x86::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Bounded, Lanes};

    macro_rules! lanes {
        (
            $name:ident, $vector:ty, $unit:ty, $width:literal, $zero:expr,
            $load:ident, $store:ident, $plus:ident, |$some_from:ident, $count:ident| $some:expr, |$at:ident| $splat:expr,
            |$sum:ident, $x:ident, $y:ident| $step:expr, |$s:ident, $t:ident| $add:expr
            $(, totals: |$a:ident, $b:ident, $c:ident, $d:ident| $totals:block)?
        ) => {
            #[derive(Clone, Copy)]
            pub(in crate::kernels) struct $name($vector);

            impl Lanes for $name {
                type Unit = $unit;
                type Sum = $unit;
                const WIDTH: usize = $width;
                const REGISTERS: usize = if size_of::<$vector>() == 64 { 32 } else { 16 };

                #[inline(always)]
                fn zero() -> Self {
                    // SAFETY: all bits zero is a value of a vector.
                    $name(unsafe { std::mem::zeroed() })
                }

                #[inline(always)]
                unsafe fn load(from: *const $unit) -> Self {
                    // SAFETY: the caller promises the instructions and readable lanes.
                    $name(unsafe { $load(from.cast()) })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $unit) {
                    // SAFETY: the caller promises the instructions and writable lanes.
                    unsafe { $store(to.cast(), self.0) }
                }

                #[inline(always)]
                unsafe fn units(from: *const $unit) -> Self {
                    // SAFETY: as for `load`.
                    unsafe { Self::load(from) }
                }

                #[inline(always)]
                unsafe fn some_units($some_from: *const $unit, $count: usize) -> Self {
                    // SAFETY: the caller promises the instructions and `count` readable units.
                    $name(unsafe { $some })
                }

                #[inline(always)]
                unsafe fn splat($at: *const $unit) -> Self {
                    // SAFETY: the caller promises the instructions and a readable unit.
                    $name(unsafe { $splat })
                }

                #[inline(always)]
                unsafe fn plus_product(self, left: Self, right: Self) -> Self {
                    let ($sum, $x, $y) = (self.0, left.0, right.0);
                    // SAFETY: the caller promises the instructions.
                    $name(unsafe { $step })
                }

                #[inline(always)]
                unsafe fn plus(self, other: Self) -> Self {
                    // SAFETY: the caller promises the instructions.
                    $name(unsafe { $plus(self.0, other.0) })
                }

                #[inline(always)]
                unsafe fn total(self) -> $unit {
                    let mut sums = [$zero; $width];
                    // SAFETY: the array has a place for each lane; the caller promises the instructions.
                    unsafe { self.store(sums.as_mut_ptr()) };
                    let mut half = $width / 2;
                    while half > 0 {
                        for index in 0..half {
                            let ($s, $t) = (sums[index], sums[index + half]);
                            sums[index] = $add;
                        }
                        half /= 2;
                    }
                    sums[0]
                }

                $(
                    #[inline(always)]
                    unsafe fn totals([$a, $b, $c, $d]: [Self; 4]) -> [$unit; 4] {
                        let ($a, $b, $c, $d) = ($a.0, $b.0, $c.0, $d.0);
                        // SAFETY: the caller promises the instructions.
                        unsafe { $totals }
                    }
                )?
            }
        };
    }

    // Of a number and NaN, and of zeros of both signs, the second operand is taken: the result as it was.
    impl Bounded for Avx512F32 {
        #[inline(always)]
        unsafe fn at_least(self, least: Self) -> Self {
            // SAFETY: the caller promises the instructions.
            Avx512F32(unsafe { _mm512_max_ps(least.0, self.0) })
        }

        #[inline(always)]
        unsafe fn at_most(self, most: Self) -> Self {
            // SAFETY: as above.
            Avx512F32(unsafe { _mm512_min_ps(most.0, self.0) })
        }
    }

    impl Bounded for Avx2F32 {
        #[inline(always)]
        unsafe fn at_least(self, least: Self) -> Self {
            // SAFETY: as above.
            Avx2F32(unsafe { _mm256_max_ps(least.0, self.0) })
        }

        #[inline(always)]
        unsafe fn at_most(self, most: Self) -> Self {
            // SAFETY: as above.
            Avx2F32(unsafe { _mm256_min_ps(most.0, self.0) })
        }
    }

    /// Sums of four vectors at once: lanes are interleaved and added until each 128 bits hold a part of all
    /// four, and the parts are added last.
    #[inline(always)]
    unsafe fn four_parts(low: __m128, high: __m128) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: the array takes four lanes; SSE is part of x86-64.
        unsafe { _mm_storeu_ps(sums.as_mut_ptr(), _mm_add_ps(low, high)) };
        sums
    }

    /// The first `count` elements in a vector's worth of memory, then zeros.
    #[inline(always)]
    unsafe fn padded<T: Copy, const W: usize>(from: *const T, count: usize, zero: T) -> [T; W] {
        let mut lanes = [zero; W];
        for (index, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: the caller promises that `count` elements can be read.
            *lane = unsafe { *from.add(index) };
        }
        lanes
    }

    lanes!(
        Avx512F32, __m512, f32, 16, 0.0, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps,
        |from, count| _mm512_maskz_loadu_ps((1u16 << count) - 1, from), |at| _mm512_set1_ps(*at),
        |sum, x, y| _mm512_fmadd_ps(x, y, sum), |s, t| s + t,
        totals: |a, b, c, d| {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
            let all = _mm512_add_ps(low, high);
            let half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
            four_parts(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
        }
    );
    lanes!(
        Avx512F64,
        __m512d,
        f64,
        8,
        0.0,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        |from, count| _mm512_maskz_loadu_pd((1u8 << count) - 1, from),
        |at| _mm512_set1_pd(*at),
        |sum, x, y| _mm512_fmadd_pd(x, y, sum),
        |s, t| s + t
    );
    lanes!(
        Avx512Pairs,
        __m512i,
        i32,
        16,
        0,
        _mm512_loadu_epi32,
        _mm512_storeu_epi32,
        _mm512_add_epi32,
        |from, count| _mm512_maskz_loadu_epi32((1u16 << count) - 1, from),
        |at| _mm512_set1_epi32(*at),
        |sum, x, y| _mm512_add_epi32(sum, _mm512_madd_epi16(x, y)),
        |s, t| s.wrapping_add(t)
    );
    lanes!(
        Avx2F32, __m256, f32, 8, 0.0, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps,
        |from, count| _mm256_loadu_ps(padded::<f32, 8>(from, count, 0.0).as_ptr()), |at| _mm256_set1_ps(*at),
        |sum, x, y| _mm256_fmadd_ps(x, y, sum), |s, t| s + t,
        totals: |a, b, c, d| {
            let all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            four_parts(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all))
        }
    );
    lanes!(
        Avx2F64,
        __m256d,
        f64,
        4,
        0.0,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        |from, count| _mm256_loadu_pd(padded::<f64, 4>(from, count, 0.0).as_ptr()),
        |at| _mm256_set1_pd(*at),
        |sum, x, y| _mm256_fmadd_pd(x, y, sum),
        |s, t| s + t
    );
    lanes!(
        Avx2Pairs,
        __m256i,
        i32,
        8,
        0,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        |from, count| _mm256_loadu_si256(padded::<i32, 8>(from, count, 0).as_ptr().cast()),
        |at| _mm256_set1_epi32(*at),
        |sum, x, y| _mm256_add_epi32(sum, _mm256_madd_epi16(x, y)),
        |s, t| s.wrapping_add(t)
    );
}
