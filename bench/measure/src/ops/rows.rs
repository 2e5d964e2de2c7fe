//! Operators over the rows of activations: normalisation, softmax, GELU.

use super::case::{Case, Right, Stage};
use crate::Result;
use crate::noise::Noise;

const TOKENS: usize = 128;

/// Layer normalisation with scale and bias.
pub fn layer_norm(stage: &Stage) -> Result<(Case, Right)> {
    const FEATURES: usize = 384;
    const EPSILON: f64 = 1e-5;
    let mut noise = Noise::new(5);
    let rows = stage.batch * TOKENS;
    let x = stage.input(&mut noise, &[rows, FEATURES], 1.0)?;
    let scale = stage.input(&mut noise, &[FEATURES], 1.0)?;
    let bias = stage.input(&mut noise, &[FEATURES], 1.0)?;
    let case = Case::new("layer_norm", move || {
        let (scale, bias) = (Some(&scale.tensor), Some(&bias.tensor));
        x.tensor.layer_norm(-1, scale, bias, EPSILON)
    });
    let right = move |place: usize| {
        let (row, column) = (place / FEATURES, place % FEATURES);
        let row = &x.values[row * FEATURES..][..FEATURES];
        let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
        let mean = row.iter().sum::<f64>() / FEATURES as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / FEATURES as f64;
        let normal = (row[column] - mean) / (variance + EPSILON).sqrt();
        normal * f64::from(scale.values[column]) + f64::from(bias.values[column])
    };
    let elements = 2 * rows * FEATURES + 2 * FEATURES;
    Ok((
        case.memory_bound(elements * stage.dtype.size()),
        Box::new(right),
    ))
}

/// The exact GELU of the activations of a wide layer.
pub fn gelu(stage: &Stage) -> Result<(Case, Right)> {
    const WIDE: usize = 1536;
    let shape = [stage.batch * TOKENS, WIDE];
    let x = stage.input(&mut Noise::new(6), &shape, 4.0)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("gelu", move || x.tensor.gelu());
    let right = move |place: usize| {
        let x = f64::from(x.values[place]);
        0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The softmax of the products of attention.
pub fn softmax(stage: &Stage) -> Result<(Case, Right)> {
    const KEYS: usize = 128;
    let shape = [stage.batch * 12, TOKENS, KEYS];
    let x = stage.input(&mut Noise::new(7), &shape, 4.0)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("softmax", move || x.tensor.softmax(-1));
    let right = move |place: usize| {
        let row = &x.values[place / KEYS * KEYS..][..KEYS];
        let power = |x: f32| f64::from(x).exp();
        power(x.values[place]) / row.iter().copied().map(power).sum::<f64>()
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The error function by its series, which is good as far from zero as it is asked for here.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_right() {
        for (x, right) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_8),
            (-1.0, -0.842_700_792_9),
            (2.8, 0.999_924_987_8),
        ] {
            assert!((erf(x) - right).abs() < 1e-9, "{x}: {}", erf(x));
        }
    }
}
