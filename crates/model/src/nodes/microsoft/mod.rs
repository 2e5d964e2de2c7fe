//! ONNX Runtime's own operators.

mod attention;
mod embed;
mod grouped;
mod mask;
mod product;
mod quantise;
mod same;

use super::Operator;

/// The operator of a name.
pub fn operator(op: &str) -> Option<Operator> {
    let families = [
        attention::operator,
        grouped::operator,
        embed::operator,
        product::operator,
        quantise::operator,
        same::operator,
    ];
    families.iter().find_map(|of| of(op))
}
