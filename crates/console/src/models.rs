//! Models that programs bring along, made from a fixed seed: as ONNX files, in nodes as exporters write them, and as plain
//! loops in float64, which share nothing with the runtime.

use streampool::model::onnx::writer::{Graph, float, int, ints};
use streampool::{Array, DType};

use crate::Result;
use crate::noise::Noise;

/// The width of the encoder, and how many values the linear layer takes.
const WIDTH: usize = 256;

/// How many values the linear layer gives.
const OUTPUTS: usize = 128;

/// Of the encoder: its layers, heads, the width between the two products of each layer, and the length of a sequence.
const LAYERS: usize = 2;
const HEADS: usize = 4;
const INNER: usize = 1024;
const LENGTH: usize = 32;

/// What is added to a variance before it divides.
const EPSILON: f32 = 1e-5;

/// A model.
pub enum Builtin {
    /// One layer, 256 to 128.
    Linear(Dense),
    /// Two layers of a transformer.
    Encoder(Vec<Layer>),
}

/// A product and a sum.
pub struct Dense {
    inputs: usize,
    outputs: usize,
    /// A row for each input.
    pub weight: Vec<f32>,
    bias: Vec<f32>,
}

/// What scales and moves rows that were normalised.
pub struct Norm {
    scale: Vec<f32>,
    bias: Vec<f32>,
}

/// A layer of the encoder.
pub struct Layer {
    query: Dense,
    key: Dense,
    value: Dense,
    mixed: Dense,
    first: Norm,
    up: Dense,
    down: Dense,
    second: Norm,
}

impl Builtin {
    /// The linear layer.
    pub fn linear() -> Builtin {
        Builtin::Linear(Dense::new(&mut Noise::new(1), WIDTH, OUTPUTS))
    }

    /// The encoder.
    pub fn encoder() -> Builtin {
        let mut noise = Noise::new(2);
        Builtin::Encoder((0..LAYERS).map(|_| Layer::new(&mut noise)).collect())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Builtin::Linear(_) => "linear",
            Builtin::Encoder(_) => "encoder",
        }
    }

    /// What it is, in a few words.
    pub fn described(&self) -> String {
        match self {
            Builtin::Linear(_) => format!("one layer from {WIDTH} values to {OUTPUTS}"),
            Builtin::Encoder(layers) => format!(
                "{} layers of a transformer, {WIDTH} wide, {HEADS} heads, {INNER} inside, sequences of {LENGTH}",
                layers.len()
            ),
        }
    }
}

impl Dense {
    /// With weights as large as leaves the size of what goes through as it is.
    pub fn new(noise: &mut Noise, inputs: usize, outputs: usize) -> Dense {
        let bound = (inputs as f32).sqrt().recip();
        let mut values = |count, scale: f32| {
            let normal = noise.normal(count).into_iter();
            normal.map(|x| scale * x).collect()
        };
        Dense {
            inputs,
            outputs,
            weight: values(inputs * outputs, bound),
            bias: values(outputs, 0.1),
        }
    }
}

impl Norm {
    fn new(noise: &mut Noise) -> Norm {
        let scale = noise.normal(WIDTH).into_iter();
        Norm {
            scale: scale.map(|x| 1.0 + 0.1 * x).collect(),
            bias: noise.normal(WIDTH).into_iter().map(|x| 0.1 * x).collect(),
        }
    }
}

impl Layer {
    fn new(noise: &mut Noise) -> Layer {
        Layer {
            query: Dense::new(noise, WIDTH, WIDTH),
            key: Dense::new(noise, WIDTH, WIDTH),
            value: Dense::new(noise, WIDTH, WIDTH),
            mixed: Dense::new(noise, WIDTH, WIDTH),
            first: Norm::new(noise),
            up: Dense::new(noise, WIDTH, INNER),
            down: Dense::new(noise, INNER, WIDTH),
            second: Norm::new(noise),
        }
    }
}

/// The version of ONNX's operators.
const OPSET: i64 = 18;

impl Builtin {
    /// The bytes of its file: from `x` to `y`, with as many rows or sequences as one likes.
    pub fn onnx(&self) -> Result<Vec<u8>> {
        let (graph, inputs, outputs) = match self {
            Builtin::Linear(_) => (
                Graph::new(),
                format!("batch {WIDTH}"),
                format!("batch {OUTPUTS}"),
            ),
            Builtin::Encoder(_) => {
                let sizes = format!("batch {LENGTH} {WIDTH}");
                (constants()?, sizes.clone(), sizes)
            }
        };
        let mut graph = graph.input("x", DType::F32, &inputs);
        match self {
            Builtin::Linear(dense) => graph = dense.onto(graph, "dense", "x", "y")?,
            Builtin::Encoder(layers) => {
                for (number, layer) in layers.iter().enumerate() {
                    let from = if number == 0 {
                        "x".to_owned()
                    } else {
                        format!("x{number}")
                    };
                    let to = match number + 1 == layers.len() {
                        true => "y".to_owned(),
                        false => format!("x{}", number + 1),
                    };
                    graph = layer.onto(graph, &format!("l{number}."), &from, &to)?;
                }
            }
        }
        Ok(graph
            .output("y", DType::F32, &outputs)
            .model(&[("", OPSET)]))
    }
}

