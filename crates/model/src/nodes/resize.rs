//! Interpolation to other sizes.

use streampool_tensor::{Alignment, DType, Interpolation, ResizeOptions, Rounding, Tensor};

use super::call::{Call, Operator, Outputs, resolve, size};
use crate::error::NodeError;

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

/// The operator as it was, also under an earlier name: places are scaled, and the lower neighbour counts, or the upper
/// one where there are fewer places than there were.
fn upsample(call: &Call<'_>) -> Outputs {
    let given = match call.attr_floats("scales")? {
        Some(scales) => scales.iter().map(|&scale| f64::from(scale)).collect(),
        None => call.optional_floats(1)?.unwrap_or_default(),
    };
    let interpolation = match call.string_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(Rounding::Floor),
        "linear" | "bilinear" => Interpolation::Linear,
        other => return Err(call.unknown("mode", other)),
    };
    let options = ResizeOptions {
        interpolation,
        ..ResizeOptions::default()
    };
    let x = call.input(0)?;
    positive(&given)?;
    let scaled = |(&from, &scale): (&usize, &f64)| Change {
        size: scaled_size(from, scale).floor() as usize,
        scale,
        alignment: Alignment::Asymmetric,
    };
    let fewer = given.iter().any(|&scale| scale < 1.0);
    if !(fewer && matches!(options.interpolation, Interpolation::Nearest(_))) {
        let changes = x.shape().iter().zip(&given).map(scaled).collect();
        return Ok(vec![changed(x, changes, &options)?]);
    }
    let part = |x: &Tensor, rounding, taken: fn(f64) -> bool| {
        let scales = given
            .iter()
            .map(|&scale| if taken(scale) { scale } else { 1.0 });
        let scales: Vec<f64> = scales.collect();
        let options = ResizeOptions {
            interpolation: Interpolation::Nearest(rounding),
            ..options
        };
        changed(
            x,
            x.shape().iter().zip(&scales).map(scaled).collect(),
            &options,
        )
    };
    let smaller = part(x, Rounding::Ceil, |scale| scale < 1.0)?;
    Ok(vec![part(&smaller, Rounding::Floor, |scale| scale >= 1.0)?])
}

fn resize(call: &Call<'_>) -> Outputs {
    if call.opset() < 11 {
        return upsample(call);
    }
    let shape = call.input(0)?.shape();
    // None is all.
    let axes = match call.attr_ints("axes")?.filter(|axes| !axes.is_empty()) {
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
    sizes(call, &axes, &mut changes)?;
    let region = call.optional_floats(1)?.unwrap_or_default();
    let mode = call.string_or("coordinate_transformation_mode", "half_pixel")?;
    if mode == "tf_half_pixel_for_nn" {
        return nearest_of_centres(call, &changes);
    }
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
                    return Err(NodeError::malformed(
                        "the number of values of roi",
                        got,
                        expected,
                    ));
                }
            },
            other => return Err(call.unknown("coordinate_transformation_mode", other)),
        };
    }
    let interpolation = match call.string_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(rounding(call)?),
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic(call.float_or("cubic_coeff_a", -0.75)?),
        other => return Err(call.unknown("mode", other)),
    };
    let outside = match mode {
        "tf_crop_and_resize" => Some(call.float_or("extrapolation_value", 0.0)?),
        _ => None,
    };
    let options = ResizeOptions {
        interpolation,
        alignment: Alignment::HalfPixel,
        antialias: call.flag_or("antialias", false)?,
        exclude_outside: call.flag_or("exclude_outside", false)?,
        outside,
    };
    Ok(vec![changed(call.input(0)?, changes, &options)?])
}

/// A mode of versions 11 and 12: each new element is the old one that its centre is in, or beside.
fn nearest_of_centres(call: &Call<'_>, changes: &[Change]) -> Outputs {
    let rounding = rounding(call)?;
    let mut y = call.input(0)?.clone();
    for (axis, change) in changes.iter().enumerate() {
        let old = y.shape()[axis];
        if old == change.size && change.scale == 1.0 {
            continue;
        }
        let count = i64::try_from(change.size).unwrap_or(i64::MAX);
        let counted = Tensor::arange(call.known_pool(), 0, count, 1, DType::F64)?;
        let place = counted.add(0.5)?.div(change.scale)?;
        let rounded = match rounding {
            Rounding::HalfDown => place.sub(0.5)?.ceil()?,
            Rounding::HalfUp => place.add(0.5)?.floor()?,
            Rounding::Floor => place.floor()?,
            Rounding::Ceil => place.ceil()?,
        };
        let last = old.saturating_sub(1) as f64;
        let places = rounded.clamp(0.0, last)?.to_dtype(DType::I64)?;
        let places = call.lift(&places)?;
        y = y.index_select(axis as isize, &places)?;
    }
    Ok(vec![y])
}

