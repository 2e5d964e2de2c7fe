//! The models that the story brings along, made from a fixed seed.

mod graph;
mod reference;

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
    pub(super) weight: Vec<f32>,
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
    fn new(noise: &mut Noise, inputs: usize, outputs: usize) -> Dense {
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
