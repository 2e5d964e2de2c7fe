//! What a rewrite makes one of, integers, numbers that are rounded to bytes, and bodies that use weights from without.

use streampool_model::Array;
use streampool_model::onnx::writer::Attribute;
use streampool_tensor::DType;

use super::super::longs;
use super::WIDTH;
use super::maker::Maker;
use crate::onnx::{Graph, graph, int, ints};
use streampool_model::testing::Random;

/// The graph with the constants of what is here.
pub(super) fn constants(graph: Graph, random: &mut Random) -> Graph {
    let bytes: Vec<i8> = (0..WIDTH * WIDTH)
        .map(|_| random.below(255) as i8)
        .collect();
    let bytes = Array::new(&bytes, &[WIDTH, WIDTH]);
    graph
        .constant("bytes", &bytes.expect("as many as there are"))
        .constant("eighth", &Array::scalar(0.125f32))
        .constant("low", &Array::scalar(-1e9f32))
        .constant("half", &Array::scalar(0.5f32))
        .constant("unit", &Array::scalar(1f32))
        .constant("epsilon", &Array::scalar(1e-3f32))
        .constant("root", &Array::scalar(std::f32::consts::SQRT_2))
        .constant("many", &Array::scalar(37f32))
        .constant("sixty_fourth", &Array::scalar(1f32 / 64.0))
        .constant("middle", &Array::scalar(128u8))
        .constant("last_row", &longs(&[255], &[]))
        .constant("width", &longs(&[WIDTH as i64], &[]))
        .constant("off_on", &Array::new(&[0f32, 1.0], &[2]).expect("two"))
        .constant("scales", &random.reals(&[WIDTH]))
}

impl Maker {
    /// One of the pieces that are here, over a matrix.
    pub(super) fn piece(&mut self, m: &str) -> String {
        match self.random.below(12) {
            0 | 1 => self.attention(m),
            2 => self.norm(m),
            3 => self.gelu(m),
            4 => self.rotated(m),
            5 => self.bytes(),
            6 => self.rounded(),
            7 => self.integers(m),
            8 => self.one_hot(m),
            9 => self.branches(m),
            10 => self.scan(m),
            _ => self.until(m),
        }
    }

    fn plain(&mut self, call: &str) -> String {
        self.node(call, &[])
    }

    /// As many rows of weights as the matrix has, or as a request says.
    fn weights(&mut self, m: &str) -> String {
        if self.random.below(2) == 0 {
            return self.plain("Slice table zero count zero");
        }
        let shape = self.plain(&format!("Shape {m}"));
        let rows = self.plain(&format!("Slice {shape} zero one zero"));
        self.plain(&format!("Slice table zero {rows} zero"))
    }

    /// Attention in pieces, of one batch or of two that the queries broadcast to.
    fn attention(&mut self, m: &str) -> String {
        let from = match self.random.below(3) {
            0 => self.weights(m),
            _ => self.matrix(),
        };
        let query = match self.random.below(4) {
            0 => self.weights(m),
            _ => m.to_owned(),
        };
        let query = self.plain(&format!("Unsqueeze {query} zero"));
        let mut key = self.plain(&format!("Unsqueeze {from} zero"));
        if self.random.below(3) == 0 {
            let other = self.plain(&format!("Neg {key}"));
            key = self.node(&format!("Concat {key} {other}"), &[int("axis", 0)]);
        }
        let turned = self.node(&format!("Transpose {key}"), &[ints("perm", &[0, 2, 1])]);
        let scores = self.plain(&format!("MatMul {query} {turned}"));
        let mut scores = self.plain(&format!("Mul {scores} eighth"));
        if self.random.below(3) > 0 {
            let sums = self.node(&format!("ReduceSum {from} one"), &[int("keepdims", 0)]);
            let kept = self.plain(&format!("Greater {sums} limit"));
            scores = match self.random.below(3) {
                0 => self.plain(&format!("Where {kept} {scores} low")),
                1 => self.plain(&format!("Where {kept} low {scores}")),
                _ => {
                    let mask = self.plain(&format!("Where {kept} limit low"));
                    self.plain(&format!("Add {scores} {mask}"))
                }
            };
        }
        let weights = self.node(&format!("Softmax {scores}"), &[int("axis", -1)]);
        let mixed = self.plain(&format!("MatMul {weights} {key}"));
        self.node(&format!("ReduceMean {mixed} zero"), &[int("keepdims", 0)])
    }

