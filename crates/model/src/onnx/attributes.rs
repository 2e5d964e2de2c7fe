//! The attributes of nodes.

use std::collections::HashSet;

use super::build::Builder;
use super::proto::{AttributeProto, TensorProto};
use super::small::Small;
use crate::error::{Error, NodeError};
use crate::graph::Attribute;

impl<'a> Builder<'a> {
    /// The attributes of a node; in the body of a function, those of its call for those that stand for them.
    pub(super) fn attributes(
        &mut self,
        protos: &'a [AttributeProto],
    ) -> Result<Vec<(String, Attribute)>, NodeError> {
        let mut names = HashSet::with_capacity(protos.len());
        let mut attributes = Vec::new();
        for proto in protos {
            if !names.insert(&proto.name) {
                let what = format!("attribute {:?}", proto.name);
                return Err(NodeError::malformed(what, "given twice", "given once"));
            }
            let attribute = match proto.reference.is_empty() {
                true => self.attribute(proto)?,
                false => self.referenced(proto)?,
            };
            attributes.extend(attribute.map(|attribute| (proto.name.clone(), attribute)));
        }
        Ok(attributes)
    }

    /// The attribute of the call, unless it leaves it out.
    fn referenced(&mut self, proto: &AttributeProto) -> Result<Option<Attribute>, NodeError> {
        let context = self.scopes.context();
        if context.function.is_none() {
            let what = format!("attribute {:?}", proto.name);
            let got = format!("that of a call, {:?}", proto.reference);
            return Err(NodeError::malformed(
                what,
                got,
                "a value, outside of functions",
            ));
        }
        match context.attributes.get(&proto.reference) {
            Some(Attribute::Graph(_)) => {
                let what = format!(
                    "attribute {:?}, a graph given to a function,",
                    proto.reference
                );
                Err(NodeError::unsupported(what))
            }
            found => {
                self.functions.take(found.map_or(0, bytes))?;
                Ok(found.cloned())
            }
        }
    }

    /// The value of an attribute, unless it is of no use.
    fn attribute(&mut self, proto: &'a AttributeProto) -> Result<Option<Attribute>, NodeError> {
        let missing = || {
            let what = format!("attribute {:?}", proto.name);
            NodeError::malformed(what, "without a value", "one of the kind that it says")
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Some(match proto.kind {
            AttributeProto::FLOAT => Attribute::Float(proto.float),
            AttributeProto::INT => Attribute::Int(proto.int),
            AttributeProto::STRING => Attribute::String(text(&proto.string)),
            AttributeProto::TENSOR => {
                let tensor = proto.tensor.as_ref().ok_or_else(missing)?;
                if tensor.element == TensorProto::STRING {
                    let places = self.importer.of_strings(tensor, &mut self.strings)?;
                    return Ok(Some(Attribute::Tensor(places)));
                }
                let read = match Small::of(tensor.element) {
                    Some(_) => self.importer.small(tensor),
                    None => self.importer.tensor(tensor),
                };
                Attribute::Tensor(read.map_err(Box::<Error>::from)?)
            }
            AttributeProto::GRAPH => {
                let graph = proto.graph.as_ref().ok_or_else(missing)?;
                let graph = self.graph(graph, None).map_err(Box::<Error>::from)?;
                Attribute::Graph(Box::new(graph))
            }
            AttributeProto::FLOATS => Attribute::Floats(proto.floats.clone()),
            AttributeProto::INTS => Attribute::Ints(proto.ints.clone()),
            AttributeProto::STRINGS => {
                Attribute::Strings(proto.strings.iter().map(|string| text(string)).collect())
            }
            // Values know their types themselves.
            AttributeProto::TYPE => return Ok(None),
            other => {
                let what = format!("attribute {:?} of kind {other}", proto.name);
                return Err(NodeError::unsupported(what));
            }
        }))
    }
}

/// How many bytes another of this attribute takes.
fn bytes(attribute: &Attribute) -> usize {
    match attribute {
        Attribute::Ints(values) => size_of_val(&values[..]),
        Attribute::Floats(values) => size_of_val(&values[..]),
        Attribute::String(value) => value.len(),
        Attribute::Strings(values) => values
            .iter()
            .map(|value| value.len() + size_of::<String>())
            .sum(),
        Attribute::Int(_) | Attribute::Float(_) | Attribute::Tensor(_) | Attribute::Graph(_) => 0,
    }
}
