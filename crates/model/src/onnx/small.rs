//! Constants of less than eight bits, and of 8-bit floats: in a type that holds their numbers, for nodes that say what these
//! stand for.

use std::collections::HashSet;

use streampool_tensor::DType;
use streampool_tensor::room::room;

use crate::error::{Error, NodeError, Result};
use crate::graph::{Domain, Graph, ValueId};

/// A type of elements that are smaller than those of tensors.
#[derive(Clone, Copy)]
pub struct Small {
    /// Bits of an element.
    bits: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Unsigned,
    Signed,
    /// A sign, an exponent, and so many bits behind the point.
    Float {
        fraction: usize,
        bias: i32,
        /// Whether the largest exponent is of infinities, or of not-a-numbers, as far as there are any.
        special: Special,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// All codes are numbers.
    None,
    /// As IEEE has it.
    Ieee,
    /// But one, with all bits set.
    AllSet,
    /// But that of a negative zero.
    NegativeZero,
}

impl Small {
    /// The type that a file means by this number, if it is one of these.
    pub fn of(element: i32) -> Option<Small> {
        let float = |bits, fraction, bias, special| Small {
            bits,
            kind: Kind::Float {
                fraction,
                bias,
                special,
            },
        };
        let whole = |bits, kind| Small { bits, kind };
        Some(match element {
            17 => float(8, 3, 7, Special::AllSet),
            18 => float(8, 3, 8, Special::NegativeZero),
            19 => float(8, 2, 15, Special::Ieee),
            20 => float(8, 2, 16, Special::NegativeZero),
            21 => whole(4, Kind::Unsigned),
            22 => whole(4, Kind::Signed),
            23 => float(4, 1, 1, Special::None),
            25 => whole(2, Kind::Unsigned),
            26 => whole(2, Kind::Signed),
            _ => return None,
        })
    }

    /// The type of tensors that holds all its numbers.
    pub fn dtype(self) -> DType {
        match self.kind {
            Kind::Unsigned => DType::U8,
            Kind::Signed => DType::I8,
            Kind::Float { .. } => DType::BF16,
        }
    }

    /// The bytes of so many elements in a file.
    pub fn packed(self, count: usize) -> usize {
        count.div_ceil(8 / self.bits)
    }

    /// So many elements, which lie packed with the first in the lowest bits, in the type of tensors.
    pub fn widened(self, packed: &[u8], count: usize) -> Result<Vec<u8>, NodeError> {
        let bytes = count.saturating_mul(self.dtype().size());
        let mut wide = room(bytes)?;
        let each = 8 / self.bits;
        for place in 0..count {
            let byte = packed.get(place / each).copied().unwrap_or(0);
            let code = (byte >> (place % each * self.bits)) & (0xff >> (8 - self.bits));
            match self.kind {
                Kind::Unsigned => wide.push(code),
                Kind::Signed => {
                    let up = 8 - self.bits as u32;
                    wide.push((((code << up).cast_signed()) >> up).cast_unsigned());
                }
                Kind::Float { .. } => {
                    let value = half::bf16::from_f32(self.float(code));
                    wide.extend(value.to_ne_bytes());
                }
            }
        }
        Ok(wide)
    }