    /// A norm in pieces; its scale is one row, one column, or all.
    fn norm(&mut self, m: &str) -> String {
        let mean = self.plain(&format!("ReduceMean {m} one"));
        let apart = self.plain(&format!("Sub {m} {mean}"));
        let square = self.plain(&format!("Mul {apart} {apart}"));
        let variance = self.plain(&format!("ReduceMean {square} one"));
        let some = self.plain(&format!("Add {variance} epsilon"));
        let root = self.plain(&format!("Sqrt {some}"));
        let normed = self.plain(&format!("Div {apart} {root}"));
        let scale = match self.random.below(4) {
            0 => "scales".to_owned(),
            1 => self.plain("Slice table zero one zero"),
            2 => self.plain("Slice table zero one one"),
            _ => self.plain("Slice table zero count zero"),
        };
        let last = match scale.as_str() {
            "scales" => scale,
            // Of any number of rows, none too: their mean would be NaN for us, and 0 for ONNX Runtime.
            _ => self.plain(&format!("ReduceSum {scale} zero")),
        };
        self.plain(&format!("Mul {normed} {last}"))
    }

    fn gelu(&mut self, m: &str) -> String {
        if self.random.below(2) == 0 {
            let gate = self.plain(&format!("Sigmoid {m}"));
            return self.plain(&format!("Mul {m} {gate}"));
        }
        let inner = self.plain(&format!("Div {m} root"));
        let inner = self.plain(&format!("Erf {inner}"));
        let sum = self.plain(&format!("Add {inner} unit"));
        let product = self.plain(&format!("Mul {m} {sum}"));
        self.plain(&format!("Mul {product} half"))
    }

    /// Positions as numbers, which are large.
    fn rotated(&mut self, m: &str) -> String {
        let shape = self.plain(&format!("Shape {m}"));
        let rows = self.plain(&format!("Gather {shape} nothing"));
        let places = self.plain(&format!("Range nothing {rows} step"));
        let number = self.plain("Squeeze count zero");
        let places = self.plain(&format!("Add {places} {number}"));
        let places = self.node(&format!("Cast {places}"), &[int("to", 1)]);
        let angles = self.plain(&format!("Mul {places} many"));
        let turned = self.plain(&format!("Cos {angles}"));
        let column = self.plain(&format!("Unsqueeze {turned} one"));
        self.plain(&format!("Mul {m} {column}"))
    }

    /// A product of bytes. Of the input: of what is computed rounding would decide a byte.
    fn bytes(&mut self) -> String {
        let [y, scale, zero] = [(); 3].map(|()| self.name());
        self.lines(
            &format!("DynamicQuantizeLinear x = {y} {scale} {zero}"),
            &[],
        );
        let product = self.plain(&format!("MatMulInteger {y} bytes {zero}"));
        let product = self.node(&format!("Cast {product}"), &[int("to", 1)]);
        let small = self.plain(&format!("Mul {product} sixty_fourth"));
        self.plain(&format!("Mul {small} {scale}"))
    }

    fn rounded(&mut self) -> String {
        let from = match self.random.below(2) {
            0 => "x".to_owned(),
            _ => self.plain("Slice table zero count zero"),
        };
        let bytes = self.plain(&format!("QuantizeLinear {from} sixty_fourth middle"));
        self.plain(&format!("DequantizeLinear {bytes} sixty_fourth middle"))
    }

