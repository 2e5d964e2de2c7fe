//! Shapes, and where elements lie.

use streampool_tensor::room::copied;
use streampool_tensor::{DType, DepthOrder, Padding, Scalar, Tensor};

use super::call::{Call, Operator, Outputs, resolve, scalar, size};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Shape" => shape,
        "Size" => |call| {
            let elements = call.given(0)?.elem_count() as i64;
            Ok(vec![Tensor::scalar(call.known_pool(), elements)?])
        },
        "Reshape" => reshape,
        "Flatten" => flatten,
        "Squeeze" => squeeze,
        "Unsqueeze" => unsqueeze,
        "Transpose" => transpose,
        "Expand" => expand,
        "Tile" => tile,
        "Concat" => concat,
        "Split" => split,
        "Slice" => slice,
        "Pad" => pad,
        "CenterCropPad" => center_crop_pad,
        "DepthToSpace" => depth_to_space,
        "SpaceToDepth" => space_to_depth,
        _ => return None,
    })
}

fn shape(call: &Call<'_>) -> Outputs {
    let x = call.given(0)?;
    let rank = x.rank() as i64;
    let place = |position: i64| match position {
        0.. => position.min(rank),
        _ => (position + rank).max(0),
    } as usize;
    let start = place(call.int_or("start", 0)?);
    let end = place(call.int_or("end", rank)?);
    let sizes: Vec<i64> = x.shape()[start..end.max(start)]
        .iter()
        .map(|&size| size as i64)
        .collect();
    Ok(vec![Tensor::from_vec(call.known_pool(), sizes)?])
}

fn reshape(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let mut sizes = call.ints_of("shape", 1)?.unwrap_or_default();
    if !call.flag_or("allowzero", false)? {
        for (size, &kept) in sizes.iter_mut().zip(x.shape()) {
            if *size == 0 {
                *size = kept as i64;
            }
        }
    }
    Ok(vec![x.reshape(&sizes)?])
}

fn flatten(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    // One more axis than there are: all may be rows.
    let axis = call.axis_or("axis", 1)?;
    let axis = match axis == x.rank() as isize {
        true => x.rank(),
        false => resolve(axis, x.rank())?,
    };
    let (rows, columns) = x.shape().split_at(axis);
    Ok(vec![x.reshape(&[
        rows.iter().product::<usize>(),
        columns.iter().product(),
    ])?])
}

fn squeeze(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let Some(axes) = call.axes_of(1)? else {
        return Ok(vec![x.squeeze_all()?]);
    };
    let mut axes = axes
        .iter()
        .map(|&axis| resolve(axis, x.rank()))
        .collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    let mut last_first = axes.iter().rev();
    Ok(vec![last_first.try_fold(x.clone(), |x, &axis| {
        x.squeeze(axis as isize)
    })?])
}

fn unsqueeze(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axes = call.axes_of(1)?.unwrap_or_default();
    let rank = x.rank() + axes.len();
    let mut axes = axes
        .iter()
        .map(|&axis| resolve(axis, rank))
        .collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    distinct(&axes)?;
    Ok(vec![axes.iter().try_fold(x.clone(), |x, &axis| {
        x.unsqueeze(axis as isize)
    })?])
}

/// Refuses an axis that is named twice, of axes in order.
fn distinct(axes: &[usize]) -> Result<(), NodeError> {
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(NodeError::malformed(
            "the axes",
            format!("{} twice", pair[0]),
            "each once",
        )),
        None => Ok(()),
    }
}

fn transpose(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let order: Vec<isize> = match call.attr_ints("perm")? {
        Some(order) => order.iter().map(|&axis| axis as isize).collect(),
        None => (0..x.rank() as isize).rev().collect(),
    };
    Ok(vec![x.permute(&order)?])
}

/// Both ways: sizes that are asked for may be one, too.
fn expand(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let mut sizes = call.input_sizes(1)?;
    let missing = x.rank().saturating_sub(sizes.len());
    sizes.splice(0..0, std::iter::repeat_n(1, missing));
    let first = sizes.len() - x.rank();
    for (wanted, &own) in sizes[first..].iter_mut().zip(x.shape()) {
        if *wanted == 1 {
            *wanted = own;
        }
    }
    Ok(vec![x.broadcast_to(&sizes)?])
}

fn tile(call: &Call<'_>) -> Outputs {
    if call.opset() < 6 {
        // How often, and along which axis.
        let x = call.input(0)?;
        let axis = resolve(call.int(2)? as isize, x.rank())?;
        let mut times = streampool_tensor::room::filled(1, x.rank())?;
        times[axis] = size("the number of tiles", call.int(1)?)?;
        return Ok(vec![x.tile(&times)?]);
    }
    Ok(vec![call.input(0)?.tile(&call.input_sizes(1)?)?])
}

fn concat(call: &Call<'_>) -> Outputs {
    Ok(vec![Tensor::cat(&call.all()?, call.axis_or("axis", 1)?)?])
}

fn split(call: &Call<'_>) -> Outputs {
    let (x, axis) = (call.input(0)?, call.axis_or("axis", 0)?);
    if let Some(sizes) = call.ints_of("split", 1)? {
        let sizes = sizes.into_iter().map(|value| size("a size", value));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        return Ok(x.split_sizes(axis, &sizes)?);
    }
    let parts = call.size_or("num_outputs", call.wanted())?;
    if parts != call.wanted() || parts == 0 {
        let expected = format_args!("{}, as many as there are outputs", call.wanted()).to_string();
        return Err(NodeError::malformed(
            "attribute num_outputs",
            parts,
            expected,
        ));
    }
    let whole = x.dim(axis)?;
    let part = whole.div_ceil(parts);
    let sizes: Vec<usize> = (0..parts)
        .map(|place| part.min(whole.saturating_sub(place * part)))
        .collect();
    Ok(x.split_sizes(axis, &sizes)?)
}

