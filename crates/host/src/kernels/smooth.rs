//! Functions of floats that use the machine's fused multiply-add, for loops where they are most of the work.

use streampool_device::Activation;

use super::real::Real;
use crate::kernels::simd::Machine;
use crate::map::{math32, math64};

/// A float that is multiplied as it is.
pub(crate) trait Smooth: Real {
    /// `exp(x)` for `x` not above zero.
    fn exp_below_zero<M: Machine>(self) -> Self;
    /// The hyperbolic tangent.
    fn fast_tanh<M: Machine>(self) -> Self;
    /// `1 / (1 + e⁻ˣ)`.
    fn fast_sigmoid<M: Machine>(self) -> Self;
    /// `x σ(x)`.
    fn silu<M: Machine>(self) -> Self;
    /// `x Φ(x)`.
    fn gelu<M: Machine>(self) -> Self;
    /// `x Φ(x)` by its tanh approximation.
    fn gelu_tanh<M: Machine>(self) -> Self;
}

macro_rules! smooth {
    ($float:ty { $($function:ident: $of:expr),* $(,)? }) => {
        impl Smooth for $float {
            $(
                #[inline(always)]
                fn $function<M: Machine>(self) -> Self {
                    $of(self)
                }
            )*
        }
    };
}

smooth!(f32 {
    exp_below_zero: math32::exp_below_zero::<M>,
    fast_tanh: math32::tanh::<M>,
    fast_sigmoid: math32::sigmoid::<M>,
    silu: math32::silu::<M>,
    gelu: math32::gelu::<M>,
    gelu_tanh: math32::gelu_tanh::<M>,
});

smooth!(f64 {
    exp_below_zero: f64::exp,
    fast_tanh: f64::tanh,
    fast_sigmoid: math64::sigmoid,
    silu: math64::silu,
    gelu: math64::gelu,
    gelu_tanh: math64::gelu_tanh,
});

/// Applies `activation` to each value in place.
#[inline(always)]
pub(crate) fn activate<M: Machine, R: Smooth>(activation: Activation, values: &mut [R]) {
    // Each arm spells its loop out, so that the function is inlined into it and the loop vectorised.
    let each = values.iter_mut();
    match activation {
        Activation::None => {}
        Activation::Relu => each.for_each(|value| *value = R::ZERO.larger(*value)),
        Activation::Gelu => each.for_each(|value| *value = value.gelu::<M>()),
        Activation::GeluTanh => each.for_each(|value| *value = value.gelu_tanh::<M>()),
        Activation::Silu => each.for_each(|value| *value = value.silu::<M>()),
        Activation::Sigmoid => each.for_each(|value| *value = value.fast_sigmoid::<M>()),
        Activation::Tanh => each.for_each(|value| *value = value.fast_tanh::<M>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::simd::Always;

    #[test]
    fn activations_have_their_limits_and_keep_nan() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
            let mut values = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0];
            activate::<Always, f32>(activation, &mut values);
            // Minus infinity times zero, as in ONNX Runtime and PyTorch.
            assert!(
                values[0].is_nan()
                    && values[1] == f32::INFINITY
                    && values[2].is_nan()
                    && values[3] == 0.0
            );
        }
    }
}