    /// Rows of weights by integers that are computed.
    fn integers(&mut self, m: &str) -> String {
        match self.random.below(4) {
            0 => {
                let attributes = [int("axis", 1), int("keepdims", 0)];
                let most = self.node("ArgMax x", &attributes);
                self.plain(&format!("Gather table {most}"))
            }
            1 => {
                let sums = self.plain("CumSum places nothing");
                let sums = self.plain(&format!("Mul {sums} width"));
                let rows = self.plain(&format!("Mod {sums} last_row"));
                self.plain(&format!("Gather table {rows}"))
            }
            2 => {
                let larger = self.plain("Greater places one");
                let places = self.plain(&format!("NonZero {larger}"));
                let flat = self.plain(&format!("Squeeze {places} zero"));
                self.gather(m, &flat)
            }
            _ => {
                let [values, rows] = [(); 2].map(|()| self.name());
                let text = format!("TopK places one = {values} {rows}");
                self.lines(&text, &[int("axis", 0)]);
                self.gather(m, &rows)
            }
        }
    }

    fn one_hot(&mut self, m: &str) -> String {
        let dots = self.node("OneHot places width off_on", &[int("axis", -1)]);
        match self.random.below(2) {
            0 => dots,
            _ => {
                let sums = self.plain(&format!("ReduceMax {dots} zero"));
                self.plain(&format!("Mul {m} {sums}"))
            }
        }
    }

    /// One branch that cuts weights, and one that rounds again.
    fn branches(&mut self, m: &str) -> String {
        let number = self.plain("Squeeze count zero");
        let yes = self.plain(&format!("Less {number} width"));
        let [then, inner, other] = [(); 3].map(|()| self.name());
        let body = Graph::new()
            .node(&format!("Slice table zero count zero = {inner}"), &[])
            .node(&format!("Concat {m} {inner} = {then}"), &[int("axis", 0)])
            .outputs(&then);
        let rest = Graph::new()
            .node(&format!("MatMul {m} square = {other}"), &[])
            .outputs(&other);
        let branches = [graph("then_branch", body), graph("else_branch", rest)];
        self.node(&format!("If {yes}"), &branches)
    }

    /// Sums of the rows so far.
    fn scan(&mut self, m: &str) -> String {
        let [state, row, next, out] = [(); 4].map(|()| self.name());
        let body = Graph::new()
            .input(&state, DType::F32, "64")
            .input(&row, DType::F32, "64")
            .node(&format!("Add {state} {row} = {next}"), &[])
            .node(&format!("Tanh {next} = {out}"), &[])
            .output(&next, DType::F32, "64")
            .output(&out, DType::F32, "64");
        let attributes = [graph("body", body), int("num_scan_inputs", 1)];
        let [last, all] = [(); 2].map(|()| self.name());
        self.lines(&format!("Scan scales {m} = {last} {all}"), &attributes);
        all
    }

    /// A loop that goes on while there is little.
    fn until(&mut self, m: &str) -> String {
        let [round, more, carried, sum, next, on] = [(); 6].map(|()| self.name());
        let body = Graph::new()
            .input(&round, DType::I64, "")
            .input(&more, DType::Bool, "")
            .input(&carried, DType::F32, "a b")
            .node(&format!("Add {carried} unit = {next}"), &[])
            .node(&format!("ReduceSum {next} = {sum}"), &[int("keepdims", 0)])
            .node(&format!("Less {sum} many = {on}"), &[])
            .output(&on, DType::Bool, "")
            .output(&next, DType::F32, "a b");
        self.node(&format!("Loop last_row - {m}"), &[graph("body", body)])
    }

    /// Adds a node of which all is said.
    fn lines(&mut self, text: &str, attributes: &[Attribute]) {
        self.said(text);
        self.graph = std::mem::take(&mut self.graph).node(text, attributes);
    }
}
