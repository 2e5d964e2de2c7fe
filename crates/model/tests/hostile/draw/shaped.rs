//! Operators nearly as they are meant: windows over pictures, and what takes sizes, counts and places as values.

use streampool_model::Array;
use streampool_model::onnx::writer::{float, int, ints, string};

use super::{FLOATS, Sheet, WORDS};

impl Sheet {
    /// What slides over a picture.
    pub(super) fn window(&mut self) {
        let rank = 1 + self.random.below(3) as usize;
        let channels = self.small() as usize;
        let mut shape = vec![self.small() as usize, channels];
        shape.extend((0..rank).map(|_| 0).map(|_: usize| 1));
        for size in &mut shape[2..] {
            *size = self.pick(&[1, 3, 5, 8]);
        }
        let x = self.reals(&shape);
        let kernel: Vec<i64> = (0..rank).map(|_| self.pick(&[1, 2, 3])).collect();
        let mut attributes = Vec::new();
        if self.one_of(2) {
            let sizes = self.list(rank, &[1, 1, 2, 3]);
            attributes.push(ints("strides", &sizes));
        }
        if self.one_of(2) {
            let sizes = self.list(rank, &[1, 1, 2, (1 << 22) - 1]);
            attributes.push(ints("dilations", &sizes));
        }
        if self.one_of(2) {
            let sizes = self.list(2 * rank, &[0, 1, 2, 1 << 22]);
            attributes.push(ints("pads", &sizes));
        } else if self.one_of(3) {
            let word = self.pick(&WORDS[..4]);
            attributes.push(string("auto_pad", word));
        }
        let op = self.word("Conv Conv ConvTranspose ConvTranspose AveragePool MaxPool LpPool");
        if op.starts_with("Conv") {
            let mut sizes = vec![channels, channels];
            sizes.extend(kernel.iter().map(|&size| size as usize));
            let weight = self.reals(&sizes);
            if op == "ConvTranspose" && self.one_of(3) {
                let sizes = self.list(rank, &[0, 1, 5]);
                let name = self.pick(&["output_padding", "output_shape"]);
                attributes.push(ints(name, &sizes));
            }
            return self.add(&format!("{op} {x} {weight}"), &attributes);
        }
        let kernel: Vec<i64> = kernel.into_iter().map(|size| self.about(size)).collect();
        attributes.push(ints("kernel_shape", &kernel));
        if self.one_of(3) {
            attributes.push(int("ceil_mode", 1));
        }
        self.add(&format!("{op} {x}"), &attributes);
    }

