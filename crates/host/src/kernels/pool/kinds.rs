//! What becomes of the elements of a window.

use std::marker::PhantomData;

use streampool_device::Scalar;

use crate::kernels::combine::{Combine, Max, Reducible};
use crate::kernels::convert::{Float, Native};
use crate::kernels::real::Real;

/// How the elements of a window become one.
pub(super) trait Pooling: Sync {
    /// What is pooled.
    type Element: Native;
    /// What elements are joined in.
    type Sum: Copy;
    /// Of no elements.
    fn nothing(&self) -> Self::Sum;
    /// Of one.
    fn one(&self, element: Self::Element) -> Self::Sum;
    /// Of both.
    fn join(&self, left: Self::Sum, right: Self::Sum) -> Self::Sum;
    /// What is stored for a window in which `count` elements count.
    fn finish(&self, sum: Self::Sum, count: usize) -> Self::Element;
}

/// The largest; NaN wins.
pub(super) struct Largest<T: Reducible> {
    lowest: T::Wide,
}

impl<T: Reducible> Largest<T> {
    pub(super) fn new() -> Self {
        Largest {
            lowest: lowest::<T>(),
        }
    }
}

/// The lowest value of a type.
pub(super) fn lowest<T: Reducible>() -> T::Wide {
    // It saturates where there is no infinity.
    T::from_scalar(Scalar::Float(f64::NEG_INFINITY)).widen()
}

impl<T: Reducible> Pooling for Largest<T> {
    type Element = T;
    type Sum = T::Wide;

    #[inline(always)]
    fn nothing(&self) -> T::Wide {
        self.lowest
    }

    #[inline(always)]
    fn one(&self, element: T) -> T::Wide {
        element.widen()
    }

    #[inline(always)]
    fn join(&self, left: T::Wide, right: T::Wide) -> T::Wide {
        Max::combine(left, right)
    }

    #[inline(always)]
    fn finish(&self, sum: T::Wide, _: usize) -> T {
        T::finish(sum, None)
    }
}

/// Defines poolings that add up what each element comes to.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $one:expr, |$sum:ident, $count:ident| $finish:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name<T>(PhantomData<fn() -> T>);

        impl<T> $name<T> {
            pub(super) fn new() -> Self {
                $name(PhantomData)
            }
        }

        impl<T: Float> Pooling for $name<T> {
            type Element = T;
            type Sum = T::Wide;

            #[inline(always)]
            fn nothing(&self) -> T::Wide {
                T::Wide::ZERO
            }

            #[inline(always)]
            fn one(&self, element: T) -> T::Wide {
                let $x = element.widen();
                $one
            }

            #[inline(always)]
            fn join(&self, left: T::Wide, right: T::Wide) -> T::Wide {
                left + right
            }

            #[inline(always)]
            fn finish(&self, $sum: T::Wide, $count: usize) -> T {
                T::narrow($finish)
            }
        }
    )*};
}

sums! {
    /// The arithmetic mean; zero of nothing.
    Mean: |x| x, |sum, count| sum / T::Wide::from_f64(count.max(1) as f64);
    /// The sum of absolute values.
    AbsoluteSum: |x| absolute(x), |sum, _count| sum;
    /// The root of the sum of squares.
    RootOfSquares: |x| x * x, |sum, _count| sum.sqrt();
}

/// The root of some power of the sum of that power of absolute values.
pub(super) struct Lp<T: Float> {
    pub(super) power: T::Wide,
}

impl<T: Float> Pooling for Lp<T> {
    type Element = T;
    type Sum = T::Wide;

    #[inline(always)]
    fn nothing(&self) -> T::Wide {
        T::Wide::ZERO
    }

    #[inline(always)]
    fn one(&self, element: T) -> T::Wide {
        power(absolute(element.widen()), self.power)
    }

    #[inline(always)]
    fn join(&self, left: T::Wide, right: T::Wide) -> T::Wide {
        left + right
    }

    #[inline(always)]
    fn finish(&self, sum: T::Wide, _: usize) -> T {
        T::narrow(power(sum, T::Wide::ONE / self.power))
    }
}

#[inline(always)]
fn absolute<R: Real>(x: R) -> R {
    if x < R::ZERO { -x } else { x }
}

/// `x` to a power, both positive, but for a zero or NaN.
#[inline(always)]
fn power<R: Real>(x: R, exponent: R) -> R {
    if x == R::ZERO {
        R::ZERO
    } else {
        x.powf(exponent)
    }
}
