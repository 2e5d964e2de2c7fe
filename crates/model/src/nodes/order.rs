//! Order, and running totals.

use streampool_tensor::{ScanKind, Tensor, Unique};

use super::call::{Call, Operator, Outputs, size};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "TopK" => top_k,
        "CumSum" => |call| running(call, ScanKind::Sum),
        "CumProd" => |call| running(call, ScanKind::Prod),
        "Unique" => unique,
        _ => return None,
    })
}

fn top_k(call: &Call<'_>) -> Outputs {
    let count = match call.attr_int("k")? {
        Some(count) => count,
        None => call.int(1)?,
    };
    let axis = call.axis_or("axis", -1)?;
    let largest = call.flag_or("largest", true)?;
    // Those that need not be sorted may be.
    call.flag_or("sorted", true)?;
    let (values, places) = call.input(0)?.topk(size("k", count)?, axis, largest)?;
    Ok(vec![values, places])
}

fn running(call: &Call<'_>, kind: ScanKind) -> Outputs {
    let exclusive = call.flag_or("exclusive", false)?;
    let reverse = call.flag_or("reverse", false)?;
    let axis = call.int(1)? as isize;
    Ok(vec![call.input(0)?.scan(kind, axis, exclusive, reverse)?])
}

fn unique(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axis = call.attr_int("axis")?.map(|axis| axis as isize);
    let found = x.unique(axis)?;
    if call.flag_or("sorted", true)? {
        return Ok(vec![found.values, found.first, found.inverse, found.counts]);
    }
    Ok(by_place(found, axis)?.into())
}

/// What is unique in `x`, in the order in which it comes first: values, where they are first, which each element is,
/// and how often each is there.
pub fn unique_by_place(x: &Tensor, axis: Option<isize>) -> Result<[Tensor; 4], NodeError> {
    by_place(x.unique(axis)?, axis)
}

fn by_place(found: Unique, axis: Option<isize>) -> Result<[Tensor; 4], NodeError> {
    let (first, order) = found.first.sort(0, false)?;
    let place = order.argsort(0, false)?;
    let values = found.values.index_select(axis.unwrap_or(0), &order)?;
    let inverse = place.index_select(0, &found.inverse)?;
    Ok([
        values,
        first,
        inverse,
        found.counts.index_select(0, &order)?,
    ])
}