/// What the layers of the encoder share.
fn constants() -> Result<Graph> {
    let head = WIDTH / HEADS;
    let to_heads = Array::new(&[0, 0, HEADS as i64, head as i64], &[4])?;
    Ok(Graph::new()
        .constant("to_heads", &to_heads)
        .constant("to_width", &Array::new(&[0, 0, WIDTH as i64], &[3])?)
        .constant("scale", &Array::scalar((head as f32).sqrt().recip()))
        .constant("root_of_2", &Array::scalar(std::f32::consts::SQRT_2))
        .constant("one", &Array::scalar(1.0f32))
        .constant("half", &Array::scalar(0.5f32)))
}

impl Dense {
    /// Adds `y = x w + b`.
    pub fn onto(&self, graph: Graph, name: &str, x: &str, y: &str) -> Result<Graph> {
        let weight = Array::new(&self.weight, &[self.inputs, self.outputs])?;
        Ok(graph
            .constant(&format!("{name}.weight"), &weight)
            .constant(
                &format!("{name}.bias"),
                &Array::new(&self.bias, &[self.outputs])?,
            )
            .node(&format!("MatMul {x} {name}.weight = {name}.product"), &[])
            .node(&format!("Add {name}.product {name}.bias = {y}"), &[]))
    }
}

impl Norm {
    /// Adds `y = norm(a + b)`.
    fn onto(&self, graph: Graph, name: &str, [a, b, y]: [&str; 3]) -> Result<Graph> {
        Ok(graph
            .constant(
                &format!("{name}.scale"),
                &Array::new(&self.scale, &[WIDTH])?,
            )
            .constant(&format!("{name}.bias"), &Array::new(&self.bias, &[WIDTH])?)
            .node(&format!("Add {a} {b} = {name}.sum"), &[])
            .node(
                &format!("LayerNormalization {name}.sum {name}.scale {name}.bias = {y}"),
                &[int("axis", -1), float("epsilon", EPSILON)],
            ))
    }
}

impl Layer {
    fn onto(&self, mut graph: Graph, l: &str, x: &str, y: &str) -> Result<Graph> {
        let named = |name: &str| format!("{l}{name}");
        for (name, dense, order) in [
            ("q", &self.query, [0, 2, 1, 3]),
            ("k", &self.key, [0, 2, 3, 1]),
            ("v", &self.value, [0, 2, 1, 3]),
        ] {
            let name = named(name);
            graph = dense
                .onto(graph, &name, x, &format!("{name}.flat"))?
                .node(&format!("Reshape {name}.flat to_heads = {name}.apart"), &[])
                .node(
                    &format!("Transpose {name}.apart = {name}"),
                    &[ints("perm", &order)],
                );
        }
        graph = graph
            .node(&format!("MatMul {l}q {l}k = {l}products"), &[])
            .node(&format!("Mul {l}products scale = {l}scores"), &[])
            .node(
                &format!("Softmax {l}scores = {l}shares"),
                &[int("axis", -1)],
            )
            .node(&format!("MatMul {l}shares {l}v = {l}taken"), &[])
            .node(
                &format!("Transpose {l}taken = {l}turned"),
                &[ints("perm", &[0, 2, 1, 3])],
            )
            .node(&format!("Reshape {l}turned to_width = {l}joined"), &[]);
        graph = self
            .mixed
            .onto(graph, &named("mix"), &named("joined"), &named("mixed"))?;
        let between = named("between");
        let sum = [x, &named("mixed"), &between];
        graph = self.first.onto(graph, &named("first"), sum)?;
        graph = self
            .up
            .onto(graph, &named("up"), &between, &named("wide"))?;
        graph = graph
            .node(&format!("Div {l}wide root_of_2 = {l}divided"), &[])
            .node(&format!("Erf {l}divided = {l}erf"), &[])
            .node(&format!("Add {l}erf one = {l}more"), &[])
            .node(&format!("Mul {l}wide {l}more = {l}twice"), &[])
            .node(&format!("Mul {l}twice half = {l}active"), &[]);
        graph = self
            .down
            .onto(graph, &named("down"), &named("active"), &named("narrow"))?;
        let sum = [&between, &named("narrow"), y];
        self.second.onto(graph, &named("second"), sum)
    }
}

impl Builtin {
    /// Its output for rows, or sequences, one after the other.
    pub fn reference(&self, x: &[f32]) -> Vec<f64> {
        let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
        match self {
            Builtin::Linear(dense) => dense.of(&x),
            Builtin::Encoder(layers) => {
                let sequences = x.chunks_exact(LENGTH * WIDTH);
                let through = |x: &[f64]| layers.iter().fold(x.to_vec(), |x, layer| layer.of(&x));
                sequences.flat_map(through).collect()
            }
        }
    }
}

