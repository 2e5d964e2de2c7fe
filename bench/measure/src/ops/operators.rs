//! The operators that are measured: over the activations of a small transformer, a vision and a speech model.

use streampool::tensor::{AttentionOptions, ConvOptions, PoolOptions, RnnOptions, RnnWeights};
use streampool::{DType, Op, Tensor};

use super::case::{Case, Input, Right, Stage};
use crate::Result;
use crate::noise::Noise;

/// How an operator is made, and what it should give.
pub type Make = fn(&Stage) -> Result<(Case, Right)>;

/// Each operator, and whether it is measured where the shapes fill the device only.
pub const ALL: [(&str, Make, bool); 14] = [
    ("matmul", matmul, false),
    ("attention", attention, false),
    ("layer_norm", layer_norm, false),
    ("gelu", gelu, false),
    ("conv", conv, false),
    ("lstm", lstm, false),
    ("softmax", softmax, false),
    ("attention_long", attention_long, true),
    ("copy", copy, true),
    ("add", add, true),
    ("cast", cast, true),
    ("embedding", embedding, true),
    ("cumsum", cumsum, true),
    ("max_pool", max_pool, true),
];

/// Rows of one request.
const TOKENS: usize = 128;
/// Columns of its activations, and of those of its wide layer.
const FEATURES: usize = 384;
const WIDE: usize = 1536;

/// The activations of a wide layer.
fn wide(stage: &Stage, seed: u64, most: f32) -> Result<Input> {
    let shape = [stage.batch * TOKENS, WIDE];
    stage.input(&mut Noise::new(seed), &shape, most)
}

