//! How far results are from what is right.

/// The largest difference, as a fraction of the largest value that is right.
pub fn difference(got: &[f32], right: &[f32]) -> f64 {
    if got.len() != right.len() {
        return f64::INFINITY;
    }
    let largest = right
        .iter()
        .fold(f64::MIN_POSITIVE, |most, x| most.max(f64::from(x.abs())));
    let apart = got
        .iter()
        .zip(right)
        .map(|(&got, &right)| f64::from(got) - f64::from(right));
    // NaN is as far from right as can be.
    let distance = |apart: f64| {
        if apart.is_nan() {
            f64::INFINITY
        } else {
            apart.abs()
        }
    };
    apart.map(distance).fold(0.0, f64::max) / largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_seen() {
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(difference(&[1.0, 3.0], &[1.0, 2.0]), 0.5);
        assert_eq!(difference(&[1.0], &[1.0, 2.0]), f64::INFINITY);
        assert_eq!(difference(&[f32::NAN], &[1.0]), f64::INFINITY);
    }
}
