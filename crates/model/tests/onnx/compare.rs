//! When a result counts as what is expected: as the package's own runner has it, with more room for 16-bit floats, and
//! for the rounding of sums whose terms are large.

use streampool_tensor::{DType, Tensor};

/// Values on the host, as their bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Array {
    /// The values of a tensor, once they are computed.
    pub fn read(tensor: &Tensor) -> streampool_tensor::Result<Array> {
        Ok(Array {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            bytes: tensor.to_bytes()?,
        })
    }

    /// The values as floats, if that is what they are.
    fn floats(&self) -> Option<Vec<f64>> {
        fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            let elements = bytes.as_chunks().0;
            elements.iter().map(|bytes| value(*bytes)).collect()
        }
        let bytes = &self.bytes;
        Some(match self.dtype {
            DType::F32 => each(bytes, |bytes| f64::from(f32::from_ne_bytes(bytes))),
            DType::F64 => each(bytes, f64::from_ne_bytes),
            DType::F16 => each(bytes, |bytes| half::f16::from_ne_bytes(bytes).to_f64()),
            DType::BF16 => each(bytes, |bytes| half::bf16::from_ne_bytes(bytes).to_f64()),
            _ => return None,
        })
    }
}

/// How far a float may be from what is expected: relative to that, and to the largest that is expected, or one.
fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (5e-3, 1e-3),
        DType::BF16 => (2e-2, 1e-2),
        _ => (1e-3, 1e-7),
    }
}

/// Why `got` is not what is expected, if it is not.
pub fn difference(got: &Array, expected: &Array) -> Option<String> {
    if (got.dtype, &got.shape) != (expected.dtype, &expected.shape) {
        return Some(format!(
            "{} {:?}, expected {} {:?}",
            got.dtype, got.shape, expected.dtype, expected.shape
        ));
    }
    let (Some(got_floats), Some(expected_floats)) = (got.floats(), expected.floats()) else {
        let size = got.dtype.size();
        let (ours, theirs) = (got.bytes.chunks(size), expected.bytes.chunks(size));
        let place = ours.zip(theirs).position(|(ours, theirs)| ours != theirs)?;
        let element = |array: &Array| integer(&array.bytes[place * size..][..size], array.dtype);
        return Some(format!(
            "element {place} is {}, expected {}",
            element(got),
            element(expected)
        ));
    };
    let (relative, absolute) = tolerance(got.dtype);
    let finite = expected_floats.iter().filter(|value| value.is_finite());
    let absolute = absolute * finite.fold(1.0, |largest: f64, value| largest.max(value.abs()));
    let fits = |ours: f64, theirs: f64| {
        ours == theirs
            || ours.is_nan() && theirs.is_nan()
            || (ours - theirs).abs() <= absolute + relative * theirs.abs() && theirs.is_finite()
    };
    let pairs = got_floats.iter().zip(&expected_floats);
    let wrong: Vec<usize> = pairs
        .enumerate()
        .filter_map(|(place, (&ours, &theirs))| (!fits(ours, theirs)).then_some(place))
        .collect();
    let first = *wrong.first()?;
    Some(format!(
        "{} of {} elements differ; element {first} is {}, expected {}",
        wrong.len(),
        got_floats.len(),
        got_floats[first],
        expected_floats[first]
    ))
}

fn integer(bytes: &[u8], dtype: DType) -> i128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = i128::from_le_bytes(wide);
    let bits = 8 * bytes.len() as u32;
    match dtype.is_signed() {
        true => value << (128 - bits) >> (128 - bits),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Array {
        Array {
            dtype: DType::F32,
            shape: vec![values.len()],
            bytes: values
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect(),
        }
    }

    #[test]
    fn what_is_near_fits() {
        let expected = floats(&[1.0, f32::NAN, f32::INFINITY, 0.0]);
        let near = floats(&[1.0009, f32::NAN, f32::INFINITY, 5e-8]);
        assert_eq!(difference(&near, &expected), None);
    }

    #[test]
    fn what_is_off_does_not() {
        let expected = floats(&[1.0, f32::INFINITY]);
        for wrong in [
            [1.0012, f32::INFINITY],
            [f32::NAN, f32::INFINITY],
            [1.0, f32::NEG_INFINITY],
            [1.0, f32::MAX],
            [1.0, f32::NAN],
        ] {
            assert!(
                difference(&floats(&wrong), &expected).is_some(),
                "{wrong:?}"
            );
        }
        assert!(difference(&floats(&[1.0]), &expected).is_some());
        let mut other = expected.clone();
        other.dtype = DType::I32;
        assert!(difference(&other, &expected).is_some());
        assert_eq!(integer(&[0xff], DType::I8), -1);
        assert_eq!(integer(&[0xff], DType::U8), 255);
    }
}
