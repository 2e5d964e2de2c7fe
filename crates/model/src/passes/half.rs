//! Half precision: weights and everything between inputs and outputs in a shorter float type, but for what needs more.

use std::collections::{HashMap, HashSet};

use streampool_tensor::{DType, Tensor};

use super::shortened::shortened;
use super::stays_f32::{self, StaysF32};
use crate::error::{Error, NodeError, Result};
use crate::graph::{Attribute, Graph, Node, Operator, ValueId, ValueInfo};

/// What operators read as numbers, not as data, or in `f32` whatever the rest: these inputs keep their type.
const PARAMETERS: &[(&str, &[usize])] = &[
    ("Resize", &[1, 2]),
    ("Upsample", &[1]),
    ("ScaleShift", &[1, 2]),
];

/// The number of `f32` among the element types of ONNX.
const F32: i64 = 1;

/// Has the model compute in `to` where it computed in `f32`, but for sums and what is made of them alone. Its inputs and
/// outputs keep their types.
pub fn shorten(graph: &mut Graph, to: DType) -> Result<()> {
    let element = match to {
        DType::F16 => 10,
        DType::BF16 => 16,
        other => {
            let got = format!("{other}, which is none");
            return Err(refused(got, "f16 or bf16"));
        }
    };
    if let Some((node, why)) = graph
        .nodes
        .iter()
        .find_map(|node| Some((node, unfit(node)?)))
    {
        let got = format!(
            "not possible: the model has {why}, node {:?} ({})",
            node.name, node.operator
        );
        return Err(refused(
            got,
            "a run without it, in the model's own precision",
        ));
    }
    let wide = stays_f32::find(graph);
    let mut kept = kept(graph);
    let full = full_constants(graph, &wide);
    kept.extend(full.kept);
    for (id, tensor) in &mut graph.constants {
        if tensor.dtype() == DType::F32 && !kept.contains(id) {
            *tensor = shortened(tensor, to)?;
        }
    }
    let mut long = HashMap::new();
    for (id, tensor) in full.twice {
        let twin = twin(graph, id, DType::F32);
        graph.constants.insert(twin, tensor);
        long.insert(id, twin);
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let mut shortener = Shortener {
        whole: graph.inputs.iter().copied().collect(),
        graph,
        to,
        element,
        wide: &wide,
        kept,
        short: HashMap::new(),
        long,
        nodes: Vec::new(),
    };
    for (place, node) in nodes.into_iter().enumerate() {
        match wide.nodes.contains(&place) {
            true => shortener.stay(node),
            false => shortener.shorten(node)?,
        }
    }
    graph.nodes = shortener.nodes;
    lengthen_outputs(graph, to, &wide);
    Ok(())
}

fn refused(got: String, expected: &str) -> Error {
    Error::Graph(NodeError::malformed("half precision", got, expected))
}

/// What a node has that keeps its model from half precision.
fn unfit(node: &Node) -> Option<&'static str> {
    let name = &node.operator.name;
    if node.graphs().next().is_some() {
        return Some("control flow");
    }
    let words = ["Quantize", "QLinear", "OfBytes"];
    let quantised = words.iter().any(|word| name.contains(word));
    quantised.then_some("quantised values")
}

/// The constants that are parameters.
fn kept(graph: &Graph) -> HashSet<ValueId> {
    let mut kept = HashSet::new();
    for node in &graph.nodes {
        let parameters = PARAMETERS
            .iter()
            .find(|(name, _)| *name == node.operator.name);
        for &place in parameters.map_or(&[][..], |(_, places)| places) {
            kept.extend(node.input(place));
        }
    }
    kept
}

/// Constants that nodes of `f32` read.
struct Full {
    /// Nobody else does.
    kept: Vec<ValueId>,
    /// Others do, in the short type.
    twice: Vec<(ValueId, Tensor)>,
}

fn full_constants(graph: &Graph, wide: &StaysF32) -> Full {
    let (mut long, mut short) = (HashSet::new(), HashSet::new());
    for (place, node) in graph.nodes.iter().enumerate() {
        let reads = node.inputs.iter().flatten().copied();
        match wide.nodes.contains(&place) {
            true => long.extend(reads),
            false => short.extend(reads),
        }
    }
    let (mut kept, mut twice) = (Vec::new(), Vec::new());
    for (&id, tensor) in &graph.constants {
        if tensor.dtype() != DType::F32 || !long.contains(&id) {
            continue;
        }
        if short.contains(&id) || graph.outputs.contains(&id) {
            twice.push((id, tensor.clone()));
        } else {
            kept.push(id);
        }
    }
    Full { kept, twice }
}

