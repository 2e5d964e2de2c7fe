//! Functions of floats that use the machine's fused multiply-add, for loops where they are most of the work.

use super::real::Real;
use crate::map::machine::Machine;
use crate::map::math32;

/// A float that is multiplied as it is.
pub(crate) trait Smooth: Real {
    /// `exp(x)` for `x` not above zero.
    fn exp_below_zero<M: Machine>(self) -> Self;
    /// The hyperbolic tangent.
    fn fast_tanh<M: Machine>(self) -> Self;
    /// `1 / (1 + e⁻ˣ)`.
    fn fast_sigmoid<M: Machine>(self) -> Self;
}

impl Smooth for f32 {
    #[inline(always)]
    fn exp_below_zero<M: Machine>(self) -> Self {
        math32::exp_below_zero::<M>(self)
    }

    #[inline(always)]
    fn fast_tanh<M: Machine>(self) -> Self {
        math32::tanh::<M>(self)
    }

    #[inline(always)]
    fn fast_sigmoid<M: Machine>(self) -> Self {
        math32::sigmoid::<M>(self)
    }
}

impl Smooth for f64 {
    #[inline(always)]
    fn exp_below_zero<M: Machine>(self) -> Self {
        self.exp()
    }

    #[inline(always)]
    fn fast_tanh<M: Machine>(self) -> Self {
        self.tanh()
    }

    #[inline(always)]
    fn fast_sigmoid<M: Machine>(self) -> Self {
        self.sigmoid()
    }
}
