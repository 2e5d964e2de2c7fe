//! Models drawn at random: what rewrites look for, with sizes that broadcast and numbers that are special, between nodes of
//! all kinds.

mod layers;

use half::f16;
use streampool_tensor::{Array, DType};

use crate::onnx::writer::{Attribute, Graph, int, ints};
use crate::testing::Random;

/// A model, and inputs for it.
pub struct Drawn {
    pub model: Vec<u8>,
    pub inputs: Vec<(String, Array)>,
    /// The nodes, to be read.
    pub text: String,
}

/// A value of floats.
#[derive(Clone)]
struct Drawing {
    name: String,
    shape: Vec<usize>,
}

/// Numbers that look drawn, the same for a seed.
struct Dice(Random);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0.below(count as u64) as usize
    }

    /// One time of so many.
    fn one_of(&mut self, count: u64) -> bool {
        self.0.one_of(count)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0.pick(from)
    }

    fn number(&mut self) -> f32 {
        2.0 * self.0.real()
    }
}

struct Sheet {
    dice: Dice,
    graph: Graph,
    dtype: DType,
    values: Vec<Drawing>,
    inputs: Vec<(String, Array)>,
    text: String,
    count: usize,
    /// Whether infinities and NaN are among the inputs.
    special: bool,
    /// Whether all sizes fit.
    valid: bool,
}

/// The model of a seed.
pub fn draw(seed: u64) -> Drawn {
    let mut dice = Dice(Random::new(seed));
    let dtype = match dice.below(8) {
        0 => DType::F64,
        1 => DType::F16,
        _ => DType::F32,
    };
    let special = dice.one_of(6);
    let mut sheet = Sheet {
        dice,
        graph: Graph::new(),
        dtype,
        values: Vec::new(),
        inputs: Vec::new(),
        text: String::new(),
        count: 0,
        special,
        valid: true,
    };
    let rank = 1 + sheet.dice.below(4);
    let shape = sheet.shape(rank);
    let first = sheet.input(&shape);
    sheet.values.push(first);
    for _ in 0..1 + sheet.dice.below(4) {
        sheet.step();
    }
    let last = sheet.values.len().saturating_sub(1 + sheet.dice.below(2));
    // What is not valid is read, as nodes that nobody reads are dropped unseen.
    let mut ends = match sheet.valid {
        true => sheet.values[last..].to_vec(),
        false => sheet.values.clone(),
    };
    if sheet.dice.one_of(6) {
        ends.push(sheet.any());
    }
    let mut outputs = Vec::new();
    for end in ends {
        outputs.push(sheet.unary("Identity", &end).name);
    }
    let Sheet {
        graph,
        inputs,
        text,
        ..
    } = sheet;
    Drawn {
        model: graph.outputs(&outputs.join(" ")).model(&[("", 17)]),
        inputs,
        text,
    }
}

/// The shape of what broadcasts both, if they fit.
fn joined(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(place) => shape[place],
        None => 1,
    };
    let sizes = (0..rank).map(|axis| match (size(a, axis), size(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    });
    sizes.collect()
}

