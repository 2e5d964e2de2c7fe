//! The graph of a model: values, and the nodes that make them from others.
//!
//! What a file says by names is said here by numbers, and what a reader has checked holds: each value is made once,
//! nodes come after what they read, and a graph inside a node names what it takes from around it.

mod order;

use std::collections::HashMap;
use std::sync::Arc;

use streampool_tensor::{DType, Tensor};

use crate::words::Named;

/// A value of one graph, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

/// A graph: of a whole model, or inside a node.
#[derive(Clone, Default)]
pub struct Graph {
    /// What a caller gives, in order. Inside a node: what the node hands it.
    pub inputs: Vec<ValueId>,
    /// What a caller gets, in order.
    pub outputs: Vec<ValueId>,
    /// In an order in which each comes after what it reads.
    pub nodes: Vec<Node>,
    /// Values that never change, in the pool of known values.
    pub constants: HashMap<ValueId, Tensor>,
    /// Constants that a caller may give instead, and what they may then be.
    pub defaults: Vec<(ValueId, ValueInfo)>,
    /// Of a graph inside a node: the values of the graph around it that it reads, and what they are here.
    pub captures: Vec<Capture>,
    /// The strings that a model names, if any of its values are strings.
    pub words: Option<Arc<Named>>,
    values: Vec<ValueInfo>,
}

/// A value of the graph around, as a graph inside a node has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capture {
    /// The value in the graph around.
    pub around: ValueId,
    /// The value here.
    pub here: ValueId,
}

/// What the file says of a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// What it is. Type and sizes are those of the tensors it holds.
    pub kind: ValueKind,
    /// Its element type, where it is declared.
    pub dtype: Option<DType>,
    /// Its sizes, where they are declared.
    pub shape: Option<Vec<Dim>>,
    /// The strings that the model names, where the elements are strings; `dtype` is then `i64`.
    pub strings: Option<Arc<[String]>>,
}

/// What a value is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// As nearly all are, and what is assumed where nothing is declared.
    #[default]
    Tensor,
    /// Several tensors.
    Sequence,
    /// A tensor that may not be there.
    Optional,
    /// Several tensors, which may not be there.
    OptionalSequence,
}

/// A size as a model declares it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Always this.
    Fixed(usize),
    /// The same wherever this name stands.
    Named(String),
    /// Anything.
    Free,
}

/// One step: values from values.
#[derive(Clone)]
pub struct Node {
    /// Its name, or that of its first output if it has none.
    pub name: String,
    /// What it does.
    pub operator: Operator,
    /// What it reads; `None` where an input is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; `None` where an output is not asked for.
    pub outputs: Vec<Option<ValueId>>,
    /// Its attributes, by name.
    pub attributes: Vec<(String, Attribute)>,
}

/// The name of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operator {
    /// Whose operator it is.
    pub domain: Domain,
    /// Its name there.
    pub name: String,
    /// The version of the domain that the model is written for.
    pub version: i64,
}

/// Whose operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// ONNX's own.
    Onnx,
    /// `com.microsoft`: what ONNX Runtime adds.
    Microsoft,
    /// `ai.onnx.ml`: classical machine learning.
    Ml,
    /// Ours: what the planner makes of several nodes.
    Fused,
}

/// A parameter of a node.
#[derive(Clone)]
#[allow(missing_docs, reason = "each name says the type")]
pub enum Attribute {
    Int(i64),
    Float(f32),
    String(String),
    /// In the pool of known values.
    Tensor(Tensor),
    Graph(Box<Graph>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strings(Vec<String>),
}

impl ValueId {
    /// Its place among the graph's values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Graph {
    /// A new value.
    pub fn add_value(&mut self, info: ValueInfo) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(info);
        id
    }

    /// Says more of a value.
    pub fn declare(&mut self, id: ValueId, info: ValueInfo) {
        self.values[id.index()] = info;
    }

    /// What is known of a value.
    pub fn value(&self, id: ValueId) -> &ValueInfo {
        &self.values[id.index()]
    }

