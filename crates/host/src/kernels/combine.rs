//! What reductions combine elements in, and how.

use half::{bf16, f16};

use super::convert::{Float, Native, Truth};
use super::real::{Real, is_nan};

/// What elements are combined in.
pub(super) trait Wide: Copy + Send + Sync + PartialOrd + 'static {
    const ZERO: Self;
    const ONE: Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, count: usize) -> Self;
    /// The sum of so many of it.
    fn sum_of(self, count: usize) -> Self;
    /// The product of so many of it.
    fn product_of(self, count: usize) -> Self;

    /// Itself, however many of it there are.
    fn once(self, _count: usize) -> Self {
        self
    }

    /// The larger; NaN wins.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        let larger = if other > self { other } else { self };
        if is_nan(other) { other } else { larger }
    }

    /// The smaller; NaN wins.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        let smaller = if other < self { other } else { self };
        if is_nan(other) { other } else { smaller }
    }
}

macro_rules! wide_floats {
    ($($type:ty),*) => {$(
        impl Wide for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            const HIGHEST: Self = <$type>::INFINITY;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn over(self, count: usize) -> Self {
                self / <$type as Real>::from_f64(count as f64)
            }

            fn sum_of(self, count: usize) -> Self {
                self * <$type as Real>::from_f64(count as f64)
            }

            fn product_of(self, count: usize) -> Self {
                squared(self, count)
            }
        }
    )*};
}
wide_floats!(f32, f64);

macro_rules! wide_integers {
    ($($type:ty),*) => {$(
        impl Wide for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn over(self, count: usize) -> Self {
                self.checked_div(count as $type).unwrap_or(0)
            }

            fn sum_of(self, count: usize) -> Self {
                self.wrapping_mul(count as $type)
            }

            fn product_of(self, count: usize) -> Self {
                squared(self, count)
            }
        }
    )*};
}
wide_integers!(i64, u64);

/// A power by squaring.
fn squared<W: Wide>(mut base: W, mut count: usize) -> W {
    let mut product = W::ONE;
    while count > 0 {
        if count % 2 == 1 {
            product = product.times(base);
        }
        base = base.times(base);
        count /= 2;
    }
    product
}

/// An element that can be reduced.
pub(super) trait Reducible: Native {
    /// What it is combined in.
    type Wide: Wide;
    /// The element in that type.
    fn widen(self) -> Self::Wide;
    /// The combination in the element's type, divided by the count if there is one.
    fn finish(sum: Self::Wide, count: Option<usize>) -> Self;
}

macro_rules! reducible {
    ($($type:ty: $wide:ty, |$x:ident| $widen:expr, |$sum:ident| $narrow:expr;)*) => {$(
        impl Reducible for $type {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                let $x = self;
                $widen
            }

            #[inline(always)]
            fn finish(sum: $wide, count: Option<usize>) -> Self {
                let $sum = match count {
                    Some(count) => sum.over(count),
                    None => sum,
                };
                $narrow
            }
        }
    )*};
}

reducible! {
    f32: f32, |x| x, |sum| sum;
    f64: f64, |x| x, |sum| sum;
    f16: f32, |x| Float::widen(x), |sum| Float::narrow(sum);
    bf16: f32, |x| Float::widen(x), |sum| Float::narrow(sum);
    i8: i64, |x| i64::from(x), |sum| sum as i8;
    u8: i64, |x| i64::from(x), |sum| sum as u8;
    i16: i64, |x| i64::from(x), |sum| sum as i16;
    u16: i64, |x| i64::from(x), |sum| sum as u16;
    i32: i64, |x| i64::from(x), |sum| sum as i32;
    u32: i64, |x| i64::from(x), |sum| sum as u32;
    i64: i64, |x| x, |sum| sum;
    u64: u64, |x| x, |sum| sum;
    Truth: i64, |x| i64::from(x.get()), |sum| Truth::new(sum != 0);
}

/// How two are combined.
pub(super) trait Combine<W>: 'static {
    /// What changes nothing.
    const IDENTITY: W;
    /// The combination.
    fn combine(left: W, right: W) -> W;
    /// The combination of so many of one, at least one.
    fn repeat(one: W, count: usize) -> W;
}

macro_rules! combinations {
    ($($(#[$doc:meta])* $name:ident: $identity:ident, $combine:ident, $repeat:ident;)*) => {$(
        $(#[$doc])*
        pub(super) enum $name {}

        impl<W: Wide> Combine<W> for $name {
            const IDENTITY: W = W::$identity;

            #[inline(always)]
            fn combine(left: W, right: W) -> W {
                left.$combine(right)
            }

            fn repeat(one: W, count: usize) -> W {
                one.$repeat(count)
            }
        }
    )*};
}

combinations! {
    /// The sum.
    Sum: ZERO, plus, sum_of;
    /// The product.
    Prod: ONE, times, product_of;
    /// The largest.
    Max: LOWEST, larger, once;
    /// The smallest.
    Min: HIGHEST, smaller, once;
    /// Whether any of zeros and ones is one.
    Any: ZERO, larger, once;
    /// Whether all of zeros and ones are ones.
    All: ONE, smaller, once;
}