fn slice(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let given = |name: &str, place: usize| -> Result<Option<Vec<isize>>, NodeError> {
        let found = call.ints_of(name, place)?;
        Ok(found.map(|values| values.into_iter().map(clamped).collect()))
    };
    let starts = given("starts", 1)?.unwrap_or_default();
    let ends = given("ends", 2)?.unwrap_or_default();
    let axes = given("axes", 3)?.unwrap_or_else(|| (0..starts.len() as isize).collect());
    let steps = given("steps", 4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        let got = format!("{starts:?}, {ends:?}, {axes:?} and {steps:?}");
        return Err(NodeError::malformed(
            "starts, ends, axes and steps",
            got,
            "as many of each",
        ));
    }
    let own = axes.iter().map(|&axis| resolve(axis, x.rank()));
    let mut own = own.collect::<Result<Vec<_>, _>>()?;
    own.sort_unstable();
    distinct(&own)?;
    let mut y = x.clone();
    for (place, &axis) in axes.iter().enumerate() {
        let (mut start, mut end, step) = (starts[place], ends[place], steps[place]);
        let size = y.dim(axis)? as isize;
        // Backwards, what begins before the first begins with it.
        if step < 0 && start < -size && size > 0 {
            start = 0;
        }
        // Beyond the start there is no number for "to the first, included".
        if step < 0 && end < -size {
            y = y.slice(axis, start.., step)?;
            continue;
        }
        end = end.min(size);
        y = y.slice(axis, start..end, step)?;
    }
    Ok(vec![y])
}

fn clamped(value: i64) -> isize {
    value.clamp(-(i64::MAX / 4), i64::MAX / 4) as isize
}

/// These axes of `x`, or all.
fn axes_or_all(x: &Tensor, axes: Option<&[i64]>) -> Result<Vec<usize>, NodeError> {
    match axes {
        Some(axes) => axes
            .iter()
            .map(|&axis| resolve(axis as isize, x.rank()))
            .collect(),
        None => Ok((0..x.rank()).collect()),
    }
}

fn pad(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let amounts = match call.attr_ints("pads")? {
        Some(amounts) => copied(amounts)?,
        None => call.ints(1)?,
    };
    let axes = axes_or_all(x, call.optional_ints(3)?.as_deref())?;
    if amounts.len() != 2 * axes.len() {
        return Err(NodeError::malformed(
            "the number of pads",
            amounts.len(),
            2 * axes.len(),
        ));
    }
    let (before, after) = amounts.split_at(axes.len());
    let mut each = vec![(0, 0); x.rank()];
    for (place, &axis) in axes.iter().enumerate() {
        each[axis] = (before[place] as isize, after[place] as isize);
    }
    let padding = match call.string_or("mode", "constant")? {
        "constant" if given_away(call)? => return pad_with(x, &each, call.input(2)?),
        "constant" => Padding::Constant(constant(call)?),
        "reflect" => Padding::Reflect,
        "edge" => Padding::Edge,
        "wrap" => Padding::Wrap,
        other => return Err(call.unknown("mode", other)),
    };
    Ok(vec![x.pad(&each, padding)?])
}

/// Whether what is around is not known before the model runs.
fn given_away(call: &Call<'_>) -> Result<bool, NodeError> {
    Ok(call.has_input(2) && call.given(2)?.pool() != call.known_pool())
}

/// What is around.
fn constant(call: &Call<'_>) -> Result<Scalar, NodeError> {
    match call.has_input(2) {
        true => scalar(call.given(2)?),
        false => Ok(call.float_or("value", 0.0)?.into()),
    }
}

/// Padding by a number that the host need not see.
fn pad_with(x: &Tensor, amounts: &[(isize, isize)], around: &Tensor) -> Outputs {
    let nothing = |value: Scalar| Padding::Constant(value);
    let padded = x.pad(amounts, nothing(0.into()))?;
    let inside =
        Tensor::ones(x.pool(), x.shape(), DType::Bool)?.pad(amounts, nothing(false.into()))?;
    Ok(vec![
        inside.where_cond(&padded, &around.reshape::<usize>(&[])?)?,
    ])
}

fn center_crop_pad(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axes = axes_or_all(x, call.attr_ints("axes")?)?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    distinct(&sorted)?;
    let wanted = call.ints(1)?;
    if wanted.len() != axes.len() {
        let got = wanted.len();
        return Err(NodeError::malformed("the number of sizes", got, axes.len()));
    }
    let mut each = vec![(0, 0); x.rank()];
    for (&axis, wanted) in axes.iter().zip(wanted) {
        let change = size("a size", wanted)? as isize - x.shape()[axis] as isize;
        // Of an odd number one more at the end; both are rounded towards the middle.
        let before = change / 2;
        each[axis] = (before, change - before);
    }
    Ok(vec![x.pad(&each, Padding::Constant(0.into()))?])
}

fn depth_to_space(call: &Call<'_>) -> Outputs {
    let order = match call.string_or("mode", "DCR")? {
        "DCR" => DepthOrder::BlockFirst,
        "CRD" => DepthOrder::ChannelFirst,
        other => return Err(call.unknown("mode", other)),
    };
    let block = call.size_or("blocksize", 0)?;
    Ok(vec![call.input(0)?.depth_to_space(block, order)?])
}

fn space_to_depth(call: &Call<'_>) -> Outputs {
    let block = call.size_or("blocksize", 0)?;
    Ok(vec![
        call.input(0)?
            .space_to_depth(block, DepthOrder::BlockFirst)?,
    ])
}
