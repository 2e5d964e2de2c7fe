//! What inputs and attributes operators take, so that what a later version adds is refused, not passed over.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::graph::{Attribute, Domain, Node};

/// What an operator takes.
struct Signature {
    /// How many inputs at most, if there is a bound.
    inputs: Option<usize>,
    /// Names of attributes, and the one value of those that are taken with that alone.
    attributes: Vec<(&'static str, Option<i64>)>,
}

/// By the name, with the domain where it is not ONNX's own.
static SIGNATURES: LazyLock<HashMap<&str, Signature>> = LazyLock::new(|| {
    let lines = include_str!("signatures.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.filter_map(signature).collect()
});

fn signature(line: &'static str) -> Option<(&'static str, Signature)> {
    let mut words = line.split_whitespace();
    let (name, inputs) = (words.next()?, words.next()?.parse().ok());
    let attributes = words.map(|word| match word.split_once('=') {
        Some((name, value)) => (name, value.parse().ok()),
        None => (word, None),
    });
    let signature = Signature {
        inputs,
        attributes: attributes.collect(),
    };
    Some((name, signature))
}

/// What a node has that its operator does not take, if anything.
pub fn surplus(node: &Node) -> Option<String> {
    let signature = match node.operator.domain {
        Domain::Onnx => SIGNATURES.get(&node.operator.name[..]),
        Domain::Microsoft => SIGNATURES.get(&node.operator.to_string()[..]),
        Domain::Fused => None,
    }?;
    for (name, attribute) in &node.attributes {
        let known = signature.attributes.iter();
        let Some((_, only)) = known.into_iter().find(|(known, _)| known == name) else {
            return Some(format!("attribute {name:?} is not known"));
        };
        if let Some(only) = only.filter(|&only| !is_number(attribute, only)) {
            return Some(format!("attribute {name:?} is taken as {only} only"));
        }
    }
    let most = signature.inputs?;
    let given = node.inputs.iter().rposition(Option::is_some);
    let given = given.map_or(0, |last| last + 1);
    (given > most).then(|| format!("{given} inputs, where {most} are known"))
}

/// Whether an attribute is this number; no name stands for zero.
fn is_number(attribute: &Attribute, number: i64) -> bool {
    match attribute {
        Attribute::Int(value) => *value == number,
        Attribute::Float(value) => f64::from(*value) == number as f64,
        Attribute::String(value) => number == 0 && matches!(&value[..], "" | "NONE"),
        _ => false,
    }
}
