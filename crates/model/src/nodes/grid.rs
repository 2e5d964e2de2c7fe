//! Pictures looked at in places that are given.

use streampool_tensor::{GridOptions, Outside, Sampling};

use super::Operator;
use crate::node::{Node, Outputs, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "AffineGrid" => affine_grid,
        "GridSample" => grid_sample,
        _ => return None,
    })
}

fn affine_grid(node: &Node<'_>) -> Outputs {
    let mut sizes = Vec::new();
    for value in node.ints(1)?.into_iter().skip(2) {
        sizes.push(size("a size", value)?);
    }
    let corners = node.flag_or("align_corners", false)?;
    Ok(vec![node.input(0)?.affine_grid(&sizes, corners)?])
}

fn grid_sample(node: &Node<'_>) -> Outputs {
    let sampling = match node.string_or("mode", "linear")? {
        "linear" | "bilinear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "cubic" | "bicubic" => Sampling::Cubic,
        other => return Err(node.unknown("mode", other)),
    };
    let outside = match node.string_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Edge,
        "reflection" => Outside::Reflect,
        other => return Err(node.unknown("padding_mode", other)),
    };
    let options = GridOptions {
        sampling,
        outside,
        align_corners: node.flag_or("align_corners", false)?,
    };
    Ok(vec![node.input(0)?.grid_sample(node.input(1)?, &options)?])
}