/// Takes the sizes, or the scales, of some axes.
fn sizes(call: &Call<'_>, axes: &[usize], changes: &mut [Change]) -> Result<(), NodeError> {
    let counted = |count: usize| match count == axes.len() {
        true => Ok(()),
        false => Err(NodeError::malformed(
            "the number of sizes or scales",
            count,
            axes.len(),
        )),
    };
    let policy = call.string_or("keep_aspect_ratio_policy", "stretch")?;
    if !["stretch", "not_larger", "not_smaller"].contains(&policy) {
        return Err(call.unknown("keep_aspect_ratio_policy", policy));
    }
    // A list that is there but empty is as one that is left out.
    let listed = call
        .optional_ints(3)?
        .filter(|sizes| !sizes.is_empty() || axes.is_empty());
    let Some(sizes) = listed else {
        let scales = call.optional_floats(2)?.unwrap_or_default();
        counted(scales.len())?;
        positive(&scales)?;
        for (&axis, scale) in axes.iter().zip(scales) {
            let change = &mut changes[axis];
            change.scale = scale;
            change.size = scaled_size(change.size, scale).floor() as usize;
        }
        return Ok(());
    };
    counted(sizes.len())?;
    let mut wanted = Vec::new();
    for &value in &sizes {
        wanted.push(size("a size", value)?);
    }
    let scale = |(&axis, &wanted): (&usize, &usize)| wanted as f64 / changes[axis].size as f64;
    let scales: Vec<f64> = axes.iter().zip(&wanted).map(scale).collect();
    if let Some((&axis, _)) = axes
        .iter()
        .zip(&wanted)
        .find(|&(&axis, &wanted)| wanted == 0 && changes[axis].size > 0)
    {
        return Err(NodeError::malformed(
            format_args!("the size of axis {axis}"),
            0,
            "at least 1",
        ));
    }
    let common = match policy {
        "not_larger" => scales.iter().copied().reduce(f64::min),
        "not_smaller" => scales.iter().copied().reduce(f64::max),
        _ => None,
    };
    for (place, &axis) in axes.iter().enumerate() {
        let change = &mut changes[axis];
        (change.size, change.scale) = match common {
            Some(scale) => (scaled_size(change.size, scale).round() as usize, scale),
            None => (wanted[place], scales[place]),
        };
    }
    Ok(())
}

/// Scales are of `f32`, and so are the sizes that they make: in that type 10 × 0.7 is 7, not less.
fn scaled_size(size: usize, scale: f64) -> f32 {
    size as f32 * scale as f32
}

fn positive(scales: &[f64]) -> Result<(), NodeError> {
    match scales
        .iter()
        .find(|&&scale| !(scale > 0.0 && scale.is_finite()))
    {
        Some(scale) => Err(NodeError::malformed(
            "a scale",
            scale,
            "positive and finite",
        )),
        None => Ok(()),
    }
}

fn rounding(call: &Call<'_>) -> Result<Rounding, NodeError> {
    Ok(
        match call.string_or("nearest_mode", "round_prefer_floor")? {
            "round_prefer_floor" => Rounding::HalfDown,
            "round_prefer_ceil" => Rounding::HalfUp,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            other => return Err(call.unknown("nearest_mode", other)),
        },
    )
}

fn changed(x: &Tensor, changes: Vec<Change>, options: &ResizeOptions) -> Result<Tensor, NodeError> {
    let sizes: Vec<usize> = changes.iter().map(|change| change.size).collect();
    let scales: Vec<f64> = changes.iter().map(|change| change.scale).collect();
    let alignments: Vec<Alignment> = changes.iter().map(|change| change.alignment).collect();
    let between = !matches!(options.interpolation, Interpolation::Nearest(_));
    if !between || x.dtype().is_float() {
        return Ok(x.resize_scaled(&sizes, &scales, &alignments, options)?);
    }
    let mut made = x.to_dtype(DType::F32)?;
    if !(options.antialias && x.dtype().is_integer()) {
        // Between integers lie floats, which are cut off.
        let resized = made.resize_scaled(&sizes, &scales, &alignments, options)?;
        return Ok(resized.to_dtype(x.dtype())?);
    }
    // As ONNX Runtime has it: rounded after each axis, the last one first.
    for axis in (0..x.rank()).rev() {
        let (mut shape, mut one) = (made.shape().to_vec(), vec![1.0; x.rank()]);
        (shape[axis], one[axis]) = (sizes[axis], scales[axis]);
        let resized = made.resize_scaled(&shape, &one, &alignments, options)?;
        made = resized.add(0.5)?.floor()?;
    }
    Ok(made.to_dtype(x.dtype())?)
}
