//! Pictures looked at in places that are given.

use super::call::{Call, Operator, Outputs};
use super::floats::by_floats;
use streampool_tensor::{GridOptions, Outside, Sampling};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "AffineGrid" => affine_grid,
        "GridSample" => grid_sample,
        _ => return None,
    })
}

fn affine_grid(call: &Call<'_>) -> Outputs {
    let sizes = call.input_sizes(1)?;
    let sizes = sizes.get(2..).unwrap_or_default();
    let corners = call.flag_or("align_corners", false)?;
    Ok(vec![call.input(0)?.affine_grid(sizes, corners)?])
}

fn grid_sample(call: &Call<'_>) -> Outputs {
    let sampling = match call.string_or("mode", "linear")? {
        "linear" | "bilinear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "cubic" | "bicubic" => Sampling::Cubic,
        other => return Err(call.unknown("mode", other)),
    };
    let outside = match call.string_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Edge,
        "reflection" => Outside::Reflect,
        other => return Err(call.unknown("padding_mode", other)),
    };
    let options = GridOptions {
        sampling,
        outside,
        align_corners: call.flag_or("align_corners", false)?,
    };
    let grid = call.input(1)?;
    let sampled = by_floats(call.input(0)?, |x| {
        x.grid_sample(&grid.to_dtype(x.dtype())?, &options)
    });
    Ok(vec![sampled?])
}
