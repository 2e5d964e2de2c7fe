//! Operators that are matrix products at heart: the product itself, attention, convolution.

use streampool::tensor::{AttentionOptions, ConvOptions};

use super::case::{Case, Right, Stage};
use crate::Result;
use crate::noise::Noise;

/// Rows of one request.
const TOKENS: usize = 128;
/// Columns of its activations.
const FEATURES: usize = 384;
/// Columns after the product.
const WIDE: usize = 1536;

/// The product of the activations of a transformer with the weights of its wide layer.
pub fn matmul(stage: &Stage) -> Result<(Case, Right)> {
    let mut noise = Noise::new(1);
    let rows = stage.batch * TOKENS;
    let x = stage.input(&mut noise, &[rows, FEATURES], 1.0)?;
    let w = stage.input(&mut noise, &[FEATURES, WIDE], 1.0)?;
    let bytes = (rows * FEATURES + FEATURES * WIDE + rows * WIDE) * stage.dtype.size();
    let case = Case::new("matmul", move || x.tensor.matmul(&w.tensor));
    let right = move |place: usize| {
        let (row, column) = (place / WIDE, place % WIDE);
        let row = &x.values[row * FEATURES..][..FEATURES];
        dot(row, w.values[column..].iter().step_by(WIDE))
    };
    Ok((
        case.multiply_adds(rows * FEATURES * WIDE).bytes(bytes),
        Box::new(right),
    ))
}

/// The attention of a small transformer.
pub fn attention(stage: &Stage) -> Result<(Case, Right)> {
    attention_of("attention", stage, [stage.batch, 12, 128, 32])
}

/// The attention of a large one over a long text.
pub fn attention_long(stage: &Stage) -> Result<(Case, Right)> {
    attention_of("attention_long", stage, [16, 16, 2048, 64])
}

fn attention_of(name: &'static str, stage: &Stage, shape: [usize; 4]) -> Result<(Case, Right)> {
    let mut noise = Noise::new(2);
    let [query, key, value] = [
        stage.input(&mut noise, &shape, 1.0)?,
        stage.input(&mut noise, &shape, 2.0)?,
        stage.input(&mut noise, &shape, 1.0)?,
    ];
    let [batch, heads, length, width] = shape;
    let case = Case::new(name, move || {
        let options = AttentionOptions::default();
        query.tensor.attention(&key.tensor, &value.tensor, &options)
    });
    let right = move |place: usize| {
        let (row, column) = (place / width, place % width);
        let matrix = row / length * length * width;
        let query = &query.values[row * width..][..width];
        let keys = key.values[matrix..][..length * width].chunks_exact(width);
        let scale = 1.0 / (width as f64).sqrt();
        let weights = keys.map(|key| (dot(query, key) * scale).exp());
        let values = value.values[matrix + column..].iter().step_by(width);
        let (mut sum, mut total) = (0.0, 0.0);
        for (weight, &value) in weights.zip(values) {
            sum += weight * f64::from(value);
            total += weight;
        }
        sum / total
    };
    let elements = batch * heads * length * width;
    Ok((
        case.multiply_adds(2 * elements * length)
            .bytes(4 * elements * stage.dtype.size()),
        Box::new(right),
    ))
}

/// A layer of a vision model.
pub fn conv(stage: &Stage) -> Result<(Case, Right)> {
    const CHANNELS: usize = 64;
    const SIDE: usize = 56;
    const KERNEL: usize = 3;
    const PIXELS: usize = SIDE * SIDE;
    let mut noise = Noise::new(3);
    let images = stage.input(&mut noise, &[stage.batch, CHANNELS, SIDE, SIDE], 1.0)?;
    let weights = stage.input(&mut noise, &[CHANNELS, CHANNELS, KERNEL, KERNEL], 1.0)?;
    let case = Case::new("conv", move || {
        let options = ConvOptions {
            padding: &[(1, 1), (1, 1)],
            ..ConvOptions::default()
        };
        images.tensor.conv(&weights.tensor, &options)
    });
    let right = move |place: usize| {
        let (plane, pixel) = (place / PIXELS, place % PIXELS);
        let (image, out) = (plane / CHANNELS, plane % CHANNELS);
        let (y, x) = (pixel / SIDE, pixel % SIDE);
        let mut sum = 0.0;
        for channel in 0..CHANNELS {
            let plane = &images.values[(image * CHANNELS + channel) * PIXELS..][..PIXELS];
            let kernel = &weights.values[(out * CHANNELS + channel) * KERNEL * KERNEL..];
            for (tap, &weight) in kernel[..KERNEL * KERNEL].iter().enumerate() {
                // One is the padding.
                let (y, x) = (y + tap / KERNEL, x + tap % KERNEL);
                if (1..=SIDE).contains(&y) && (1..=SIDE).contains(&x) {
                    sum += f64::from(weight) * f64::from(plane[(y - 1) * SIDE + x - 1]);
                }
            }
        }
        sum
    };
    let elements = stage.batch * CHANNELS * PIXELS;
    let taps = CHANNELS * KERNEL * KERNEL;
    Ok((
        case.multiply_adds(elements * taps)
            .bytes((2 * elements + CHANNELS * taps) * stage.dtype.size()),
        Box::new(right),
    ))
}

/// The sum of the products of two rows.
pub fn dot<'a>(a: &[f32], b: impl IntoIterator<Item = &'a f32>) -> f64 {
    let products = a.iter().zip(b);
    products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}
