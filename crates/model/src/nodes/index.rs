//! Picking and putting by index.

use streampool_tensor::{Combine, DType, Scalar, Tensor};

use super::call::{Call, Operator, Outputs, TensorResult, resolve, size};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Gather" => |call| {
            let axis = call.axis_or("axis", 0)?;
            if let Some(part) = picked(call, axis)? {
                return Ok(vec![part]);
            }
            Ok(vec![call.input(0)?.index_select(axis, &indices(call, 1)?)?])
        },
        "GatherElements" => |call| {
            let axis = call.axis_or("axis", 0)?;
            Ok(vec![call.input(0)?.gather(axis, &indices(call, 1)?)?])
        },
        "GatherND" => |call| {
            let batch = call.size_or("batch_dims", 0)?;
            Ok(vec![call.input(0)?.gather_nd(batch, &indices(call, 1)?)?])
        },
        "Scatter" | "ScatterElements" => |call| {
            let (axis, combine) = (call.axis_or("axis", 0)?, combine(call)?);
            let indices = indices(call, 1)?;
            scattered(call, combine, |x, updates| {
                x.scatter_reduce(axis, &indices, updates, combine)
            })
        },
        "ScatterND" => |call| {
            let (indices, combine) = (indices(call, 1)?, combine(call)?);
            scattered(call, combine, |x, updates| {
                x.scatter_nd(&indices, updates, combine)
            })
        },
        "TensorScatter" => tensor_scatter,
        "Compress" => compress,
        "NonZero" => |call| Ok(vec![call.input(0)?.nonzero()?.transpose(0, 1)?]),
        "OneHot" => one_hot,
        "Trilu" => trilu,
        "ReverseSequence" => reverse_sequence,
        _ => return None,
    })
}

/// What one known index picks: a view. An index that is out of range is left to the operator, which says so.
fn picked(call: &Call<'_>, axis: isize) -> Result<Option<Tensor>, NodeError> {
    let Some(Scalar::Int(index)) = call.number(1)? else {
        return Ok(None);
    };
    let x = call.input(0)?;
    let axis = resolve(axis, x.rank())?;
    let size = x.shape()[axis] as i64;
    if !(-size..size).contains(&index) {
        return Ok(None);
    }
    let mut part = x.select(axis as isize, index as isize)?;
    for _ in 0..call.given(1)?.rank() {
        part = part.unsqueeze(axis as isize)?;
    }
    Ok(Some(part))
}

/// Indices in a type that operators take.
fn indices(call: &Call<'_>, place: usize) -> Result<Tensor, NodeError> {
    let indices = call.input(place)?;
    match indices.dtype() {
        DType::I32 | DType::I64 => Ok(indices.clone()),
        _ => Ok(indices.to_dtype(DType::I64)?),
    }
}

/// Truths are combined as numbers: a sum is true where any is.
fn scattered(
    call: &Call<'_>,
    combine: Combine,
    scatter: impl Fn(&Tensor, &Tensor) -> TensorResult,
) -> Outputs {
    let (x, updates) = (call.input(0)?, call.input(2)?);
    if x.dtype() != DType::Bool || combine == Combine::Replace {
        return Ok(vec![scatter(x, updates)?]);
    }
    let made = scatter(&x.to_dtype(DType::I32)?, &updates.to_dtype(DType::I32)?)?;
    Ok(vec![made.to_dtype(DType::Bool)?])
}

fn combine(call: &Call<'_>) -> Result<Combine, NodeError> {
    Ok(match call.string_or("reduction", "none")? {
        "none" => Combine::Replace,
        "add" => Combine::Add,
        "mul" => Combine::Mul,
        "min" => Combine::Min,
        "max" => Combine::Max,
        other => return Err(call.unknown("reduction", other)),
    })
}

/// Counted from zero, and seen so that they lie along `axis` of `rank`.
fn counted(call: &Call<'_>, count: usize, axis: usize, rank: usize) -> Result<Tensor, NodeError> {
    let mut shape = vec![1; rank];
    shape[axis] = count;
    Ok(call.counted(count, DType::I64)?.view(&shape)?)
}

/// Each batch's updates put one after the other along an axis, from a place of its own.
fn tensor_scatter(call: &Call<'_>) -> Outputs {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let axis = resolve(call.axis_or("axis", -2)?, cache.rank())?;
    let mut places = counted(call, update.dim(axis as isize)?, axis, cache.rank())?;
    if let Some(first) = call.optional(2)? {
        let mut shape = vec![1; cache.rank()];
        shape[0] = first.elem_count();
        places = places.add(&first.to_dtype(DType::I64)?.reshape(&shape)?)?;
    }
    places = match call.string_or("mode", "linear")? {
        "linear" => places,
        "circular" => places.rem(cache.shape()[axis] as i64)?,
        other => return Err(call.unknown("mode", other)),
    };
    Ok(vec![cache.scatter(
        axis as isize,
        &places.broadcast_to(update.shape())?,
        update,
    )?])
}

/// What a condition says, which may be shorter than there are elements.
fn compress(call: &Call<'_>) -> Outputs {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    let (x, axis) = match call.attr_int("axis")? {
        Some(axis) => (x.clone(), axis as isize),
        None => (x.reshape(&[-1])?, 0),
    };
    let places = condition.nonzero()?.squeeze(1)?;
    Ok(vec![x.index_select(axis, &places)?])
}

fn one_hot(call: &Call<'_>) -> Outputs {
    let (values, axis) = (call.input(2)?, call.axis_or("axis", -1)?);
    let classes = size("depth", call.int(1)?)?;
    let hot = call
        .input(0)?
        .to_dtype(DType::I64)?
        .one_hot(classes, axis, DType::Bool)?;
    Ok(vec![hot.where_cond(
        &values.select(0, 1)?,
        &values.select(0, 0)?,
    )?])
}

fn trilu(call: &Call<'_>) -> Outputs {
    let diagonal = call.optional_int(1)?.unwrap_or(0);
    let x = call.input(0)?;
    Ok(vec![match call.flag_or("upper", true)? {
        true => x.triu(diagonal)?,
        false => x.tril(diagonal)?,
    }])
}

/// The first elements of each batch, as many as its length says, in reverse.
fn reverse_sequence(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (batch, time) = (
        call.size_or("batch_axis", 1)?,
        call.size_or("time_axis", 0)?,
    );
    if ![(0, 1), (1, 0)].contains(&(batch, time)) || x.rank() < 2 {
        let got = format!("{batch} and {time}, of {} axes", x.rank());
        let expected = "0 and 1, or 1 and 0, of two axes or more";
        return Err(NodeError::malformed(
            "batch_axis and time_axis",
            got,
            expected,
        ));
    }
    let mut shape = vec![1; x.rank()];
    shape[batch] = x.shape()[batch];
    let lengths = call.input(1)?.to_dtype(DType::I64)?.reshape(&shape)?;
    let places = counted(call, x.shape()[time], time, x.rank())?;
    let turned = lengths.sub(1)?.sub(&places)?;
    let picked = places.lt(&lengths)?.where_cond(&turned, &places)?;
    Ok(vec![
        x.gather(time as isize, &picked.broadcast_to(x.shape())?)?,
    ])
}
