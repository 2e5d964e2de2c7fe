//! Operators that a model defines by others: the nodes of their bodies take the place of each call.

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::build::Builder;
use super::opsets::{Opsets, normal};
use super::proto::{FunctionProto, NodeProto};
use super::scopes::{Context, Named};
use crate::error::{Error, NodeError, Result};
use crate::graph::{Attribute, Domain, Node, Operator, ValueId};

/// How many bytes of bodies may take the places of calls: functions that call each other grow fast.
const MOST_BYTES: usize = 16 << 20;

/// How much of a call's name is told before the names of its nodes.
const LONGEST_PREFIX: usize = 128;

/// The functions of a model.
pub struct Functions<'a> {
    all: HashMap<Key<'a>, Function<'a>>,
    left: usize,
}

/// Domain, name and overload.
type Key<'a> = (&'a str, &'a str, &'a str);

/// A function and how many bytes it takes in the file.
#[derive(Clone, Copy)]
pub struct Function<'a> {
    proto: &'a FunctionProto,
    bytes: usize,
}

/// A node that calls a function.
pub struct Call<'c> {
    pub name: &'c str,
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<Option<ValueId>>,
    pub attributes: Vec<(String, Attribute)>,
}

impl<'a> Functions<'a> {
    pub fn new(protos: &'a [FunctionProto]) -> Result<Functions<'a>> {
        let mut all = HashMap::with_capacity(protos.len());
        for proto in protos {
            let key = (normal(&proto.domain), &proto.name[..], &proto.overload[..]);
            let bytes = proto.encoded_len();
            if all.insert(key, Function { proto, bytes }).is_some() {
                let what = format!("function {:?} of domain {:?}", proto.name, proto.domain);
                return Err(Error::file(what, "defined twice", "defined once"));
            }
        }
        Ok(Functions {
            all,
            left: MOST_BYTES,
        })
    }

    /// The function that a node calls, if it calls one.
    pub fn called_by(&self, node: &NodeProto) -> Option<Function<'a>> {
        let key = (normal(&node.domain), &node.op[..], &node.overload[..]);
        self.all.get(&key).copied()
    }

    /// Counts what a call adds to the model.
    pub fn take(&mut self, bytes: usize) -> Result<(), NodeError> {
        let left = self.left.checked_sub(bytes).ok_or_else(|| {
            let what = "all that the model's functions come to";
            NodeError::malformed(what, format!("more than {MOST_BYTES} bytes"), "less")
        })?;
        self.left = left;
        Ok(())
    }
}

impl<'a> Builder<'a> {
    /// Puts the nodes of a function in the place of a call.
    pub(super) fn inline(
        &mut self,
        function: Function<'a>,
        call: Call<'_>,
    ) -> Result<(), NodeError> {
        let Function { proto, bytes } = function;
        if self.scopes.is_inside(proto) {
            return Err(NodeError::malformed(
                "the function",
                "one that calls itself",
                "one that does not",
            ));
        }
        self.functions.take(bytes)?;
        fits("inputs", call.inputs.len(), proto.inputs.len())?;
        fits("outputs", call.outputs.len(), proto.outputs.len())?;
        let opsets = Opsets::read(&proto.opsets).map_err(Box::new)?;
        let identity = opsets.find("").map(|(_, version)| version);
        let given: HashSet<&str> = call.attributes.iter().map(|(name, _)| &name[..]).collect();
        let defaults = proto
            .defaults
            .iter()
            .filter(|default| !given.contains(&default.name[..]));
        let mut attributes = Vec::new();
        for default in defaults {
            attributes.extend(self.attributes(std::slice::from_ref(default))?);
        }
        attributes.extend(call.attributes);
        let context = Context {
            opsets,
            prefix: prefix(call.name),
            attributes: attributes.into_iter().collect(),
            function: Some(proto),
        };
        let given = call.inputs.into_iter().chain(std::iter::repeat(None));
        let mut names = HashMap::with_capacity(proto.inputs.len());
        for (name, id) in proto.inputs.iter().zip(given) {
            let named = id.map_or(Named::LeftOut, Named::Value);
            if names.insert(&name[..], named).is_some() {
                return Err(NodeError::malformed(
                    format_args!("input {name:?}"),
                    "there twice",
                    "there once",
                ));
            }
        }
        self.scopes.enter_body(names, context)?;
        self.outputs_of(&proto.nodes, &HashMap::new())
            .map_err(Box::new)?;
        for node in &proto.nodes {
            self.node(node).map_err(Box::new)?;
        }
        for (name, output) in proto.outputs.iter().zip(call.outputs) {
            let Some(output) = output else { continue };
            let made = self.scopes.resolve(name)?;
            let version = match &identity {
                Ok(version) => *version,
                // A body that uses none of ONNX's operators does not say their version.
                Err(_) => 13,
            };
            self.scopes.graph().nodes.push(Node {
                name: format!("{}/{name}", call.name),
                operator: Operator {
                    domain: Domain::Onnx,
                    name: "Identity".to_owned(),
                    version,
                },
                inputs: vec![made],
                outputs: vec![Some(output)],
                attributes: Vec::new(),
            });
        }
        self.scopes.leave_body();
        Ok(())
    }
}

/// What comes before the names of the nodes of a call.
fn prefix(call: &str) -> String {
    let start = call.ceil_char_boundary(call.len().saturating_sub(LONGEST_PREFIX));
    format!("{}/", &call[start..])
}

fn fits(what: &str, given: usize, most: usize) -> Result<(), NodeError> {
    match given <= most {
        true => Ok(()),
        false => Err(NodeError::malformed(
            format_args!("the number of {what}"),
            given,
            format_args!("at most {most}, as the function has"),
        )),
    }
}