    /// The number of a code of a float.
    fn float(self, code: u8) -> f32 {
        let Kind::Float {
            fraction,
            bias,
            special,
        } = self.kind
        else {
            return f32::from(code);
        };
        let magnitude = code & ((1 << (self.bits - 1)) - 1);
        let sign = if code == magnitude { 1.0 } else { -1.0 };
        let behind = magnitude & ((1 << fraction) - 1);
        let exponent = i32::from(magnitude >> fraction);
        let largest = (1 << (self.bits - 1 - fraction)) - 1;
        match special {
            Special::Ieee if exponent == largest && behind == 0 => return sign * f32::INFINITY,
            Special::Ieee if exponent == largest => return f32::NAN,
            Special::AllSet if magnitude == (1 << (self.bits - 1)) - 1 => return f32::NAN,
            Special::NegativeZero if code != 0 && magnitude == 0 => return f32::NAN,
            _ => {}
        }
        let behind = f32::from(behind) / (1u32 << fraction) as f32;
        match exponent {
            0 => sign * behind * 2f32.powi(1 - bias),
            _ => sign * (1.0 + behind) * 2f32.powi(exponent - bias),
        }
    }
}

/// What moves elements without looking at them.
const MOVING: &str = "Identity Reshape Squeeze Unsqueeze Flatten Transpose Gather Slice";

/// Refuses what would compute with these constants as if they were of the types that hold them.
pub fn check(graph: &Graph, mut small: HashSet<ValueId>) -> Result<()> {
    let what = "an element type of less than 8 bits, or of 8-bit floats, but in DequantizeLinear,";
    for node in &graph.nodes {
        if !node.reads().any(|id| small.contains(&id)) {
            continue;
        }
        let places = |allowed: &[usize]| {
            let mut inputs = node.inputs.iter().enumerate();
            inputs.all(|(place, id)| {
                id.is_none_or(|id| !small.contains(&id)) || allowed.contains(&place)
            }) && node.graphs().next().is_none()
        };
        if node.is("DequantizeLinear") && places(&[0, 2]) {
            continue;
        }
        if node.operator.domain == Domain::Onnx && node.is_among(MOVING) && places(&[0]) {
            small.extend(node.output(0));
            continue;
        }
        let fault = NodeError::unsupported(what);
        return Err(fault.of_node(&node.name, node.operator.to_string()));
    }
    match graph.outputs.iter().find(|id| small.contains(id)) {
        Some(&output) => Err(NodeError::unsupported(what).of_value(graph.name(output))),
        None => Ok(()),
    }
}

/// Refuses one where it cannot be followed.
pub fn refused() -> Error {
    Error::Graph(NodeError::unsupported(
        "an element type of less than 8 bits in a graph inside a node",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(element: i32, codes: &[u8], count: usize) -> Vec<f32> {
        let small = Small::of(element).expect("a small type");
        let wide = small.widened(codes, count).expect("room");
        match small.dtype() {
            DType::U8 => wide.iter().map(|&value| value.into()).collect(),
            DType::I8 => wide
                .iter()
                .map(|value| value.cast_signed().into())
                .collect(),
            _ => {
                let pairs = wide.chunks_exact(2);
                pairs
                    .map(|pair| half::bf16::from_ne_bytes([pair[0], pair[1]]).to_f32())
                    .collect()
            }
        }
    }

    #[test]
    fn codes_are_the_numbers_that_onnx_says() {
        assert_eq!(numbers(21, &[0x1f, 0x08], 3), [15.0, 1.0, 8.0]);
        assert_eq!(numbers(22, &[0x7f, 0x08], 3), [-1.0, 7.0, -8.0]);
        assert_eq!(numbers(25, &[0b11_10_01_00], 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(numbers(26, &[0b11_10_01_00], 4), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(numbers(23, &[0x71, 0xaf], 4), [0.5, 6.0, -6.0, -1.0]);
        assert_eq!(
            numbers(17, &[0x7e, 0x38, 0x01], 3),
            [448.0, 1.0, 2f32.powi(-9)]
        );
        assert_eq!(
            numbers(19, &[0x7b, 0x3c, 0xfc], 3),
            [57344.0, 1.0, f32::NEG_INFINITY]
        );
        assert_eq!(numbers(18, &[0x7f, 0x40], 2), [240.0, 1.0]);
        assert_eq!(numbers(20, &[0x7f, 0x40], 2), [57344.0, 1.0]);
        assert!(numbers(17, &[0x7f], 1)[0].is_nan() && numbers(18, &[0x80], 1)[0].is_nan());
    }
}
