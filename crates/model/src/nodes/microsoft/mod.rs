//! ONNX Runtime's own operators.

use super::call::Operator;
mod attention;
mod distances;
mod embed;
mod experts;
mod few_bits;
mod grouped;
mod mask;
mod masked;
mod onnx_alike;
mod product;
mod quantise;
mod quantised_layers;

pub use few_bits::FewBits;

/// The operator of a name.
pub fn operator(op: &str) -> Option<Operator> {
    let families = [
        attention::operator,
        grouped::operator,
        embed::operator,
        product::operator,
        few_bits::operator,
        quantise::operator,
        onnx_alike::operator,
        distances::operator,
        experts::operator,
        masked::operator,
        quantised_layers::operator,
    ];
    families.iter().find_map(|of| of(op))
}