    /// Operators that take sizes, counts and places as values.
    pub(super) fn shaped(&mut self) {
        let rank = 1 + self.random.below(4) as usize;
        let shape = self.shape(rank);
        let x = match self.one_of(4) {
            true => self.value(),
            false => self.reals(&shape),
        };
        let axis = self.random.below(rank as u64) as i64;
        let axis = self.about(axis);
        match self.random.below(16) {
            0 => {
                let sizes = self.list(2 * rank, &[0, 1, 2]);
                let pads = self.integers(&sizes);
                let mode = self.pick(&WORDS[4..8]);
                self.add(&format!("Pad {x} {pads}"), &[string("mode", mode)]);
            }
            1 => {
                let [starts, ends, axes, steps] = [[0, 1], [2, 5], [0, axis], [1, -1]];
                let [starts, ends, axes, steps] = [starts, ends, axes, steps].map(|usual| {
                    let list = self.list(1, &usual);
                    self.integers(&list)
                });
                self.add(&format!("Slice {x} {starts} {ends} {axes} {steps}"), &[]);
            }
            2 => {
                let counts = self.list(rank, &[1, 2, 3]);
                let counts = self.integers(&counts);
                self.add(&format!("Tile {x} {counts}"), &[]);
            }
            3 => {
                let sizes = self.list(rank, &[1, 2, 1 << 20, 1 << 40]);
                let sizes = self.integers(&sizes);
                let wide = self.node(&format!("Expand {x} {sizes}"), &[]);
                let op = self.word(
                    "ReduceSum ReduceMax ReduceProd ReduceL2 ReduceLogSumExp ArgMax Softmax Size Shape CumSum TopK Identity \
                     GlobalAveragePool GlobalLpPool NonZero Unique",
                );
                let second = match op {
                    "CumSum" => self.integer(axis),
                    "TopK" => self.integers(&[3]),
                    _ => String::new(),
                };
                self.add(&format!("{op} {wide} {second}"), &[]);
            }
            4 => {
                let parts = self.list(2, &[1, 2]);
                let parts = self.integers(&parts);
                self.add(&format!("Split {x} {parts}"), &[int("axis", axis)]);
            }
            5 => {
                let [from, to, step] = [0, 8, 1].map(|usual| {
                    let number = self.about(usual);
                    self.integer(number)
                });
                self.add(&format!("Range {from} {to} {step}"), &[]);
            }
            6 => {
                let count = self.small();
                let count = self.about(count);
                let count = self.integers(&[count]);
                self.add(&format!("TopK {x} {count}"), &[int("axis", axis)]);
            }
            7 => {
                let depth = self.about(5);
                let depth = self.integer(depth);
                let places = self.list(3, &[0, 1, 4]);
                let places = self.integers(&places);
                let values = self.given(Array::new(&[0f32, 1.0], &[2]).expect("two"));
                self.add(
                    &format!("OneHot {places} {depth} {values}"),
                    &[int("axis", axis)],
                );
            }
            8 => {
                let sizes = self.list(rank, &[1, 2, 3, 9]);
                let sizes = self.integers(&sizes);
                let op = self.word("Reshape ConstantOfShape CenterCropPad Unsqueeze Squeeze");
                match op {
                    "ConstantOfShape" => self.add(&format!("{op} {sizes}"), &[]),
                    _ => self.add(&format!("{op} {x} {sizes}"), &[]),
                }
            }
            9 => {
                let factors: Vec<f32> = (0..rank)
                    .map(|_| match self.one_of(6) {
                        true => self.pick(&FLOATS),
                        false => self.pick(&[1.0, 1.0, 2.0, 0.5]),
                    })
                    .collect();
                let factors = Array::new(&factors, &[rank]).expect("a list");
                let factors = self.given(factors);
                let mode = self.pick(&WORDS[8..11]);
                let attributes = [string("mode", mode), int("antialias", 1)];
                let count = 1 + self.random.below(2) as usize;
                self.add(&format!("Resize {x} - {factors}"), &attributes[..count]);
            }
            10 => {
                let region: Vec<f32> = (0..2 * rank)
                    .map(|_| match self.one_of(4) {
                        true => self.pick(&FLOATS),
                        false => self.pick(&[0.0, 1.0]),
                    })
                    .collect();
                let region = self.given(Array::new(&region, &[2 * rank]).expect("a list"));
                let sizes = self.list(rank, &[1, 2, 3, 9]);
                let sizes = self.integers(&sizes);
                let attributes = [
                    string("coordinate_transformation_mode", "tf_crop_and_resize"),
                    string("mode", "linear"),
                    int("antialias", self.random.below(2) as i64),
                ];
                self.add(&format!("Resize {x} {region} - {sizes}"), &attributes);
            }
            11 => {
                let places = self.list(2, &[0, 1, -1]);
                let places = self.integers(&places);
                let op = self.word("Gather GatherElements GatherND");
                self.add(&format!("{op} {x} {places}"), &[]);
            }
            12 => {
                let (op, rank) = (self.word("RNN LSTM GRU"), 3);
                let gates = [1, 4, 3][["RNN", "LSTM", "GRU"]
                    .iter()
                    .position(|&name| name == op)
                    .unwrap_or(0)];
                let mut sizes = self.shape(rank);
                let hidden = self.small() as usize;
                let x = self.reals(&sizes);
                sizes[0] = 1;
                let weight = self.reals(&[1, gates * hidden, sizes[2]]);
                let recurrent = self.reals(&[1, gates * hidden, hidden]);
                let hidden = self.about(hidden as i64);
                self.add(
                    &format!("{op} {x} {weight} {recurrent}"),
                    &[int("hidden_size", hidden)],
                );
            }
            13 => {
                let sizes = self.list(2, &[1, 2, 1 << 20, 1 << 40]);
                let sizes = self.integers(&sizes);
                let one = self.reals(&[1, 1]);
                let wide = self.node(&format!("Expand {one} {sizes}"), &[]);
                let other = self.node(&format!("Transpose {wide}"), &[]);
                let op = self.word("MatMul Gemm Add Equal Concat Max");
                self.add(&format!("{op} {wide} {other}"), &[]);
            }
            14 => {
                let attributes = [
                    int("dtype", 1),
                    ints("shape", &self.list(2, &[1, 2, 3])),
                    float("scale", self.pick(&FLOATS)),
                ];
                let op = self.word("RandomNormal RandomUniform");
                self.add(op, &attributes[..2 + usize::from(op == "RandomNormal")]);
            }
            _ => {
                let size = self.about(6);
                let size = self.integer(size);
                let op = self.word("HannWindow HammingWindow BlackmanWindow");
                self.add(&format!("{op} {size}"), &[]);
            }
        }
    }
}
