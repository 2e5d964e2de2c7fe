//! Operands that are tensors or numbers.

use streampool_device::{DType, Scalar};

use crate::{Error, Result, Tensor};

/// A further operand of an operator: a tensor, or a number, which is taken as one of the tensor's type.
///
/// ```
/// # use streampool_host::{HostDevice, HostOptions};
/// # use streampool_tensor::{Pool, Tensor};
/// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// let x = Tensor::from_slice(&pool, &[1.0f32, 2.0], &[2])?;
/// assert_eq!(x.mul(2.0)?.add(&x)?.to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub enum Other<'a> {
    /// A tensor, of the type of the others.
    Tensor(&'a Tensor),
    /// A number; that type has to have it, but floats may round it.
    Number(Scalar),
}

impl<'a> From<&'a Tensor> for Other<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Other::Tensor(tensor)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Other<'_> {
            fn from(number: $number) -> Self {
                Other::Number(number.into())
            }
        }
    )*};
}

numbers!(f64, f32, i64, i32, bool, Scalar);

/// Checks that `dtype` has this number, or, as a float, one near it.
pub(super) fn number_fits(
    op: &'static str,
    argument: &'static str,
    number: Scalar,
    dtype: DType,
) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    let (low, high) = match dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i128::from(i8::MIN), i128::from(i8::MAX)),
        DType::U8 => (0, i128::from(u8::MAX)),
        DType::I16 => (i128::from(i16::MIN), i128::from(i16::MAX)),
        DType::U16 => (0, i128::from(u16::MAX)),
        DType::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        DType::U32 => (0, i128::from(u32::MAX)),
        DType::U64 => (0, i128::from(u64::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let (got, whole) = match number {
        Scalar::Float(value) => {
            let whole =
                (value.trunc() == value && value.abs() <= u64::MAX as f64).then_some(value as i128);
            (value.to_string(), whole)
        }
        // One above `i64::MAX` is written as a negative one.
        Scalar::Int(value) if dtype == DType::U64 => {
            (value.to_string(), Some(i128::from(value as u64)))
        }
        Scalar::Int(value) => (value.to_string(), Some(i128::from(value))),
        Scalar::Bool(value) => (value.to_string(), Some(i128::from(value))),
    };
    if whole.is_some_and(|whole| (low..=high).contains(&whole)) {
        return Ok(());
    }
    let expected =
        format!("a whole number from {low} to {high}, as {dtype} has: cast self with `to_dtype`");
    Err(Error::parameter(op, argument, got, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_to_be_one_of_the_type() {
        let fits = |number: Scalar, dtype| number_fits("t", "other", number, dtype).is_ok();
        assert!(fits(0.1.into(), DType::F16));
        assert!(fits(2.0.into(), DType::I8));
        assert!(!fits(2.5.into(), DType::I8));
        assert!(!fits(f64::NAN.into(), DType::I64));
        assert!(!fits(f64::INFINITY.into(), DType::I64));
        assert!(fits(127.into(), DType::I8) && !fits(128.into(), DType::I8));
        assert!(fits(255.into(), DType::U8) && !fits((-1).into(), DType::U8));
        assert!(fits(Scalar::Int(u64::MAX as i64), DType::U64));
        assert!(fits(1.8e19.into(), DType::U64) && !fits(1.9e19.into(), DType::U64));
        assert!(fits(9.2e18.into(), DType::I64) && !fits(9.3e18.into(), DType::I64));
        assert!(fits(true.into(), DType::Bool) && !fits(2.into(), DType::Bool));
    }
}
