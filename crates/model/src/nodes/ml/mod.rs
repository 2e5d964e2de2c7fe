//! `ai.onnx.ml`: what scikit-learn, LightGBM and XGBoost become.
//!
//! Strings are numbers here: a reader gives each its place in the list of all strings of a model.

mod common;
mod encode;
mod features;
mod linear;
mod score;
mod svm;
mod trees;

use super::call::Operator;

/// The operator of a name.
pub fn operator(op: &str) -> Option<Operator> {
    let families = [
        trees::operator,
        linear::operator,
        svm::operator,
        features::operator,
        encode::operator,
    ];
    families.iter().find_map(|of| of(op))
}
