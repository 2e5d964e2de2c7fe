//! Interpolation to other sizes.

use streampool_tensor::{Alignment, Interpolation, ResizeOptions, Rounding};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs, resolve, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Resize" => resize,
        "Upsample" => upsample,
        _ => return None,
    })
}

/// What an axis becomes.
#[derive(Clone, Copy)]
struct Change {
    size: usize,
    scale: f64,
    alignment: Alignment,
}

/// The operator as it was, also under an earlier name: places are scaled, and the lower neighbour counts.
fn upsample(node: &Node<'_>) -> Outputs {
    let given = match node.attr_floats("scales")? {
        Some(scales) => scales.iter().map(|&scale| f64::from(scale)).collect(),
        None => node.optional_floats(1)?.unwrap_or_default(),
    };
    let interpolation = match node.string_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(Rounding::Floor),
        "linear" | "bilinear" => Interpolation::Linear,
        other => return Err(node.unknown("mode", other)),
    };
    let options = ResizeOptions {
        interpolation,
        ..ResizeOptions::default()
    };
    let shape = node.input(0)?.shape();
    let scaled = |(&from, &scale): (&usize, &f64)| Change {
        size: (from as f64 * scale).floor() as usize,
        scale,
        alignment: Alignment::Asymmetric,
    };
    changed(
        node,
        shape.iter().zip(&given).map(scaled).collect(),
        &options,
    )
}

fn resize(node: &Node<'_>) -> Outputs {
    if node.opset() < 11 {
        return upsample(node);
    }
    let shape = node.input(0)?.shape();
    let axes = match node.attr_ints("axes")? {
        Some(axes) => axes
            .iter()
            .map(|&axis| resolve(axis as isize, shape.len()))
            .collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect::<Vec<usize>>(),
    };
    let mut changes: Vec<Change> = shape
        .iter()
        .map(|&size| Change {
            size,
            scale: 1.0,
            alignment: Alignment::HalfPixel,
        })
        .collect();
    sizes(node, &axes, &mut changes)?;
    let region = node.optional_floats(1)?.unwrap_or_default();
    let mode = node.string_or("coordinate_transformation_mode", "half_pixel")?;
    for (place, &axis) in axes.iter().enumerate() {
        changes[axis].alignment = match mode {
            "half_pixel" => Alignment::HalfPixel,
            "half_pixel_symmetric" => Alignment::HalfPixelSymmetric,
            "pytorch_half_pixel" => Alignment::PyTorchHalfPixel,
            "align_corners" => Alignment::Corners,
            "asymmetric" => Alignment::Asymmetric,
            "tf_crop_and_resize" => match (region.get(place), region.get(axes.len() + place)) {
                (Some(&start), Some(&end)) => Alignment::Crop(start, end),
                _ => {
                    let (got, expected) = (region.len(), 2 * axes.len());
                    return Err(Fault::malformed(
                        "the number of values of roi",
                        got,
                        expected,
                    ));
                }
            },
            other => return Err(node.unknown("coordinate_transformation_mode", other)),
        };
    }
    let interpolation = match node.string_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(rounding(node)?),
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic(node.float_or("cubic_coeff_a", -0.75)?),
        other => return Err(node.unknown("mode", other)),
    };
    let outside = match mode {
        "tf_crop_and_resize" => Some(node.float_or("extrapolation_value", 0.0)?),
        _ => None,
    };
    let options = ResizeOptions {
        interpolation,
        alignment: Alignment::HalfPixel,
        antialias: node.flag_or("antialias", false)?,
        exclude_outside: node.flag_or("exclude_outside", false)?,
        outside,
    };
    changed(node, changes, &options)
}

/// Takes the sizes, or the scales, of some axes.
fn sizes(node: &Node<'_>, axes: &[usize], changes: &mut [Change]) -> Result<(), Fault> {
    let counted = |count: usize| match count == axes.len() {
        true => Ok(()),
        false => Err(Fault::malformed(
            "the number of sizes or scales",
            count,
            axes.len(),
        )),
    };
    let Some(sizes) = node.optional_ints(3)? else {
        let scales = node.optional_floats(2)?.unwrap_or_default();
        counted(scales.len())?;
        for (&axis, scale) in axes.iter().zip(scales) {
            let change = &mut changes[axis];
            change.scale = scale;
            change.size = (change.size as f64 * scale).floor() as usize;
        }
        return Ok(());
    };
    counted(sizes.len())?;
    let mut wanted = Vec::with_capacity(axes.len());
    for &value in &sizes {
        wanted.push(size("a size", value)?);
    }
    let scale = |(&axis, &wanted): (&usize, &usize)| wanted as f64 / changes[axis].size as f64;
    let scales: Vec<f64> = axes.iter().zip(&wanted).map(scale).collect();
    let common = match node.string_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => None,
        "not_larger" => scales.iter().copied().reduce(f64::min),
        "not_smaller" => scales.iter().copied().reduce(f64::max),
        other => return Err(node.unknown("keep_aspect_ratio_policy", other)),
    };
    for (place, &axis) in axes.iter().enumerate() {
        let change = &mut changes[axis];
        (change.size, change.scale) = match common {
            Some(scale) => ((change.size as f64 * scale).round() as usize, scale),
            None => (wanted[place], scales[place]),
        };
    }
    Ok(())
}

fn rounding(node: &Node<'_>) -> Result<Rounding, Fault> {
    Ok(
        match node.string_or("nearest_mode", "round_prefer_floor")? {
            "round_prefer_floor" => Rounding::HalfDown,
            "round_prefer_ceil" => Rounding::HalfUp,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            other => return Err(node.unknown("nearest_mode", other)),
        },
    )
}

fn changed(node: &Node<'_>, changes: Vec<Change>, options: &ResizeOptions) -> Outputs {
    let sizes: Vec<usize> = changes.iter().map(|change| change.size).collect();
    let scales: Vec<f64> = changes.iter().map(|change| change.scale).collect();
    let alignments: Vec<Alignment> = changes.iter().map(|change| change.alignment).collect();
    Ok(vec![node.input(0)?.resize_scaled(
        &sizes,
        &scales,
        &alignments,
        options,
    )?])
}