impl Sheet {
    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank)
            .map(|_| self.dice.pick(&[1, 2, 3, 4, 6]))
            .collect()
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn any(&mut self) -> Drawing {
        let place = self.dice.below(self.values.len());
        self.values[place].clone()
    }

    fn array(&self, values: &[f32], shape: &[usize]) -> Array {
        match self.dtype {
            DType::F64 => {
                let values: Vec<f64> = values.iter().map(|&value| value.into()).collect();
                Array::new(&values, shape).unwrap()
            }
            DType::F16 => {
                let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
                Array::new(&values, shape).unwrap()
            }
            _ => Array::new(values, shape).unwrap(),
        }
    }

    fn numbers(&mut self, shape: &[usize], special: bool) -> Array {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|_| match special && self.dice.one_of(12) {
                true => self
                    .dice
                    .pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 300.0]),
                false => self.dice.number(),
            })
            .collect();
        self.array(&values, shape)
    }

    fn input(&mut self, shape: &[usize]) -> Drawing {
        let (name, array) = (self.name(), self.numbers(shape, self.special));
        self.given(name, array)
    }

    fn given(&mut self, name: String, array: Array) -> Drawing {
        let shape = array.shape().to_vec();
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let graph = std::mem::take(&mut self.graph);
        // Sometimes nothing is said of the sizes.
        let said = match self.dice.one_of(4) {
            true => (0..shape.len())
                .map(|axis| format!("{name}_{axis}"))
                .collect(),
            false => sizes,
        };
        self.graph = graph.input(&name, array.dtype(), &said.join(" "));
        self.text += &format!("input {name} {shape:?} {}\n", array.dtype());
        self.inputs.push((name.clone(), array));
        Drawing { name, shape }
    }

    fn constant(&mut self, array: &Array) -> Drawing {
        let name = self.name();
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.constant(&name, array);
        let shape = array.shape().to_vec();
        self.text += &format!("constant {name} {shape:?}\n");
        Drawing { name, shape }
    }

    fn weights(&mut self, shape: &[usize]) -> Drawing {
        let array = self.numbers(shape, false);
        self.constant(&array)
    }

    /// A number, sometimes with axes of size one.
    fn scalar(&mut self, value: f32) -> Drawing {
        let shape = match self.dice.below(20) {
            0 => &[1][..],
            1 => &[1, 1],
            2 => &[1, 1, 1, 1, 1],
            _ => &[],
        };
        let array = self.array(&[value], shape);
        self.text += &format!("number {value}: ");
        self.constant(&array)
    }

    fn integers(&mut self, values: &[i64]) -> Drawing {
        self.text += &format!("integers {values:?}: ");
        self.constant(&Array::new(values, &[values.len()]).unwrap())
    }

    fn node(
        &mut self,
        op: &str,
        inputs: &[&Drawing],
        attributes: &[Attribute],
        shape: Vec<usize>,
    ) -> Drawing {
        let name = self.name();
        let names: Vec<&str> = inputs.iter().map(|input| &input.name[..]).collect();
        let text = format!("{op} {} = {name}", names.join(" "));
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.node(&text, attributes);
        self.text += &format!("{text} {shape:?}\n");
        Drawing { name, shape }
    }

    fn unary(&mut self, op: &str, x: &Drawing) -> Drawing {
        self.node(op, &[x], &[], x.shape.clone())
    }

    /// A node of two values that broadcast; where they do not, the model is not valid.
    fn binary(&mut self, op: &str, a: &Drawing, b: &Drawing) -> Drawing {
        let shape = joined(&a.shape, &b.shape);
        self.valid &= shape.is_some();
        self.node(op, &[a, b], &[], shape.unwrap_or_default())
    }

    /// As [`binary`](Self::binary), in one order or the other.
    fn either(&mut self, op: &str, a: &Drawing, b: &Drawing) -> Drawing {
        match self.dice.one_of(2) {
            true => self.binary(op, a, b),
            false => self.binary(op, b, a),
        }
    }

    fn step(&mut self) {
        let x = self.any();
        let made = match self.dice.below(16) {
            0 => {
                let op = self
                    .dice
                    .pick(&["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf"]);
                self.unary(op, &x)
            }
            1 => self.sum(&x),
            2 => self.gelu(&x),
            3 => self.gated(&x),
            // Of halves, rounding alone may change what is left of a small variance.
            4..=6 if self.dtype != DType::F16 => self.norm(&x),
            4..=6 => self.gated(&x),
            7..=10 => self.attention(&x),
            11 | 12 => self.linear(&x),
            13 => self.convolution(),
            14 => self.layout(&x),
            _ => self.reduced(&x),
        };
        self.values.push(made);
    }

    /// A shape that broadcasts with another, and may be broadcast by it, or broadcast it.
    fn beside(&mut self, shape: &[usize]) -> Vec<usize> {
        let skipped = self.dice.below(shape.len() + 1);
        let mut own: Vec<usize> = shape[skipped..].to_vec();
        for size in &mut own {
            match *size {
                1 if self.dice.one_of(4) => *size = 3,
                _ if self.dice.one_of(4) => *size = 1,
                _ => {}
            }
        }
        if self.dice.one_of(10) && own.len() < 4 {
            own.insert(0, 1);
        }
        own
    }

    fn sum(&mut self, x: &Drawing) -> Drawing {
        let op = self.dice.pick(&["Add", "Sub", "Mul", "Max", "Min"]);
        let other = self.any();
        if self.dice.one_of(2) && joined(&x.shape, &other.shape).is_some() {
            return self.binary(op, x, &other);
        }
        let own = self.beside(&x.shape);
        let constant = self.weights(&own);
        self.either(op, x, &constant)
    }

    fn gelu(&mut self, x: &Drawing) -> Drawing {
        let [half, one] = [0.5, 1.0].map(|value| self.scalar(value));
        let inner = if self.dice.one_of(2) {
            let root = self.scalar(std::f32::consts::SQRT_2);
            let scaled = self.binary("Div", x, &root);
            self.unary("Erf", &scaled)
        } else {
            let [cube, scale] = [0.044_715, 0.797_884_6].map(|value| self.scalar(value));
            let square = self.binary("Mul", x, x);
            let third = self.either("Mul", &square, x);
            let third = self.either("Mul", &third, &cube);
            let sum = self.either("Add", x, &third);
            let scaled = self.either("Mul", &sum, &scale);
            self.unary("Tanh", &scaled)
        };
        let sum = self.either("Add", &inner, &one);
        let product = self.either("Mul", x, &sum);
        self.either("Mul", &product, &half)
    }

    /// SiLU and hard swish.
    fn gated(&mut self, x: &Drawing) -> Drawing {
        if self.dice.one_of(2) {
            let gate = self.unary("Sigmoid", x);
            return self.either("Mul", x, &gate);
        }
        let [three, six] = [3.0, 6.0].map(|value| self.scalar(value));
        let [low, high] = [0.0, 6.0].map(|value| {
            let array = self.array(&[value], &[]);
            self.constant(&array)
        });
        let sum = self.either("Add", x, &three);
        let clipped = self.node("Clip", &[&sum, &low, &high], &[], sum.shape.clone());
        let product = self.either("Mul", x, &clipped);
        self.binary("Div", &product, &six)
    }

    fn mean(&mut self, x: &Drawing, axes: &[i64]) -> Drawing {
        let mut shape = x.shape.clone();
        for &axis in axes {
            let place = axis.rem_euclid(shape.len() as i64) as usize;
            shape[place] = 1;
        }
        self.node("ReduceMean", &[x], &[ints("axes", axes)], shape)
    }

    fn norm(&mut self, x: &Drawing) -> Drawing {
        let rank = x.shape.len() as i64;
        if rank == 0 {
            return self.unary("Neg", x);
        }
        let axes: &[i64] = match self.dice.below(6) {
            0 if rank > 1 => &[-2, -1],
            1 => &[0],
            2 => &[rank - 1],
            _ => &[-1],
        };
        let axes = axes.to_vec();
        let centred = match self.dice.one_of(2) {
            true => x.clone(),
            false => {
                let mean = self.mean(x, &axes);
                self.binary("Sub", x, &mean)
            }
        };
        let square = self.binary("Mul", &centred, &centred);
        let variance = self.mean(&square, &axes);
        let epsilon = self.dice.pick(&[1e-5, 1e-5, 1e-3, 0.5]);
        let epsilon = self.scalar(epsilon);
        let sum = self.either("Add", &variance, &epsilon);
        let root = self.unary("Sqrt", &sum);
        let mut y = match self.dice.below(3) {
            0 => self.binary("Div", &centred, &root),
            1 => {
                let inverse = self.unary("Reciprocal", &root);
                self.either("Mul", &centred, &inverse)
            }
            _ => {
                let one = self.scalar(1.0);
                let inverse = self.binary("Div", &one, &root);
                self.either("Mul", &centred, &inverse)
            }
        };
        for op in ["Mul", "Add"] {
            if self.dice.one_of(3) {
                break;
            }
            let own = self.beside(&x.shape);
            let constant = self.weights(&own);
            y = self.either(op, &y, &constant);
        }
        y
    }

    fn layout(&mut self, x: &Drawing) -> Drawing {
        let count = x.shape.iter().product::<usize>();
        match self.dice.below(5) {
            0 => {
                let sizes = self.integers(&[1, -1]);
                self.node("Reshape", &[x, &sizes], &[], vec![1, count])
            }
            1 => {
                let perm: Vec<i64> = (0..x.shape.len() as i64).rev().collect();
                let shape = x.shape.iter().rev().copied().collect();
                self.node("Transpose", &[x], &[ints("perm", &perm)], shape)
            }
            2 => {
                // As large as it is, by way of its shape.
                let sizes = self.node("Shape", &[x], &[], vec![x.shape.len()]);
                let y = self.unary("Neg", x);
                self.node("Reshape", &[&y, &sizes], &[], x.shape.clone())
            }
            3 => {
                let axes = self.integers(&[0]);
                let shape = [&[1], &x.shape[..]].concat();
                let y = self.node("Unsqueeze", &[x, &axes], &[], shape);
                self.node("Squeeze", &[&y, &axes], &[], x.shape.clone())
            }
            _ if !x.shape.is_empty() => {
                let mut shape = x.shape.clone();
                shape[0] *= 2;
                self.node("Concat", &[x, x], &[int("axis", 0)], shape)
            }
            _ => self.unary("Neg", x),
        }
    }

    fn reduced(&mut self, x: &Drawing) -> Drawing {
        if x.shape.is_empty() {
            return self.unary("Abs", x);
        }
        match self.dice.below(3) {
            0 => self.mean(x, &[-1]),
            // Not the largest: that of NaN is NaN, but not everybody says so.
            1 => {
                let mut shape = x.shape.clone();
                shape[0] = 1;
                self.node("ReduceL1", &[x], &[ints("axes", &[0])], shape)
            }
            _ => {
                let shape = x.shape.clone();
                self.node("Softmax", &[x], &[int("axis", -1)], shape)
            }
        }
    }
}