impl Dense {
    fn of(&self, x: &[f64]) -> Vec<f64> {
        let mut y = Vec::with_capacity(x.len() / self.inputs * self.outputs);
        for row in x.chunks_exact(self.inputs) {
            let mut sums: Vec<f64> = self.bias.iter().copied().map(f64::from).collect();
            for (&x, weights) in row.iter().zip(self.weight.chunks_exact(self.outputs)) {
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum += x * f64::from(weight);
                }
            }
            y.extend(sums);
        }
        y
    }
}

impl Norm {
    /// Of the sums of `a` and `b`.
    fn of(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut y = Vec::with_capacity(a.len());
        for (a, b) in a.chunks_exact(WIDTH).zip(b.chunks_exact(WIDTH)) {
            let row: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            let mean = row.iter().sum::<f64>() / WIDTH as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            let deviation = (variance + f64::from(EPSILON)).sqrt();
            for ((x, &scale), &bias) in row.iter().zip(&self.scale).zip(&self.bias) {
                y.push((x - mean) / deviation * f64::from(scale) + f64::from(bias));
            }
        }
        y
    }
}

impl Layer {
    /// Of one sequence.
    fn of(&self, x: &[f64]) -> Vec<f64> {
        let attended = attention(&self.query.of(x), &self.key.of(x), &self.value.of(x));
        let between = self.first.of(x, &self.mixed.of(&attended));
        let active: Vec<f64> = self.up.of(&between).into_iter().map(gelu).collect();
        self.second.of(&between, &self.down.of(&active))
    }
}

fn attention(query: &[f64], key: &[f64], value: &[f64]) -> Vec<f64> {
    const HEAD: usize = WIDTH / HEADS;
    let part = |of: &[f64], place: usize, head: usize| -> Vec<f64> {
        of[place * WIDTH + head * HEAD..][..HEAD].to_vec()
    };
    let mut out = vec![0.0; LENGTH * WIDTH];
    for place in 0..LENGTH {
        for head in 0..HEADS {
            let own = part(query, place, head);
            let score = |other| {
                let key = part(key, other, head);
                let product: f64 = own.iter().zip(key).map(|(q, k)| q * k).sum();
                product / (HEAD as f64).sqrt()
            };
            let scores: Vec<f64> = (0..LENGTH).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let all: f64 = shares.iter().sum();
            let mixed = &mut out[place * WIDTH + head * HEAD..][..HEAD];
            for (other, share) in shares.iter().enumerate() {
                for (mixed, value) in mixed.iter_mut().zip(part(value, other, head)) {
                    *mixed += share / all * value;
                }
            }
        }
    }
    out
}

/// By its definition: `x` times the part of a normal distribution that lies below it.
fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// The error function, by the series of which all terms have the same sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, 0.0);
    let mut odd = 1.0;
    while term.abs() > 1e-18 {
        sum += term;
        odd += 2.0;
        term *= 2.0 * x * x / odd;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_what_tables_say() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_89),
            (1.0, 0.842_700_792_949_714_9),
            (-2.0, -0.995_322_265_018_952_7),
            (3.5, 0.999_999_256_901_627_7),
            (9.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 1e-14, "{x}: {}", erf(x));
        }
        assert!((gelu(1.0) - 0.841_344_746_068_542_9).abs() < 1e-14);
    }

    #[test]
    fn a_layer_is_a_product_and_a_sum() {
        let dense = Dense {
            inputs: 2,
            outputs: 3,
            weight: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            bias: vec![0.5, 0.0, -0.5],
        };
        let y = dense.of(&[1.0, 0.0, 1.0, -1.0]);
        assert_eq!(y, [1.5, 2.0, 2.5, -2.5, -3.0, -3.5]);
    }

    #[test]
    fn attention_to_equal_keys_is_the_mean() {
        let same = vec![1.0; LENGTH * WIDTH];
        let value: Vec<f64> = (0..LENGTH * WIDTH).map(|i| (i / WIDTH) as f64).collect();
        let mean = (LENGTH - 1) as f64 / 2.0;
        let out = attention(&same, &same, &value);
        assert!(out.iter().all(|x| (x - mean).abs() < 1e-12));
        // A key that all that is asked for agrees with takes nearly everything.
        let mut keys = vec![0.0; LENGTH * WIDTH];
        keys[5 * WIDTH..6 * WIDTH].fill(10.0);
        let out = attention(&same, &keys, &value);
        assert!(out.iter().all(|x| (x - 5.0).abs() < 1e-6));
    }

    #[test]
    fn normalised_rows_have_mean_and_deviation_of_their_scale() {
        let norm = Norm {
            scale: vec![2.0; WIDTH],
            bias: vec![3.0; WIDTH],
        };
        let a: Vec<f64> = (0..WIDTH).map(|i| i as f64).collect();
        let y = norm.of(&a, &a);
        let mean = y.iter().sum::<f64>() / WIDTH as f64;
        let square = y.iter().map(|y| (y - 3.0).powi(2)).sum::<f64>() / WIDTH as f64;
        assert!((mean - 3.0).abs() < 1e-12 && (square - 4.0).abs() < 1e-6);
    }
}
