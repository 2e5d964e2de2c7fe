//! Models of hostile numbers, the same for a number: operators nearly as they are meant, with one size, count or attribute out of
//! the way, and operators with whatever attributes they have. Sizes come from the file, or from a request.

mod shaped;

use std::fmt::Write;

use streampool_model::Array;
use streampool_model::onnx::writer::{Attribute, Graph, float, floats, graph, int, ints, string};
use streampool_tensor::DType;

use streampool_model::testing::Random;

/// A model, and what it is asked.
pub struct Drawn {
    pub model: Vec<u8>,
    pub requests: Vec<Vec<(String, Array)>>,
    /// What it is, to be read.
    pub text: String,
}

/// All operators, with the most inputs that they take and their attributes.
const SIGNATURES: &str = include_str!("../../src/nodes/signatures.txt");

const EXTREME: [i64; 24] = [
    -1,
    -2,
    -7,
    0,
    100,
    1000,
    1 << 16,
    1 << 22,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 40,
    1 << 46,
    1 << 48,
    1 << 60,
    1 << 61,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    -(1 << 31),
];
const FLOATS: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-30,
    1e9,
    -1e9,
    1e15,
    1e38,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
];
const TYPES: [DType; 10] = [
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F16,
    DType::F64,
    DType::I64,
    DType::I32,
    DType::U8,
    DType::I8,
    DType::Bool,
];
const INTS: &str = "axes pads strides kernel_shape dilations shape output_shape output_padding split perm starts ends \
    scan_input_axes scan_output_axes scan_input_directions qkv_hidden_sizes value_ints";
const NUMBERS: &str = "alpha beta epsilon scale softcap ratio mean high low momentum min max gamma lambd bias clip \
    spatial_scale cubic_coeff_a extrapolation_value value_float k_norm_epsilon q_norm_epsilon mask_filter_value";
const TEXTS: &str = "auto_pad mode reduction direction padding_mode nearest_mode approximate equation layout activation \
    coordinate_transformation_mode keep_aspect_ratio_policy";
const WORDS: [&str; 27] = [
    "NOTSET",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "constant",
    "edge",
    "reflect",
    "wrap",
    "linear",
    "nearest",
    "cubic",
    "bidirectional",
    "reverse",
    "forward",
    "add",
    "mul",
    "max",
    "none",
    "tanh",
    "DCR",
    "CRD",
    "half_pixel",
    "tf_crop_and_resize",
    "align_corners",
    "ij,jk->ik",
    "bij,bjk->bik",
    "ii->i",
];
/// Operators that are drawn more often: shapes and values decide what they take.
const SHAPERS: &str = "Conv ConvTranspose AveragePool MaxPool LpPool Resize Upsample Pad Slice Tile Expand Split Range TopK \
    OneHot CumSum Gather GatherND ScatterND ScatterElements Reshape Unsqueeze MatMul Gemm Einsum RNN LSTM GRU Attention \
    ConstantOfShape EyeLike RandomNormal RandomUniform RoiAlign MaxRoiPool GridSample AffineGrid Col2Im STFT DFT HannWindow \
    MelWeightMatrix NonMaxSuppression DepthToSpace SpaceToDepth SplitToSequence CenterCropPad MaxUnpool DeformConv Compress \
    LRN LayerNormalization ReduceSum ReduceMax ArgMax Concat Transpose QuantizeLinear DequantizeLinear ConvInteger \
    MatMulInteger Multinomial Bernoulli ReverseSequence Trilu Unique";

struct Sheet {
    random: Random,
    graph: Graph,
    /// Inputs of the model, and what the first request gives.
    inputs: Vec<(String, Array)>,
    values: Vec<String>,
    names: usize,
    text: String,
}

/// The model of a number.
pub fn model(number: u64) -> Drawn {
    let mut sheet = Sheet {
        random: Random::new(number),
        graph: Graph::new(),
        inputs: Vec::new(),
        values: Vec::new(),
        names: 0,
        text: String::new(),
    };
    for _ in 0..1 + sheet.random.below(3) {
        match sheet.random.below(4) {
            0 => sheet.window(),
            1 => sheet.shaped(),
            2 => sheet.rounds(),
            _ => sheet.any(),
        }
    }
    let other = sheet.other_request();
    let outputs = sheet.values.join(" ");
    let version = [18, 18, 13, 20, 22, 11][sheet.random.below(6) as usize];
    Drawn {
        model: (sheet.graph.outputs(&outputs)).model(&[("", version), ("com.microsoft", 1)]),
        requests: vec![sheet.inputs, other],
        text: sheet.text,
    }
}

