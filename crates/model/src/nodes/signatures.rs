//! What inputs and attributes operators take, so that what a later version adds is refused, not passed over.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::graph::{Attribute, Domain, Node};
use crate::onnx;

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

/// Attributes that name an element type; zero is none.
const TYPES: [&str; 5] = [
    "to",
    "dtype",
    "output_dtype",
    "output_datatype",
    "softmax_precision",
];

/// The element type that a node asks for and there is not, if any.
fn no_type(node: &Node) -> Option<String> {
    let mut asked = node
        .attributes
        .iter()
        .filter(|(name, _)| node.operator.domain == Domain::Onnx && TYPES.contains(&&name[..]));
    let is_small =
        |number: i64| i32::try_from(number).is_ok_and(|it| onnx::Small::of(it).is_some());
    asked.find_map(|(name, attribute)| match attribute {
        Attribute::Int(0) => None,
        Attribute::Int(number) if node.is_among("Cast QuantizeLinear") && is_small(*number) => None,
        Attribute::Int(number) => {
            let why = onnx::dtype(*number).err()?;
            Some(format!("attribute {name:?}: {why}"))
        }
        _ => None,
    })
}

/// What a node has that its operator does not take, if anything.
pub fn surplus(node: &Node) -> Option<String> {
    if let Some(why) = no_type(node) {
        return Some(why);
    }
    let signature = match node.operator.domain {
        Domain::Onnx => SIGNATURES.get(&node.operator.name[..]),
        Domain::Microsoft | Domain::Ml => SIGNATURES.get(&node.operator.to_string()[..]),
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

#[cfg(test)]
mod tests {
    use streampool_tensor::DType;

    use super::*;
    use crate::graph::Operator;
    use crate::nodes::supports;
    use crate::onnx::writer::{Graph, float, int};
    use crate::{Error, Session, SessionOptions};

    #[test]
    fn each_operator_that_has_a_signature_is_supported() {
        assert!(SIGNATURES.len() > 200);
        for name in SIGNATURES.keys() {
            let of = |prefix: &str| name.strip_prefix(prefix);
            let (domain, own) = match (of("com.microsoft."), of("ai.onnx.ml.")) {
                (Some(own), _) => (Domain::Microsoft, own),
                (_, Some(own)) => (Domain::Ml, own),
                _ => (Domain::Onnx, *name),
            };
            let operator = Operator {
                domain,
                name: own.to_owned(),
                version: 1,
            };
            assert!(supports(&operator), "{name}");
        }
    }

    /// Why a model of one node is refused.
    fn refusal(node: &str, attributes: &[crate::onnx::writer::Attribute]) -> Option<String> {
        refusal_of("", node, attributes)
    }

    fn refusal_of(
        domain: &str,
        node: &str,
        attributes: &[crate::onnx::writer::Attribute],
    ) -> Option<String> {
        let model = Graph::new()
            .input("x", DType::F32, "2 2")
            .node_of(domain, node, attributes)
            .output("y", DType::F32, "2 2")
            .model(&[("", 25)]);
        let pool = crate::testing::host_pool();
        match Session::from_bytes(&pool, model, &SessionOptions::default()) {
            Ok(_) => None,
            Err(Error::Unsupported(all)) => all[0].why.clone(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_an_operator_does_not_have_is_refused() {
        assert_eq!(refusal("Softmax x = y", &[int("axis", 1)]), None);
        assert_eq!(refusal("Clip x - - = y", &[]), None);
        let why = refusal("Softmax x = y", &[float("temperature", 2.0)]);
        assert_eq!(why.unwrap(), "attribute \"temperature\" is not known");
        let why = refusal("Softmax x x = y", &[]);
        assert_eq!(why.unwrap(), "2 inputs, where 1 are known");
        assert_eq!(refusal("Cast x = y", &[int("to", 22)]), None);
        let why = refusal("EyeLike x = y", &[int("dtype", 22)]);
        assert_eq!(
            why.unwrap(),
            "attribute \"dtype\": an element type of less than 8 bits is not supported"
        );
        let why = refusal_of("com.microsoft", "BeamSearch x = y", &[]).unwrap();
        assert!(why.contains("export the decoder alone"), "{why}");
        let why = refusal("LSTM x x x = y", &[int("output_sequence", 1)]);
        assert_eq!(
            why.unwrap(),
            "attribute \"output_sequence\" is taken as 0 only"
        );
    }
}
