//! Operators that look into strings, or make some. They are computed on the host, one by one: what a number stands for is known
//! to the run alone.

mod change;
mod common;
mod grams;
mod hash;
mod numbers;
mod pattern;
mod tokens;

use super::call::Operator;

pub use grams::{Grams, count_strings};

/// The operator of a name among ONNX's own.
pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "StringNormalizer" => change::normalise,
        "StringConcat" => change::concat,
        "StringSplit" => change::split,
        "RegexFullMatch" => pattern::full_match,
        _ => return None,
    })
}

/// The operator of a name among those of `com.microsoft`.
pub fn microsoft(op: &str) -> Option<Operator> {
    Some(match op {
        "Tokenizer" => tokens::tokenise,
        "MurmurHash3" => hash::murmur,
        _ => return None,
    })
}

/// The operator of a name among those that a reader puts in the place of others.
pub fn replacing(op: &str) -> Option<Operator> {
    Some(match op {
        "ReadNumbers" => numbers::read,
        "WriteNumbers" => numbers::write,
        _ => return None,
    })
}
