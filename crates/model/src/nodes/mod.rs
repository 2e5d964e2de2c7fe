//! The operators of ONNX, in families: what each node means in operators of tensors.

mod arithmetic;
mod attention;
mod control;
mod conv;
mod create;
mod detect;
mod elementwise;
mod grid;
mod index;
mod layout;
mod loss;
mod norm;
mod order;
mod pool;
mod product;
mod quantise;
mod recurrent;
mod reduce;
mod resize;
mod signal;
mod sliding;

use crate::error::Fault;
use crate::node::{Node, Outputs};

/// What computes a node.
type Operator = fn(&Node<'_>) -> Outputs;

/// The operator of a name, if a family has it.
type Family = fn(&str) -> Option<Operator>;

/// Each family, by name.
const FAMILIES: &[(&str, Family)] = &[
    ("elementwise", elementwise::operator),
    ("arithmetic", arithmetic::operator),
    ("reduce", reduce::operator),
    ("layout", layout::operator),
    ("create", create::operator),
    ("index", index::operator),
    ("order", order::operator),
    ("norm", norm::operator),
    ("product", product::operator),
    ("attention", attention::operator),
    ("conv", conv::operator),
    ("pool", pool::operator),
    ("resize", resize::operator),
    ("grid", grid::operator),
    ("detect", detect::operator),
    ("signal", signal::operator),
    ("recurrent", recurrent::operator),
    ("quantise", quantise::operator),
    ("loss", loss::operator),
    ("control", control::operator),
];

/// The outputs of a node.
pub fn evaluate(node: &Node<'_>) -> Outputs {
    let operator = FAMILIES.iter().find_map(|(_, of)| of(node.op()));
    operator.ok_or_else(|| Fault::unsupported("the operator"))?(node)
}

/// The family of an operator.
pub fn family(op: &str) -> Option<&'static str> {
    let found = FAMILIES.iter().find(|(_, of)| of(op).is_some());
    found.map(|(name, _)| *name)
}
