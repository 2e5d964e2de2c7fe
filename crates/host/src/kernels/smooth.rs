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
    /// `x min(max(x/6 + 1/2, 0), 1)`.
    fn hard_swish<M: Machine>(self) -> Self;
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
    hard_swish: |x: f32| x * (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0),
});

smooth!(f64 {
    exp_below_zero: f64::exp,
    fast_tanh: f64::tanh,
    fast_sigmoid: math64::sigmoid,
    silu: math64::silu,
    gelu: math64::gelu,
    gelu_tanh: math64::gelu_tanh,
    hard_swish: |x: f64| x * (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0),
});

/// Values of a chunk: enough for two vectors of every machine but AVX-512.
const CHUNK: usize = 16;

/// Applies `activation` to each value in place.
#[inline(always)]
pub(crate) fn activate<M: Machine, R: Smooth>(activation: Activation, values: &mut [R]) {
    let (at, count) = (values.as_mut_ptr(), values.len());
    // SAFETY: it is a row of the values.
    unsafe { activate_rows::<M, R>(activation, at, (1, 0), count) }
}

/// Applies `activation` to each value of these rows in place, which begin so far from one another.
///
/// # Safety
/// They can be read and written, and nothing else refers to them.
#[inline(always)]
pub(crate) unsafe fn activate_rows<M: Machine, R: Smooth>(
    activation: Activation,
    at: *mut R,
    (rows, row): (usize, usize),
    columns: usize,
) {
    // Each arm has loops of its own, so that its constants are read once. Rows are mostly short: chunks have no ends to see to.
    macro_rules! each {
        ($function:expr) => {
            for number in 0..rows {
                let at = at.wrapping_add(number * row);
                // SAFETY: the caller's promise.
                let values = unsafe { std::slice::from_raw_parts_mut(at, columns) };
                let (chunks, rest) = values.as_chunks_mut::<CHUNK>();
                for chunk in chunks {
                    chunk
                        .iter_mut()
                        .for_each(|value| *value = $function(*value));
                }
                rest.iter_mut().for_each(|value| *value = $function(*value));
            }
        };
    }
    match activation {
        Activation::None => {}
        Activation::Relu => each!(|value| R::ZERO.larger(value)),
        Activation::Gelu => each!(R::gelu::<M>),
        Activation::GeluTanh => each!(R::gelu_tanh::<M>),
        Activation::Silu => each!(R::silu::<M>),
        Activation::Sigmoid => each!(R::fast_sigmoid::<M>),
        Activation::Tanh => each!(R::fast_tanh::<M>),
        Activation::HardSwish => each!(R::hard_swish::<M>),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::simd::Always;

    #[test]
    fn activations_have_their_limits_and_keep_nan() {
        use Activation::{Gelu, GeluTanh, HardSwish, Silu};
        for activation in [Gelu, GeluTanh, Silu, HardSwish] {
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
