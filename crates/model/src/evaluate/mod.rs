//! Evaluates graphs, node by node, through the operators of tensors.
//!
//! What depends on nothing that a caller gives is *known*: it is computed at once, in a pool on the host. The rest is
//! made in the pool where the work is: on a device, or in the pool of a [trace](crate::trace), which only lists it.

mod call;
mod scope;
mod value;

pub use call::{Call, Outputs, resolve, scalar, size};
pub use scope::{Place, Scope, evaluate, is_same, step};
pub use value::Value;