impl Sheet {
    fn one_of(&mut self, count: u64) -> bool {
        self.random.one_of(count)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.random.pick(from)
    }

    fn word<'a>(&mut self, of: &'a str) -> &'a str {
        let words: Vec<&str> = of.split_whitespace().collect();
        self.pick(&words)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// The number, but sometimes another.
    fn about(&mut self, number: i64) -> i64 {
        match self.random.below(24) {
            0 => self.pick(&EXTREME),
            1 => number.wrapping_add(1),
            _ => number,
        }
    }

    fn small(&mut self) -> i64 {
        self.pick(&[1, 1, 2, 2, 3, 4, 5, 8])
    }

    fn shape(&mut self, rank: usize) -> Vec<usize> {
        let sizes = [0, 1, 1, 2, 2, 3, 3, 4, 5, 8];
        (0..rank)
            .map(|_| match self.one_of(12) {
                true => 0,
                false => self.pick(&sizes[1..]),
            })
            .collect()
    }

    fn list(&mut self, length: usize, usual: &[i64]) -> Vec<i64> {
        (0..length)
            .map(|_| {
                let number = self.pick(usual);
                self.about(number)
            })
            .collect()
    }

    fn array(&mut self, dtype: DType, shape: &[usize]) -> Array {
        let count: usize = shape.iter().product();
        let mut bytes = Vec::new();
        for _ in 0..count {
            let number = match self.random.below(12) {
                0 => self.pick(&FLOATS),
                1 => self.pick(&EXTREME) as f32,
                _ => self.random.real() * 4.0,
            };
            match dtype {
                DType::F64 => bytes.extend(f64::from(number).to_le_bytes()),
                DType::F32 => bytes.extend(number.to_le_bytes()),
                DType::F16 => bytes.extend(0x3c00u16.to_le_bytes()),
                DType::I64 => bytes.extend((number as i64).to_le_bytes()),
                DType::I32 => bytes.extend((number as i32).to_le_bytes()),
                DType::Bool => bytes.push(u8::from(number > 0.0)),
                _ => bytes.push(number as u8),
            }
        }
        Array::from_bytes(dtype, &bytes, shape).expect("as many bytes as the shape has")
    }

    /// An input of the model, or a constant.
    fn given(&mut self, array: Array) -> String {
        let name = self.name();
        let graph = std::mem::take(&mut self.graph);
        if self.one_of(3) {
            let _ = writeln!(self.text, "constant {name} {array:?}");
            self.graph = graph.constant(&name, &array);
            return name;
        }
        let _ = writeln!(self.text, "input {name} {array:?}");
        let sizes: Vec<String> = (0..array.shape().len())
            .map(|axis| format!("{name}_{axis}"))
            .collect();
        self.graph = graph.input(&name, array.dtype(), &sizes.join(" "));
        self.inputs.push((name.clone(), array));
        name
    }

    fn reals(&mut self, shape: &[usize]) -> String {
        let array = match self.one_of(8) {
            true => {
                let dtype = self.pick(&TYPES);
                self.array(dtype, shape)
            }
            false => self.array(DType::F32, shape),
        };
        self.given(array)
    }

    fn integers(&mut self, values: &[i64]) -> String {
        self.given(Array::new(values, &[values.len()]).expect("a list"))
    }

    fn integer(&mut self, value: i64) -> String {
        self.given(Array::scalar(value))
    }

    fn node(&mut self, call: &str, attributes: &[Attribute]) -> String {
        let name = self.name();
        let text = format!("{call} = {name}");
        let _ = writeln!(self.text, "{text} {attributes:?}");
        let domain = match call.starts_with("com.microsoft.") {
            true => "com.microsoft",
            false => "",
        };
        let text = text.trim_start_matches("com.microsoft.");
        self.graph = std::mem::take(&mut self.graph).node_of(domain, text, attributes);
        name
    }

    fn add(&mut self, call: &str, attributes: &[Attribute]) {
        let made = self.node(call, attributes);
        self.values.push(made);
    }

    /// A value: one that was made, one that is given, or one that repeats far beyond what memory holds.
    fn value(&mut self) -> String {
        match self.random.below(8) {
            0 | 1 if !self.values.is_empty() => {
                let place = self.random.below(self.values.len() as u64) as usize;
                self.values[place].clone()
            }
            2 => {
                let one = self.reals(&[1]);
                let rank = 1 + self.random.below(4) as usize;
                let sizes = self.list(rank, &[1, 2, 1 << 10, 1 << 20]);
                let sizes = self.integers(&sizes);
                self.node(&format!("Expand {one} {sizes}"), &[])
            }
            3 => {
                let sizes = self.list(2, &[1, 2, 3]);
                self.integers(&sizes)
            }
            4 => {
                let value = self.small();
                let value = self.about(value);
                self.integer(value)
            }
            _ => {
                let (dtype, rank) = (self.pick(&TYPES), self.random.below(5) as usize);
                let shape = self.shape(rank);
                let array = self.array(dtype, &shape);
                self.given(array)
            }
        }
    }

    /// Loops and choices.
    fn rounds(&mut self) {
        let x = self.reals(&[2, 3]);
        let count = self.small();
        let count = self.about(count);
        let count = self.integer(count);
        let [round, more, carried, next, on, listed] = [(); 6].map(|()| self.name());
        let call = self.pick(&["Add", "Concat", "Mul", "MatMul", "SequenceInsert", "Expand"]);
        let other = match call {
            "Expand" => self.value(),
            _ => x.clone(),
        };
        let body = Graph::new()
            .input(&round, DType::I64, "")
            .input(&more, DType::Bool, "")
            .untyped(&carried)
            .node(
                &format!("{call} {carried} {other} = {next}"),
                match call {
                    "Concat" => vec![int("axis", 0)],
                    _ => Vec::new(),
                }
                .as_slice(),
            )
            .node(&format!("Identity {more} = {on}"), &[])
            .node(&format!("Identity {next} = {listed}"), &[]);
        let lists = self.one_of(2);
        let outputs = match lists {
            true => format!("{on} {next} {listed}"),
            false => format!("{on} {next}"),
        };
        let body = [graph("body", body.outputs(&outputs))];
        let _ = writeln!(self.text, "in a loop: {call} {other}");
        match lists {
            true => {
                let last = self.name();
                self.add(&format!("Loop {count} - {x} = {last}"), &body);
            }
            false => self.add(&format!("Loop {count} - {x}"), &body),
        }
    }

    /// Any operator with any of its attributes.
    fn any(&mut self) {
        let lines: Vec<&str> = SIGNATURES
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        let mut line = self.pick(&lines);
        if self.one_of(2) {
            let name = self.word(SHAPERS);
            let of_it = |line: &&&str| line.split(' ').next() == Some(name);
            line = lines.iter().find(of_it).copied().unwrap_or(line);
        }
        let mut words = line.split_whitespace();
        let (Some(op), Some(most)) = (words.next(), words.next()) else {
            return;
        };
        let most = most.parse().unwrap_or(4).min(6u64);
        let least = most.min(1);
        let count = least + self.random.below(most + 1 - least);
        let inputs: Vec<String> = (0..count).map(|_| self.value()).collect();
        let mut attributes = Vec::new();
        for word in words {
            let name = word.split('=').next().unwrap_or(word);
            if !self.one_of(3) || name.ends_with("branch") || name == "body" {
                continue;
            }
            let among = |list: &str| list.split_whitespace().any(|word| word == name);
            attributes.push(if among(INTS) {
                let length = self.random.below(5) as usize;
                ints(name, &self.list(length, &[0, 1, 1, 2, 3]))
            } else if among(NUMBERS) {
                float(name, self.pick(&FLOATS))
            } else if among(TEXTS) {
                string(name, self.pick(&WORDS))
            } else if matches!(name, "scales" | "activation_alpha" | "activation_beta") {
                let numbers = [(); 3].map(|()| self.pick(&FLOATS));
                floats(name, &numbers)
            } else {
                let number = self.pick(&[0, 1, 1, 2, 3, -1]);
                int(name, self.about(number))
            });
        }
        self.add(&format!("{op} {}", inputs.join(" ")), &attributes);
    }

    /// A request in which sizes and integers are other ones.
    fn other_request(&mut self) -> Vec<(String, Array)> {
        let inputs = self.inputs.clone();
        let other = inputs.into_iter().map(|(name, array)| {
            let mut shape = array.shape().to_vec();
            let array = match array.dtype() {
                DType::I64 => {
                    let values = array.values::<i64>().expect("integers");
                    let values: Vec<i64> = values.iter().map(|&value| self.about(value)).collect();
                    Array::new(&values, &shape).expect("as many")
                }
                dtype => {
                    if let Some(size) = shape.first_mut().filter(|_| self.one_of(3)) {
                        *size += 1;
                    }
                    self.array(dtype, &shape)
                }
            };
            (name, array)
        });
        other.collect()
    }
}