    /// All values.
    pub fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len() as u32).map(ValueId)
    }

    /// How many values there are.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// The name of a value.
    pub fn name(&self, id: ValueId) -> &str {
        &self.value(id).name
    }
}

impl ValueInfo {
    /// Nothing is known but its name.
    pub fn named(name: impl Into<String>) -> ValueInfo {
        ValueInfo {
            name: name.into(),
            ..ValueInfo::default()
        }
    }
}

impl Operator {
    /// An operator of ONNX.
    pub fn onnx(name: &str, version: i64) -> Operator {
        Operator {
            domain: Domain::Onnx,
            name: name.to_owned(),
            version,
        }
    }

    /// An operator of ours.
    pub fn fused(name: &str) -> Operator {
        Operator {
            domain: Domain::Fused,
            ..Operator::onnx(name, 1)
        }
    }
}

impl Node {
    /// Whether it is this operator of ONNX.
    pub fn is(&self, op: &str) -> bool {
        self.operator.domain == Domain::Onnx && self.operator.name == op
    }

    /// Whether the name of its operator is among these words.
    pub fn is_among(&self, operators: &str) -> bool {
        let mut names = operators.split_ascii_whitespace();
        names.any(|name| name == self.operator.name)
    }

    /// The input at a place, if it is there.
    pub fn input(&self, place: usize) -> Option<ValueId> {
        self.inputs.get(place).copied().flatten()
    }

    /// The output at a place, if it is asked for.
    pub fn output(&self, place: usize) -> Option<ValueId> {
        self.outputs.get(place).copied().flatten()
    }

    /// The inputs, if there are two.
    pub fn pair(&self) -> Option<[ValueId; 2]> {
        match self.inputs[..] {
            [Some(a), Some(b)] => Some([a, b]),
            _ => None,
        }
    }

    /// An integer attribute, or what it is when left out.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// A float attribute, or what it is when left out.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        match self.attribute(name) {
            Some(Attribute::Float(value)) => *value,
            _ => default,
        }
    }

    /// A string attribute, or what it is when left out.
    pub fn string<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        match self.attribute(name) {
            Some(Attribute::String(value)) => value,
            _ => default,
        }
    }

    /// Integers, if they are there.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &str, value: impl Into<Attribute>) {
        self.attributes.push((name.to_owned(), value.into()));
    }

    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, attribute)| attribute)
    }

    /// The graphs inside it.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes
            .iter()
            .filter_map(|(_, attribute)| match attribute {
                Attribute::Graph(graph) => Some(&**graph),
                _ => None,
            })
    }

    /// All values it reads, those of the graphs inside it included.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        let own = self.inputs.iter().flatten().copied();
        own.chain(
            self.graphs()
                .flat_map(|graph| graph.captures.iter().map(|capture| capture.around)),
        )
    }
}

impl From<i64> for Attribute {
    fn from(value: i64) -> Attribute {
        Attribute::Int(value)
    }
}

impl From<f32> for Attribute {
    fn from(value: f32) -> Attribute {
        Attribute::Float(value)
    }
}

impl From<&str> for Attribute {
    fn from(value: &str) -> Attribute {
        Attribute::String(value.to_owned())
    }
}

impl From<Tensor> for Attribute {
    fn from(value: Tensor) -> Attribute {
        Attribute::Tensor(value)
    }
}

impl Attribute {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::Int(_) => "an integer",
            Attribute::Float(_) => "a float",
            Attribute::String(_) => "a string",
            Attribute::Tensor(_) => "a tensor",
            Attribute::Graph(_) => "a graph",
            Attribute::Ints(_) => "integers",
            Attribute::Floats(_) => "floats",
            Attribute::Strings(_) => "strings",
        }
    }
}

impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.domain {
            Domain::Onnx => f.write_str(&self.name),
            Domain::Microsoft => write!(f, "com.microsoft.{}", self.name),
            Domain::Ml => write!(f, "ai.onnx.ml.{}", self.name),
            Domain::Fused => write!(f, "fused.{}", self.name),
        }
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Fixed(size) => size.fmt(f),
            Dim::Named(name) => f.write_str(name),
            Dim::Free => f.write_str("?"),
        }
    }
}
