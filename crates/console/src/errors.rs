//! How far results are from those that are right.

/// How far each value is off, as a part of the largest that is right. What is no number is as far off as can be, and so are
/// too few values, or too many.
pub fn errors(got: &[f32], right: &[f64]) -> Vec<f64> {
    each(got, right.iter().copied()).collect()
}

/// The largest of these errors.
pub fn difference(got: &[f32], right: &[f32]) -> f64 {
    each(got, right.iter().copied().map(f64::from)).fold(0.0, f64::max)
}

fn each(
    got: &[f32],
    right: impl ExactSizeIterator<Item = f64> + Clone,
) -> impl Iterator<Item = f64> {
    let unlike = (got.len() != right.len()).then_some(f64::INFINITY);
    let sizes = right.clone().map(f64::abs);
    let largest = sizes.fold(f64::MIN_POSITIVE, f64::max);
    let each = got.iter().zip(right).map(move |(&got, right)| {
        let error = (f64::from(got) - right).abs() / largest;
        if error.is_nan() { f64::INFINITY } else { error }
    });
    unlike.into_iter().chain(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_parts_of_the_largest() {
        assert_eq!(errors(&[1.0, 3.0], &[1.0, 2.0]), [0.0, 0.5]);
        assert_eq!(difference(&[1.0, 3.0], &[1.0, 2.0]), 0.5);
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        for broken in [&[f32::NAN, 2.0][..], &[1.0], &[1.0, 2.0, 3.0]] {
            assert_eq!(difference(broken, &[1.0, 2.0]), f64::INFINITY);
        }
    }
}
