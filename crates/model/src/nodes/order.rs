//! Order, and running totals.

use streampool_tensor::{ScanKind, Tensor};

use super::Operator;
use crate::node::{Node, Outputs, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "TopK" => top_k,
        "CumSum" => |node| running(node, ScanKind::Sum),
        "CumProd" => |node| running(node, ScanKind::Prod),
        "Unique" => unique,
        _ => return None,
    })
}

fn top_k(node: &Node<'_>) -> Outputs {
    let count = match node.attr_int("k")? {
        Some(count) => count,
        None => node.int(1)?,
    };
    let axis = node.axis_or("axis", -1)?;
    let largest = node.flag_or("largest", true)?;
    let (values, places) = node.input(0)?.topk(size("k", count)?, axis, largest)?;
    Ok(vec![values, places])
}

fn running(node: &Node<'_>, kind: ScanKind) -> Outputs {
    let exclusive = node.flag_or("exclusive", false)?;
    let reverse = node.flag_or("reverse", false)?;
    let axis = node.int(1)? as isize;
    Ok(vec![node.input(0)?.scan(kind, axis, exclusive, reverse)?])
}

fn unique(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let axis = node.attr_int("axis")?.map(|axis| axis as isize);
    let found = x.unique(axis)?;
    if node.flag_or("sorted", true)? {
        return Ok(vec![found.values, found.first, found.inverse, found.counts]);
    }
    // In the order in which they come first.
    let (first, order) = found.first.sort(0, false)?;
    let place = order.argsort(0, false)?;
    let along = axis.unwrap_or(0);
    let values: Tensor = found.values.index_select(along, &order)?;
    let inverse = place.index_select(0, &found.inverse)?;
    Ok(vec![
        values,
        first,
        inverse,
        found.counts.index_select(0, &order)?,
    ])
}
