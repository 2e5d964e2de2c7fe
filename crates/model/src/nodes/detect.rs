//! Boxes in pictures.

use super::call::{Call, Operator, Outputs};
use streampool_tensor::{BestBoxes, BoxFormat, RoiOptions};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "RoiAlign" => roi_align,
        "NonMaxSuppression" => non_max_suppression,
        _ => return None,
    })
}

fn roi_align(call: &Call<'_>) -> Outputs {
    let default = if call.opset() >= 16 {
        "half_pixel"
    } else {
        "output_half_pixel"
    };
    let aligned = match call.string_or("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(call.unknown("coordinate_transformation_mode", other)),
    };
    let largest = match call.string_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return Err(call.unknown("mode", other)),
    };
    let options = RoiOptions {
        sizes: [
            call.size_or("output_height", 1)?,
            call.size_or("output_width", 1)?,
        ],
        samples: call.size_or("sampling_ratio", 0)?,
        scale: call.float_or("spatial_scale", 1.0)?,
        aligned,
        largest,
    };
    Ok(vec![call.input(0)?.roi_align(
        call.input(1)?,
        call.input(2)?,
        &options,
    )?])
}

/// For each batch and class the best boxes that overlap no better one.
fn non_max_suppression(call: &Call<'_>) -> Outputs {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let most = call.optional_int(2)?.unwrap_or(0).max(0) as usize;
    let overlap = call.optional_float(3)?.unwrap_or(0.0);
    let least = call.optional_float(4)?;
    let format = match call.flag_or("center_point_box", false)? {
        false => BoxFormat::Corners,
        true => BoxFormat::Center,
    };
    let options = BestBoxes {
        format,
        overlap,
        least,
        most,
    };
    Ok(vec![boxes.best_boxes(scores, &options)?])
}
