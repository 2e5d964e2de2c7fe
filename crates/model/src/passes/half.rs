//! Half precision: weights and everything between inputs and outputs in a shorter float type.

use std::collections::HashMap;

use streampool_tensor::DType;

use crate::error::{Error, Fault, Result};
use crate::graph::{Attribute, Domain, Graph, Node, Operator, ValueId, ValueInfo};

/// What operators read as numbers, not as data: these inputs keep their type.
const PARAMETERS: &[(&str, &[usize])] = &[("Resize", &[1, 2]), ("Upsample", &[1])];

/// Has the model compute in `to` where it computed in `f32`. Its inputs and outputs keep their types.
pub fn shorten(graph: &mut Graph, to: DType) -> Result<()> {
    let element = match to {
        DType::F16 => 10,
        DType::BF16 => 16,
        other => return Err(refused(format!("computing in {other}"), "f16 or bf16")),
    };
    for node in &graph.nodes {
        let name = &node.operator.name;
        if node.graphs().next().is_some() || name.contains("Quantize") || name.contains("QLinear") {
            return Err(refused(
                format!("node {:?} ({})", node.name, node.operator),
                "a node that has a half precision",
            ));
        }
    }
    weights(graph, to)?;
    for node in &mut graph.nodes {
        for (name, attribute) in &mut node.attributes {
            match attribute {
                Attribute::Int(one @ 1) if matches!(&name[..], "to" | "dtype") => *one = element,
                Attribute::Tensor(tensor) if tensor.dtype() == DType::F32 => {
                    *tensor = tensor.to_dtype(to)?
                }
                _ => {}
            }
        }
    }
    let mut renamed = HashMap::new();
    let mut casts = Vec::new();
    for input in graph.inputs.clone() {
        if graph.value(input).dtype == Some(DType::F32) {
            let short = twin(graph, input, to);
            casts.push(cast(graph, input, short, element));
            renamed.insert(input, short);
        }
    }
    for node in &mut graph.nodes {
        for read in node.inputs.iter_mut().flatten() {
            *read = renamed.get(read).copied().unwrap_or(*read);
        }
    }
    graph.nodes.splice(0..0, casts);
    lengthen_outputs(graph, to);
    Ok(())
}

fn refused(what: String, expected: &str) -> Error {
    Error::Graph(Fault::malformed(what, "not possible", expected))
}

fn weights(graph: &mut Graph, to: DType) -> Result<()> {
    let mut kept = Vec::new();
    for node in &graph.nodes {
        let parameters = PARAMETERS
            .iter()
            .find(|(name, _)| *name == node.operator.name);
        for &place in parameters.map_or(&[][..], |(_, places)| places) {
            kept.extend(node.inputs.get(place).copied().flatten());
        }
    }
    for (id, tensor) in &mut graph.constants {
        if tensor.dtype() == DType::F32 && !kept.contains(id) {
            *tensor = tensor.to_dtype(to)?;
        }
    }
    Ok(())
}

/// Outputs are made in the short type under another name, and then cast. One of another type is not touched by that.
fn lengthen_outputs(graph: &mut Graph, to: DType) {
    for output in graph.outputs.clone() {
        let is_float = graph
            .value(output)
            .dtype
            .is_none_or(|dtype| dtype == DType::F32);
        let makers = graph
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().flatten());
        if !is_float || !makers.into_iter().any(|made| *made == output) {
            continue;
        }
        let short = twin(graph, output, to);
        for node in &mut graph.nodes {
            let all = node.inputs.iter_mut().chain(&mut node.outputs).flatten();
            all.filter(|id| **id == output).for_each(|id| *id = short);
        }
        let node = cast(graph, short, output, 1);
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
        operator: Operator {
            domain: Domain::Onnx,
            name: "Cast".to_owned(),
            version: 13,
        },
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
        attributes: vec![("to".to_owned(), Attribute::Int(element))],
    }
}
