//! Picking and putting by index.

use streampool_tensor::{Combine, DType, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs, resolve, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Gather" => |node| {
            let axis = node.axis_or("axis", 0)?;
            Ok(vec![node.input(0)?.index_select(axis, &indices(node, 1)?)?])
        },
        "GatherElements" => |node| {
            let axis = node.axis_or("axis", 0)?;
            Ok(vec![node.input(0)?.gather(axis, &indices(node, 1)?)?])
        },
        "GatherND" => |node| {
            let batch = node.size_or("batch_dims", 0)?;
            Ok(vec![node.input(0)?.gather_nd(batch, &indices(node, 1)?)?])
        },
        "Scatter" | "ScatterElements" => |node| {
            let (axis, combine) = (node.axis_or("axis", 0)?, combine(node)?);
            let updates = node.input(2)?;
            Ok(vec![node.input(0)?.scatter_reduce(
                axis,
                &indices(node, 1)?,
                updates,
                combine,
            )?])
        },
        "ScatterND" => |node| {
            let (indices, updates) = (indices(node, 1)?, node.input(2)?);
            Ok(vec![node.input(0)?.scatter_nd(
                &indices,
                updates,
                combine(node)?,
            )?])
        },
        "TensorScatter" => tensor_scatter,
        "Compress" => compress,
        "NonZero" => |node| Ok(vec![node.input(0)?.nonzero()?.transpose(0, 1)?]),
        "OneHot" => one_hot,
        "Trilu" => trilu,
        "ReverseSequence" => reverse_sequence,
        _ => return None,
    })
}

/// Indices in a type that operators take.
fn indices(node: &Node<'_>, place: usize) -> Result<Tensor, Fault> {
    let indices = node.input(place)?;
    match indices.dtype() {
        DType::I32 | DType::I64 => Ok(indices.clone()),
        _ => Ok(indices.to_dtype(DType::I64)?),
    }
}

fn combine(node: &Node<'_>) -> Result<Combine, Fault> {
    Ok(match node.string_or("reduction", "none")? {
        "none" => Combine::Replace,
        "add" => Combine::Add,
        "mul" => Combine::Mul,
        "min" => Combine::Min,
        "max" => Combine::Max,
        other => return Err(node.unknown("reduction", other)),
    })
}

/// Counted from zero, and seen so that they lie along `axis` of `rank`.
fn counted(node: &Node<'_>, count: usize, axis: usize, rank: usize) -> Result<Tensor, Fault> {
    let mut shape = vec![1; rank];
    shape[axis] = count;
    Ok(Tensor::arange(node.pool(), 0, count as i64, 1, DType::I64)?.view(&shape)?)
}

/// Each batch's updates put one after the other along an axis, from a place of its own.
fn tensor_scatter(node: &Node<'_>) -> Outputs {
    let (cache, update) = (node.input(0)?, node.input(1)?);
    let axis = resolve(node.axis_or("axis", -2)?, cache.rank())?;
    let mut places = counted(node, update.size(axis as isize)?, axis, cache.rank())?;
    if let Some(first) = node.optional(2) {
        let mut shape = vec![1; cache.rank()];
        shape[0] = first.elements();
        places = places.add(&first.to_dtype(DType::I64)?.reshape(&shape)?)?;
    }
    places = match node.string_or("mode", "linear")? {
        "linear" => places,
        "circular" => places.rem(cache.shape()[axis] as i64)?,
        other => return Err(node.unknown("mode", other)),
    };
    Ok(vec![cache.scatter(
        axis as isize,
        &places.broadcast_to(update.shape())?,
        update,
    )?])
}

/// What a condition says, which may be shorter than there are elements.
fn compress(node: &Node<'_>) -> Outputs {
    let (x, condition) = (node.input(0)?, node.input(1)?);
    let (x, axis) = match node.attr_int("axis")? {
        Some(axis) => (x.clone(), axis as isize),
        None => (x.reshape(&[-1])?, 0),
    };
    let places = condition.nonzero()?.squeeze(1)?;
    Ok(vec![x.index_select(axis, &places)?])
}

fn one_hot(node: &Node<'_>) -> Outputs {
    let (values, axis) = (node.input(2)?, node.axis_or("axis", -1)?);
    let classes = size("depth", node.int(1)?)?;
    let hot = node
        .input(0)?
        .to_dtype(DType::I64)?
        .one_hot(classes, axis, DType::Bool)?;
    Ok(vec![hot.where_cond(
        &values.select(0, 1)?,
        &values.select(0, 0)?,
    )?])
}

fn trilu(node: &Node<'_>) -> Outputs {
    let diagonal = match node.optional(1) {
        Some(_) => node.int(1)?,
        None => 0,
    };
    let x = node.input(0)?;
    Ok(vec![match node.flag_or("upper", true)? {
        true => x.triu(diagonal)?,
        false => x.tril(diagonal)?,
    }])
}

/// The first elements of each batch, as many as its length says, in reverse.
fn reverse_sequence(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let batch = resolve(node.axis_or("batch_axis", 1)?, x.rank())?;
    let time = resolve(node.axis_or("time_axis", 0)?, x.rank())?;
    let mut shape = vec![1; x.rank()];
    shape[batch] = x.shape()[batch];
    let lengths = node.input(1)?.to_dtype(DType::I64)?.reshape(&shape)?;
    let places = counted(node, x.shape()[time], time, x.rank())?;
    let turned = lengths.sub(1)?.sub(&places)?;
    let picked = places.lt(&lengths)?.where_cond(&turned, &places)?;
    Ok(vec![
        x.gather(time as isize, &picked.broadcast_to(x.shape())?)?,
    ])
}
