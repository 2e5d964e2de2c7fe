//! Boxes in pictures.

use super::call::{Call, Operator, Outputs, parts};
use crate::error::NodeError;
use streampool_tensor::{BestBoxes, BoxFormat, DType, RoiOptions, Tensor};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "RoiAlign" => roi_align,
        "MaxRoiPool" => max_roi_pool,
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

/// So many elements of the picture are held at a time, unless those of one region are more.
const AT_ONCE: usize = 1 << 24;

/// The largest element of each cell of a grid over regions whose corners are rounded to elements; of an empty cell zero.
fn max_roi_pool(call: &Call<'_>) -> Outputs {
    let (x, regions) = (call.input(0)?, call.input(1)?);
    let &[rows, columns] = &call.sizes("pooled_shape")?[..] else {
        let got = format_args!("{:?}", call.attr_ints("pooled_shape")?.unwrap_or(&[]));
        return Err(NodeError::malformed(
            "attribute pooled_shape",
            got,
            "two sizes",
        ));
    };
    let (&[_, channels, height, width], &[count, 5]) = (x.shape(), regions.shape()) else {
        let got = format_args!("of shapes {:?} and {:?}", x.shape(), regions.shape());
        return Err(NodeError::malformed(
            "the inputs",
            got,
            "[batch, channels, height, width] and [regions, 5]",
        ));
    };
    let batches = regions.select(1, 0)?.to_dtype(DType::I64)?;
    let scaled = regions.mul(call.float_or("spatial_scale", 1.0)?)?;
    // Half way, away from zero.
    let corners = scaled.abs()?.add(0.5)?.floor()?.mul(&scaled.sign()?)?;
    let corner = |place: usize| corners.narrow(1, place, 1);
    let down = cells(call, [&corner(2)?, &corner(4)?], rows, height)?;
    let across = cells(call, [&corner(1)?, &corner(3)?], columns, width)?;
    let one = channels.saturating_mul(height).saturating_mul(width).max(1);
    let together = (AT_ONCE / one).clamp(1, count.max(1));
    let mut pooled = Vec::new();
    for part in 0..parts("the number of regions", count.div_ceil(together))?.max(1) {
        let first = part * together;
        let size = together.min(count - first);
        let seen = x.index_select(0, &batches.narrow(0, first, size)?)?;
        let [down, across] = [&down, &across].map(|cells| cells.narrow(0, first, size));
        let rows = largest(&seen, &down?, 2)?;
        pooled.push(largest(&rows, &across?, 3)?);
    }
    let pooled = Tensor::cat(&pooled.iter().collect::<Vec<_>>(), 0)?;
    let filled = |cells: &Tensor| cells.any(&[2], false);
    let filled = filled(&down)?
        .reshape(&[count, 1, rows, 1])?
        .logical_and(&filled(&across)?.reshape(&[count, 1, 1, columns])?)?;
    Ok(vec![filled.where_cond(&pooled, 0.0)?])
}

/// Which places of an axis are in each cell: `[regions, cells, places]`.
fn cells(
    call: &Call<'_>,
    [start, end]: [&Tensor; 2],
    count: usize,
    size: usize,
) -> Result<Tensor, NodeError> {
    let extent = end.sub(start)?.add(1.0)?.maximum(1.0)?;
    let cell = extent.div(count as f64)?;
    let number = call.counted(count, start.dtype())?;
    let low = number.mul(&cell)?.floor()?.add(start)?.unsqueeze(2)?;
    let high = number
        .add(1.0)?
        .mul(&cell)?
        .ceil()?
        .add(start)?
        .unsqueeze(2)?;
    let places = call.counted(size, start.dtype())?;
    Ok(places.ge(&low)?.logical_and(&places.lt(&high)?)?)
}

/// The largest element of each cell along an axis of `[regions, channels, height, width]`.
fn largest(x: &Tensor, cells: &Tensor, axis: isize) -> Result<Tensor, NodeError> {
    let mut all = Vec::new();
    for cell in 0..cells.dim(1)? {
        let mut inside = cells.select(1, cell as isize)?.unsqueeze(1)?;
        inside = inside.unsqueeze(if axis == 2 { -1 } else { -2 })?;
        let seen = inside.where_cond(x, f64::NEG_INFINITY)?;
        all.push(seen.max(&[axis], true)?);
    }
    match &all[..] {
        [] => Ok(x.narrow(axis, 0, 0)?),
        all => Ok(Tensor::cat(&all.iter().collect::<Vec<_>>(), axis)?),
    }
}
