//! Which outputs of a run are inputs of the next.

use super::key::Key;
use crate::lower::InPlace;

/// An output, and the input of the next run that it is, by their places in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carry {
    pub output: usize,
    pub input: usize,
}

/// Whether an output that may be made where an input lies is what the next run gets there: then nobody else wants that input.
pub fn is_carried(one: &InPlace, key: &Key, carried: &[Carry]) -> bool {
    let mut carried = carried.iter();
    carried
        .any(|carry| carry.output == one.output && key.bound_place(carry.input) == Some(one.input))
}
