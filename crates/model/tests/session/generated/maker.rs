//! Graphs in the making: weights that are cut and turned, values that decide, sequences, loops and choices.

use std::fmt::Write;

use streampool_model::Array;
use streampool_model::onnx::writer::Attribute;
use streampool_tensor::DType;

use super::super::longs;
use super::{WIDTH, pieces};
use crate::onnx::{Graph, Load, graph, int};
use streampool_model::testing::Random;

/// A graph in the making: matrices of `WIDTH` columns, by name.
pub(super) struct Maker {
    pub(super) random: Random,
    pub(super) graph: Graph,
    matrices: Vec<String>,
    sequences: Vec<String>,
    /// What may fail by an index. All of it is an output: whether a value is made that nobody needs depends on the plan.
    watched: Vec<String>,
    names: usize,
    /// What it is, for whoever looks for the reason.
    text: String,
}

impl Maker {
    fn new(seed: u64) -> Maker {
        let mut random = Random::new(seed);
        let graph = Graph::new()
            .input("x", DType::F32, "n 64")
            .input("count", DType::I64, "1")
            .input("places", DType::I64, "m")
            .constant("table", &random.reals(&[256, WIDTH]))
            .constant("wide", &random.reals(&[32, 8 * WIDTH]))
            .constant("square", &random.reals(&[WIDTH, WIDTH]))
            .constant("zero", &longs(&[0], &[1]))
            .constant("one", &longs(&[1], &[1]))
            .constant("nothing", &longs(&[0], &[]))
            .constant("step", &longs(&[1], &[]))
            .constant("rows_of", &longs(&[-1, WIDTH as i64], &[2]))
            // Not zero: of what is left of a difference rounding makes the sign.
            .constant("limit", &Array::scalar(0.037f32));
        let graph = pieces::constants(graph, &mut random);
        Maker {
            random,
            graph,
            matrices: vec!["x".to_owned()],
            sequences: Vec::new(),
            watched: Vec::new(),
            names: 0,
            text: String::new(),
        }
    }

    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    pub(super) fn said(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    /// Adds a node; the name of what it makes.
    pub(super) fn node(&mut self, call: &str, attributes: &[Attribute]) -> String {
        let name = self.name();
        let text = format!("{call} = {name}");
        self.said(&text);
        self.graph = std::mem::take(&mut self.graph).node(&text, attributes);
        name
    }

    pub(super) fn matrix(&mut self) -> String {
        // The latest are the likeliest.
        let count = self.matrices.len() as u64;
        let back = self.random.below(count).min(self.random.below(count));
        self.matrices[(count - 1 - back) as usize].clone()
    }

    fn add(&mut self) {
        let m = self.matrix();
        let made = match self.random.below(34) {
            22.. => self.piece(&m),
            // Weights, as shapes and small integers say.
            0 | 1 => {
                let shape = self.node(&format!("Shape {m}"), &[]);
                let rows = self.node(&format!("Slice {shape} zero one zero"), &[]);
                self.node(&format!("Slice table zero {rows} zero"), &[])
            }
            2 | 3 => self.node("Slice table zero count zero", &[]),
            4 => {
                let sizes = self.node("Concat count rows_of", &[int("axis", 0)]);
                let sizes = self.node(&format!("Slice {sizes} one three zero"), &[]);
                self.node(&format!("Reshape wide {sizes}"), &[])
            }
            5 => {
                let turned = self.node("Transpose square", &[]);
                let both = self.node(&format!("Concat {turned} square"), &[int("axis", 0)]);
                self.node(&format!("Slice {both} count end zero"), &[])
            }
            6 => {
                let number = self.node("Squeeze count zero", &[]);
                let range = self.node(&format!("Range nothing {number} step"), &[]);
                self.node(&format!("Gather table {range}"), &[int("axis", 0)])
            }
            // Values decide.
            7 | 8 => {
                let column = self.node(&format!("Slice {m} zero one one"), &[]);
                // Of a single element there is as much in each request, so that only what is known differs.
                let positive = match self.random.below(2) {
                    0 => self.node(&format!("Relu {column}"), &[]),
                    _ => {
                        let one = self.node(&format!("Slice {column} zero one zero"), &[]);
                        self.node(&format!("Abs {one}"), &[])
                    }
                };
                let flat = self.node(&format!("Squeeze {positive} one"), &[]);
                let places = self.node(&format!("NonZero {flat}"), &[]);
                let flat = self.node(&format!("Squeeze {places} zero"), &[]);
                let from = self.matrix();
                self.gather(&from, &flat)
            }
            9 => {
                let sums = self.node(&format!("ReduceSum {m} one"), &[int("keepdims", 0)]);
                let kept = self.node(&format!("Greater {sums} limit"), &[]);
                self.node(&format!("Compress {m} {kept}"), &[int("axis", 0)])
            }
            10 => self.choice(&m),
            11 => self.rounds(&m),
            12 => self.gather(&m, "places"),
            13 => {
                let most = self.node("ReduceMax places", &[]);
                let end = self.node(&format!("Add {most} one"), &[]);
                self.node(&format!("Slice {m} zero {end} zero"), &[])
            }
            // Sequences.
            14 => {
                let made = self.node(&format!("SplitToSequence {m} step"), &[int("axis", 0)]);
                self.sequences.push(made);
                return;
            }
            15 | 16 => {
                let Some(sequence) = self.sequences.last().cloned() else {
                    return;
                };
                match self.random.below(3) {
                    0 => self.node(&format!("SequenceAt {sequence} nothing"), &[]),
                    1 => self.node(&format!("ConcatFromSequence {sequence}"), &[int("axis", 0)]),
                    _ => {
                        let made = self.node(&format!("SequenceInsert {sequence} {m}"), &[]);
                        self.sequences.push(made);
                        return;
                    }
                }
            }
            // And the ordinary.
            17 => self.node(&format!("MatMul {m} square"), &[]),
            18 => self.node(&format!("Tanh {m}"), &[]),
            19 => {
                let mean = self.node(&format!("ReduceMean {m} zero"), &[]);
                self.node(&format!("Sub {m} {mean}"), &[])
            }
            20 => self.node(&format!("Softmax {m}"), &[]),
            _ => {
                let other = self.matrix();
                self.node(&format!("Concat {m} {other}"), &[int("axis", 0)])
            }
        };
        self.matrices.push(made);
    }

    pub(super) fn gather(&mut self, from: &str, places: &str) -> String {
        let made = self.node(&format!("Gather {from} {places}"), &[int("axis", 0)]);
        self.watched.push(made.clone());
        made
    }

    fn choice(&mut self, m: &str) -> String {
        let sum = self.node(&format!("ReduceSum {m}"), &[int("keepdims", 0)]);
        let yes = self.node(&format!("Less {sum} limit"), &[]);
        let [then, other] = [self.name(), self.name()];
        let then = Graph::new()
            .node(&format!("Neg {m} = {then}"), &[])
            .outputs(&then);
        let other = Graph::new()
            .node(&format!("Concat {m} {m} = {other}"), &[int("axis", 0)])
            .outputs(&other);
        let branches = [graph("then_branch", then), graph("else_branch", other)];
        self.node(&format!("If {yes}"), &branches)
    }

    fn rounds(&mut self, m: &str) -> String {
        let number = self.node("Squeeze small zero", &[]);
        let [round, more, carried, next] = [(); 4].map(|()| self.name());
        let body = Graph::new()
            .input(&round, DType::I64, "")
            .input(&more, DType::Bool, "")
            .untyped(&carried)
            .node(&format!("Identity {more} = on_{next}"), &[])
            .node(&format!("Add {carried} {m} = {next}"), &[])
            .outputs(&format!("on_{next} {next}"));
        self.node(&format!("Loop {number} - {m}"), &[graph("body", body)])
    }

    /// The model, and what it is.
    fn model(mut self) -> (Vec<u8>, String) {
        let graph = std::mem::take(&mut self.graph);
        let last = self.matrices.iter().rev().take(3);
        let mut outputs: Vec<&str> = last.chain(&self.watched).map(String::as_str).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let mut outputs = outputs.join(" ");
        if let Some(sequence) = self.sequences.last() {
            let _ = write!(outputs, " {sequence}");
        }
        (graph.outputs(&outputs).file(), self.text)
    }
}

/// A graph of this seed, and what it is.
pub(super) fn generated(seed: u64) -> (Vec<u8>, String) {
    let mut maker = Maker::new(seed);
    maker.graph = std::mem::take(&mut maker.graph)
        .constant("three", &longs(&[3], &[1]))
        .constant("end", &longs(&[1 << 20], &[1]))
        .node("Min count three = small", &[]);
    for _ in 0..3 + maker.random.below(10) {
        maker.add();
    }
    maker.model()
}
