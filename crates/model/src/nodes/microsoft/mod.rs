//! ONNX Runtime's own operators.

use super::call::Operator;
mod attention;
mod blocks;
mod embed;
mod grouped;
mod mask;
mod product;
mod quantise;
mod same;

pub use blocks::Blocks;

/// The operator of a name.
pub fn operator(op: &str) -> Option<Operator> {
    let families = [
        attention::operator,
        grouped::operator,
        embed::operator,
        product::operator,
        blocks::operator,
        quantise::operator,
        same::operator,
    ];
    families.iter().find_map(|of| of(op))
}
