//! Constants in a shorter type of floats, which holds neither as large nor as small values.

use half::{bf16, f16};
use streampool_tensor::{DType, Element, Result, Tensor};

/// A tensor of `f32` in the type `to`. What is finite stays finite, as a mask of the lowest value there is would else
/// make numbers of 0 · ∞; and what is not zero does not become zero, as one divides by an epsilon.
pub fn shortened(tensor: &Tensor, to: DType) -> Result<Tensor> {
    match to {
        DType::F16 => each(tensor, f16::from_f32, [f16::MAX, f16::from_bits(1)]),
        DType::BF16 => each(tensor, bf16::from_f32, [bf16::MAX, bf16::from_bits(1)]),
        other => tensor.to_dtype(other),
    }
}

/// Each value in a type whose largest and least positive values are `ends`.
fn each<T: Element + Into<f32>>(
    tensor: &Tensor,
    short: impl Fn(f32) -> T,
    ends: [T; 2],
) -> Result<Tensor> {
    let [most, least] = ends.map(Into::into);
    let saturated = |value: f32| {
        let near: f32 = short(value).into();
        match value {
            large if near.is_infinite() && large.is_finite() => short(most.copysign(large)),
            small if near == 0.0 && small != 0.0 => short(least.copysign(small)),
            _ => short(value),
        }
    };
    let values: Vec<f32> = tensor.to_vec()?;
    let values: Vec<T> = values.into_iter().map(saturated).collect();
    Tensor::from_slice(tensor.pool(), &values, tensor.shape())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn what_is_finite_stays_so_and_what_is_not_zero_too() {
        let pool = crate::testing::host_pool();
        let inf = f32::INFINITY;
        let values = [f32::MIN, f32::MAX, -inf, inf, 0.0, 1e-42, -1e-42, 1.5];
        let tensor = Tensor::from_slice(&pool, &values, &[2, 4]).unwrap();
        for (to, most, least) in [
            (DType::F16, f16::MAX.to_f32(), f16::from_bits(1).to_f32()),
            (DType::BF16, bf16::MAX.to_f32(), bf16::from_bits(1).to_f32()),
        ] {
            let short = shortened(&tensor, to).unwrap();
            assert_eq!((short.dtype(), short.shape()), (to, &[2, 4][..]));
            let back: Vec<f32> = short.to_dtype(DType::F32).unwrap().to_vec().unwrap();
            let expected = [-most, most, -inf, inf, 0.0, least, -least, 1.5];
            assert_eq!(back, expected, "{to}");
        }
        let nan = Tensor::scalar(&pool, f32::NAN).unwrap();
        let nan = shortened(&nan, DType::F16).unwrap();
        assert!(
            nan.to_dtype(DType::F32)
                .unwrap()
                .item::<f32>()
                .unwrap()
                .is_nan()
        );
    }
}
