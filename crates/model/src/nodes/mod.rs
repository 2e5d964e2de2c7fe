//! The operators of ONNX, of ONNX Runtime and of the planner, in families: what each node means in operators of
//! tensors.

mod arithmetic;
mod attention;
mod call;
mod control;
mod conv;
mod create;
mod detect;
mod elementwise;
mod floats;
mod fused;
mod grid;
mod heads;
mod index;
mod layout;
mod loss;
mod microsoft;
mod ml;
mod norm;
mod order;
mod pool;
mod product;
mod quantise;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod signal;
mod signatures;
mod sliding;
mod strings;
mod text;
mod value;
mod whole;

#[cfg(test)]
mod tests;

use crate::error::NodeError;
use crate::graph::{self, Domain};
use call::{Operator, ValuesOperator};

pub use call::{Call, Pools};
pub use microsoft::FewBits;
pub use signatures::surplus;
pub use value::{Value, Values};

/// The operator of a name, if a family has it.
#[derive(Clone, Copy)]
enum Family {
    Tensors(fn(&str) -> Option<Operator>),
    Values(fn(&str) -> Option<ValuesOperator>),
}

/// An operator that was found.
enum Found {
    Tensors(Operator),
    Values(ValuesOperator),
}

use Family::{Tensors, Values as Wider};

/// Each family of ONNX's own operators, by name.
const ONNX: &[(&str, Family)] = &[
    ("elementwise", Tensors(elementwise::operator)),
    ("arithmetic", Tensors(arithmetic::operator)),
    ("reduce", Tensors(reduce::operator)),
    ("layout", Tensors(layout::operator)),
    ("create", Tensors(create::operator)),
    ("index", Tensors(index::operator)),
    ("order", Tensors(order::operator)),
    ("norm", Tensors(norm::operator)),
    ("product", Tensors(product::operator)),
    ("attention", Tensors(attention::operator)),
    ("conv", Tensors(conv::operator)),
    ("pool", Tensors(pool::operator)),
    ("resize", Tensors(resize::operator)),
    ("grid", Tensors(grid::operator)),
    ("detect", Tensors(detect::operator)),
    ("signal", Tensors(signal::operator)),
    ("recurrent", Tensors(recurrent::operator)),
    ("quantise", Tensors(quantise::operator)),
    ("loss", Tensors(loss::operator)),
    ("text", Tensors(text::operator)),
    ("strings", Tensors(strings::operator)),
    ("sequence", Wider(sequence::operator)),
    ("control", Wider(control::operator)),
];

const MICROSOFT: &[(&str, Family)] = &[
    ("microsoft", Tensors(microsoft::operator)),
    ("strings", Tensors(strings::microsoft)),
];

const ML: &[(&str, Family)] = &[("ml", Tensors(ml::operator))];

const FUSED: &[(&str, Family)] = &[
    ("fused", Tensors(fused::operator)),
    ("strings", Tensors(strings::replacing)),
];

/// The outputs of a node.
pub fn evaluate(call: &Call<'_>) -> Values {
    match found(call.domain(), call.op()) {
        Some((_, Found::Tensors(operator))) => {
            Ok(operator(call)?.into_iter().map(Value::Tensor).collect())
        }
        Some((_, Found::Values(operator))) => operator(call),
        None => Err(NodeError::unsupported("the operator")),
    }
}

/// Whether there is such an operator.
pub fn supports(operator: &graph::Operator) -> bool {
    found(operator.domain, &operator.name).is_some()
}

/// The family of an operator.
pub fn family(operator: &graph::Operator) -> Option<&'static str> {
    found(operator.domain, &operator.name).map(|(family, _)| family)
}

fn found(domain: Domain, op: &str) -> Option<(&'static str, Found)> {
    let families = match domain {
        Domain::Onnx => ONNX,
        Domain::Microsoft => MICROSOFT,
        Domain::Ml => ML,
        Domain::Fused => FUSED,
    };
    families.iter().find_map(|&(name, family)| {
        let found = match family {
            Tensors(of) => of(op).map(Found::Tensors),
            Wider(of) => of(op).map(Found::Values),
        };
        Some((name, found?))
    })
}