/// The product of the activations of a transformer with the weights of its wide layer.
fn matmul(stage: &Stage) -> Result<(Case, Right)> {
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
fn attention(stage: &Stage) -> Result<(Case, Right)> {
    attention_of("attention", stage, [stage.batch, 12, 128, 32])
}

/// The attention of a large one over a long text.
fn attention_long(stage: &Stage) -> Result<(Case, Right)> {
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
fn conv(stage: &Stage) -> Result<(Case, Right)> {
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
fn dot<'a>(a: &[f32], b: impl IntoIterator<Item = &'a f32>) -> f64 {
    let products = a.iter().zip(b);
    products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

const STEPS: usize = 64;
const INPUTS: usize = 128;
const HIDDEN: usize = 128;
const GATES: usize = 4;

/// The largest weight: sums of so many stay where the gates are neither open nor shut.
const WEIGHT: f32 = 0.125;

/// What the layer knows.
struct Weights {
    input: Input,
    recurrent: Input,
    bias: Input,
}

/// A layer of a speech model, with both biases, as PyTorch has them.
fn lstm(stage: &Stage) -> Result<(Case, Right)> {
    let mut noise = Noise::new(4);
    let sequences = stage.sequences;
    let x = stage.input(&mut noise, &[STEPS, sequences, INPUTS], 1.0)?;
    let weights = Weights {
        input: stage.input(&mut noise, &[1, GATES * HIDDEN, INPUTS], WEIGHT)?,
        recurrent: stage.input(&mut noise, &[1, GATES * HIDDEN, HIDDEN], WEIGHT)?,
        bias: stage.input(&mut noise, &[1, 2 * GATES * HIDDEN], WEIGHT)?,
    };
    let (input, recurrent) = (
        weights.input.tensor.clone(),
        weights.recurrent.tensor.clone(),
    );
    let (bias, steps) = (weights.bias.tensor.clone(), x.tensor.clone());
    let case = Case::new("lstm", move || {
        let weights = RnnWeights {
            input: &input,
            recurrent: &recurrent,
            bias: Some(&bias),
            peephole: None,
        };
        Ok(steps.lstm(&weights, &RnnOptions::default())?.states)
    });
    let right = move |place: usize| {
        let (row, unit) = (place / HIDDEN, place % HIDDEN);
        let (step, sequence) = (row / sequences, row % sequences);
        let inputs = x.values.chunks_exact(INPUTS).skip(sequence);
        let mut state = (vec![0f32; HIDDEN], vec![0f64; HIDDEN]);
        for input in inputs.step_by(sequences).take(step + 1) {
            state = weights.step(input, &state);
        }
        f64::from(state.0[unit])
    };
    let rows = STEPS * sequences;
    let of_weights = GATES * HIDDEN * (INPUTS + HIDDEN + 2);
    Ok((
        case.multiply_adds(rows * GATES * HIDDEN * (INPUTS + HIDDEN))
            .bytes((rows * (INPUTS + HIDDEN) + of_weights) * stage.dtype.size()),
        Box::new(right),
    ))
}

impl Weights {
    /// The hidden state and the cells after one more input.
    fn step(&self, input: &[f32], (hidden, cells): &(Vec<f32>, Vec<f64>)) -> (Vec<f32>, Vec<f64>) {
        let gate = |gate: usize, unit: usize| {
            let row = gate * HIDDEN + unit;
            let of_input = dot(input, &self.input.values[row * INPUTS..][..INPUTS]);
            let of_state = dot(hidden, &self.recurrent.values[row * HIDDEN..][..HIDDEN]);
            let bias = &self.bias.values;
            of_input + of_state + f64::from(bias[row]) + f64::from(bias[GATES * HIDDEN + row])
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let next = (0..HIDDEN).map(|unit| {
            // As ONNX has them: input, output, forget, cell.
            let [input, output, forget, cell] = [0, 1, 2, 3].map(|number| gate(number, unit));
            let cell = sigmoid(forget) * cells[unit] + sigmoid(input) * cell.tanh();
            ((sigmoid(output) * cell.tanh()) as f32, cell)
        });
        next.unzip()
    }
}

/// Layer normalisation with scale and bias.
fn layer_norm(stage: &Stage) -> Result<(Case, Right)> {
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
fn gelu(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 6, 4.0)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("gelu", move || x.tensor.gelu());
    let right = move |place: usize| {
        let x = f64::from(x.values[place]);
        0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The softmax of the products of attention.
fn softmax(stage: &Stage) -> Result<(Case, Right)> {
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

/// A copy without gaps, by which the others are judged.
fn copy(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 8, 1.0)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("copy", move || {
        let on = x.tensor.encoder("copy")?;
        let mut copy = on.blank(x.tensor.dtype(), x.tensor.shape())?;
        on.encode(Op::Copy {
            src: x.tensor.operand()?,
            dst: copy.operand()?,
        })?;
        Ok(copy.finish())
    });
    let right = move |place: usize| f64::from(x.values[place]);
    Ok((case.bytes(bytes), Box::new(right)))
}

/// A sum of two.
fn add(stage: &Stage) -> Result<(Case, Right)> {
    let (a, b) = (wide(stage, 9, 1.0)?, wide(stage, 10, 1.0)?);
    let bytes = 3 * a.values.len() * stage.dtype.size();
    let case = Case::new("add", move || a.tensor.add(&b.tensor));
    let right = move |place: usize| f64::from(a.values[place]) + f64::from(b.values[place]);
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// From `f32` to `f16`, whatever else is computed with.
fn cast(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 11, 1.0)?;
    let from = Tensor::from_slice(&stage.pool, &x.values, x.tensor.shape())?;
    let bytes = x.values.len() * (DType::F32.size() + DType::F16.size());
    let case = Case::new("cast", move || from.to_dtype(DType::F16));
    let right = move |place: usize| f64::from(x.values[place]);
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// Rows of a table by index, each of them once.
fn embedding(stage: &Stage) -> Result<(Case, Right)> {
    let table = wide(stage, 12, 1.0)?;
    let rows = table.tensor.shape()[0];
    // An odd step through a power of two comes by every row.
    let indices: Vec<i64> = (0..rows).map(|row| (row * 7919 % rows) as i64).collect();
    let picked = Tensor::from_slice(&stage.pool, &indices, &[rows])?;
    let bytes = 2 * table.values.len() * stage.dtype.size() + rows * DType::I64.size();
    let case = Case::new("embedding", move || table.tensor.embedding(&picked));
    let right = move |place: usize| {
        let row = indices[place / WIDE] as usize;
        f64::from(table.values[row * WIDE + place % WIDE])
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The running sum along the rows.
fn cumsum(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 13, 1.0)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("cumsum", move || x.tensor.cumsum(-1));
    let right = move |place: usize| {
        let so_far = &x.values[place / WIDE * WIDE..=place];
        so_far.iter().copied().map(f64::from).sum()
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The largest of each 3 × 3, two apart, as after the first layer of a vision model.
fn max_pool(stage: &Stage) -> Result<(Case, Right)> {
    const SIDE: usize = 56;
    const OUT: usize = SIDE / 2;
    let planes = stage.batch * 64;
    let shape = [stage.batch, 64, SIDE, SIDE];
    let x = stage.input(&mut Noise::new(14), &shape, 1.0)?;
    let bytes = planes * (SIDE * SIDE + OUT * OUT) * stage.dtype.size();
    let case = Case::new("max_pool", move || {
        let options = PoolOptions {
            stride: &[2, 2],
            padding: &[(1, 1), (1, 1)],
            ..PoolOptions::default()
        };
        x.tensor.max_pool(&[3, 3], &options)
    });
    let right = move |place: usize| {
        let (plane, pixel) = (place / (OUT * OUT), place % (OUT * OUT));
        let around = |at: usize| (2 * at).saturating_sub(1)..(2 * at + 2).min(SIDE);
        let plane = &x.values[plane * SIDE * SIDE..][..SIDE * SIDE];
        let rows = around(pixel / OUT).map(|y| &plane[y * SIDE..][around(pixel % OUT)]);
        let largest = rows.flatten().copied().fold(f32::NEG_INFINITY, f32::max);
        f64::from(largest)
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