/// Nodes on their way to the short type.
struct Shortener<'a> {
    graph: &'a mut Graph,
    to: DType,
    element: i64,
    wide: &'a StaysF32,
    /// Inputs of the graph.
    whole: HashSet<ValueId>,
    /// Constants that stay in `f32`.
    kept: HashSet<ValueId>,
    /// What values of `f32` are in the short type, where that was asked for.
    short: HashMap<ValueId, ValueId>,
    /// What short values are in `f32`.
    long: HashMap<ValueId, ValueId>,
    nodes: Vec<Node>,
}

impl Shortener<'_> {
    /// Adds a node that computes in the short type.
    fn shorten(&mut self, mut node: Node) -> Result<()> {
        for (name, attribute) in &mut node.attributes {
            match attribute {
                Attribute::Int(one @ F32) if matches!(&name[..], "to" | "dtype") => {
                    *one = self.element
                }
                Attribute::Tensor(tensor) if tensor.dtype() == DType::F32 => {
                    *tensor = shortened(tensor, self.to)?
                }
                _ => {}
            }
        }
        for read in node.inputs.iter_mut().flatten() {
            if !self.is_full(*read) {
                continue;
            }
            *read = match self.short.get(read) {
                Some(&short) => short,
                None => {
                    let short = twin(self.graph, *read, self.to);
                    self.shortened(*read, short);
                    self.short.insert(*read, short);
                    short
                }
            };
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node that computes in `f32`.
    fn stay(&mut self, mut node: Node) {
        for read in node.inputs.iter_mut().flatten() {
            let is_float = self.wide.types.get(read) == Some(&DType::F32);
            if !is_float || self.is_full(*read) || self.kept.contains(read) {
                continue;
            }
            *read = match self.long.get(read) {
                Some(&long) => long,
                None => {
                    let long = twin(self.graph, *read, DType::F32);
                    self.cast(*read, long, F32);
                    self.long.insert(*read, long);
                    long
                }
            };
        }
        let mut shorter = Vec::new();
        for made in node.outputs.iter_mut().flatten() {
            if !self.wide.values.contains(made) {
                let long = twin(self.graph, *made, DType::F32);
                shorter.push((long, *made));
                *made = long;
            }
        }
        self.nodes.push(node);
        for (long, made) in shorter {
            self.shortened(long, made);
        }
    }

    /// Whether a value is an input of the graph, or made by a node, in `f32`.
    fn is_full(&self, id: ValueId) -> bool {
        let given = self.whole.contains(&id) && self.graph.value(id).dtype == Some(DType::F32);
        given || self.wide.values.contains(&id)
    }

    /// As constants are: what is finite stays finite.
    fn shortened(&mut self, from: ValueId, to: ValueId) {
        let mut node = cast(self.graph, from, to, self.element);
        node.operator = Operator::fused("Shorten");
        self.nodes.push(node);
    }

    fn cast(&mut self, from: ValueId, to: ValueId, element: i64) {
        let cast = cast(self.graph, from, to, element);
        self.nodes.push(cast);
    }
}

/// Outputs are made in the short type under another name, and then cast. One of another type is not touched by that.
fn lengthen_outputs(graph: &mut Graph, to: DType, wide: &StaysF32) {
    for output in graph.outputs.clone() {
        let known = wide.types.get(&output).copied();
        let is_float = known
            .or(graph.value(output).dtype)
            .is_none_or(|dtype| dtype == DType::F32);
        let makers = graph
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().flatten());
        let is_short = is_float && !wide.values.contains(&output);
        if !is_short || !makers.into_iter().any(|made| *made == output) {
            continue;
        }
        let short = twin(graph, output, to);
        for node in &mut graph.nodes {
            let all = node.inputs.iter_mut().chain(&mut node.outputs).flatten();
            all.filter(|id| **id == output).for_each(|id| *id = short);
        }
        let node = cast(graph, short, output, F32);
        graph.nodes.push(node);
    }
}

fn twin(graph: &mut Graph, of: ValueId, dtype: DType) -> ValueId {
    let info = ValueInfo {
        name: format!("{} as {dtype}", graph.name(of)),
        dtype: Some(dtype),
        ..graph.value(of).clone()
    };
    graph.add_value(info)
}

fn cast(graph: &Graph, from: ValueId, to: ValueId, element: i64) -> Node {
    Node {
        name: format!("cast of {}", graph.name(from)),
        operator: Operator::onnx("Cast", 13),
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
        attributes: vec![("to".to_owned(), Attribute::Int(element))],
    }
}
