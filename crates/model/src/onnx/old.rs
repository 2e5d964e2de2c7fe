//! Operators as ONNX had them before version 7, in the words of later versions.

use crate::error::NodeError;
use crate::graph::Attribute;

/// The last version that says things otherwise.
pub const LAST: i64 = 6;

/// Names of element types, in the order of their numbers.
const TYPES: &str =
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64";

/// Says with attributes of later versions what a node of an early one says.
pub fn renew(
    op: &str,
    version: i64,
    attributes: &mut Vec<(String, Attribute)>,
) -> Result<(), NodeError> {
    match op {
        "Cast" => {
            for (_, to) in attributes.iter_mut().filter(|(name, _)| name == "to") {
                let Attribute::String(name) = to else {
                    continue;
                };
                let place = TYPES.split(' ').position(|known| known == name);
                let place = place
                    .ok_or_else(|| NodeError::unsupported(format_args!("the type {name:?}")))?;
                *to = Attribute::Int(place as i64);
            }
        }
        "Pad" => {
            for (name, _) in attributes.iter_mut().filter(|(name, _)| name == "paddings") {
                "pads".clone_into(name);
            }
        }
        "LpPool" | "GlobalLpPool" => {
            for (_, p) in attributes.iter_mut().filter(|(name, _)| name == "p") {
                if let Attribute::Float(power) = *p
                    && power.fract() == 0.0
                {
                    *p = Attribute::Int(power as i64);
                }
            }
        }
        // All states are an output by its name, whatever this says.
        "LSTM" | "GRU" | "RNN" => attributes.retain(|(name, _)| name != "output_sequence"),
        "Upsample" => {
            let scale = |wanted: &str| {
                attributes.iter().find_map(|(name, scale)| match scale {
                    Attribute::Float(scale) if name == wanted => Some(*scale),
                    _ => None,
                })
            };
            if let (Some(height), Some(width)) = (scale("height_scale"), scale("width_scale")) {
                attributes.retain(|(name, _)| !name.ends_with("_scale"));
                let scales = Attribute::Floats(vec![1.0, 1.0, height, width]);
                attributes.push(("scales".to_owned(), scales));
            }
        }
        "Selu" if version < 6 => {
            for (name, usual) in [("alpha", 1.6732), ("gamma", 1.0507)] {
                if attributes.iter().all(|(other, _)| other != name) {
                    attributes.push((name.to_owned(), Attribute::Float(usual)));
                }
            }
        }
        _ => {}
    }
    Ok(())
}
