//! Pooling.

use streampool_tensor::{DType, PoolOptions, Tensor};

use super::Operator;
use super::conv::spatial;
use super::sliding::{Sliding, each, pads};
use crate::error::Fault;
use crate::node::{Node, Outputs, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "AveragePool" => |node| {
            let count_padding = node.flag_or("count_include_pad", false)?;
            pooled(node, |x, kernel, options| {
                x.avg_pool(kernel, count_padding, options)
            })
        },
        "LpPool" => |node| {
            let p = node.int_or("p", 2)? as f64;
            pooled(node, |x, kernel, options| x.lp_pool(p, kernel, options))
        },
        "MaxPool" => max_pool,
        "MaxUnpool" => max_unpool,
        "GlobalAveragePool" => |node| global(node, |x, axes| x.mean(axes, true)),
        "GlobalMaxPool" => |node| global(node, |x, axes| x.max(axes, true)),
        "GlobalLpPool" => |node| {
            let p = node.int_or("p", 2)? as f64;
            global(node, |x, axes| {
                x.abs()?.pow(p)?.sum(axes, true)?.pow(1.0 / p)
            })
        },
        _ => return None,
    })
}

type Made = streampool_tensor::Result<Tensor>;

fn pooled(node: &Node<'_>, pool: impl Fn(&Tensor, &[usize], &PoolOptions<'_>) -> Made) -> Outputs {
    let (x, kernel) = (node.input(0)?, node.sizes("kernel_shape")?);
    let sliding = Sliding::of(node, spatial(x)?, &kernel)?;
    Ok(vec![pool(x, &kernel, &options(node, &sliding)?)?])
}

fn options<'s>(node: &Node<'_>, sliding: &'s Sliding) -> Result<PoolOptions<'s>, Fault> {
    Ok(PoolOptions {
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        ceil: node.flag_or("ceil_mode", false)?,
    })
}

fn max_pool(node: &Node<'_>) -> Outputs {
    if !node.wants(1) {
        return pooled(node, Tensor::max_pool);
    }
    let (x, kernel) = (node.input(0)?, node.sizes("kernel_shape")?);
    let sliding = Sliding::of(node, spatial(x)?, &kernel)?;
    let (y, places) = x.max_pool_with_indices(&kernel, &options(node, &sliding)?)?;
    let places = match node.int_or("storage_order", 0)? {
        0 => places,
        _ => column_major(&places, spatial(x)?)?,
    };
    // Places count from the start of the whole tensor.
    let planes = x.shape()[0] * x.shape()[1];
    let plane: usize = spatial(x)?.iter().product();
    let first = Tensor::arange(node.pool(), 0, planes as i64, 1, DType::I64)?.mul(plane as i64)?;
    let mut shape = vec![1; x.rank()];
    shape[..2].copy_from_slice(&x.shape()[..2]);
    Ok(vec![y, places.add(&first.view(&shape)?)?])
}

/// Row-major places among `sizes`, counted with the first axis as the fastest.
fn column_major(places: &Tensor, sizes: &[usize]) -> Result<Tensor, Fault> {
    let mut counted = places.full_like(0)?;
    let mut rest = places.clone();
    for (axis, &size) in sizes.iter().enumerate().rev() {
        let along: usize = sizes[..axis].iter().product();
        let size = size.max(1) as i64;
        counted = counted.add(&rest.rem(size)?.mul(along as i64)?)?;
        rest = rest.div(size)?;
    }
    Ok(counted)
}

fn max_unpool(node: &Node<'_>) -> Outputs {
    let (x, kernel) = (node.input(0)?, node.sizes("kernel_shape")?);
    let (sizes, rank) = (spatial(x)?, kernel.len());
    let (stride, padding) = (each(node, "strides", rank)?, pads(node, rank)?);
    if sizes.len() != rank {
        let expected = format!("{} sizes", sizes.len());
        return Err(Fault::malformed(
            "attribute kernel_shape",
            format_args!("{kernel:?}"),
            expected,
        ));
    }
    let mut whole = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (before, after) = padding[axis];
        let spread = sizes[axis].saturating_sub(1) * stride[axis] + kernel[axis];
        whole.push(spread.saturating_sub(before + after));
    }
    // Places count from the start of the whole tensor.
    let plane = whole.iter().product::<usize>().max(1) as i64;
    let y = x.max_unpool(&node.input(1)?.rem(plane)?, &whole)?;
    let Some(wanted) = node.optional_ints(2)? else {
        return Ok(vec![y]);
    };
    let mut after = Vec::with_capacity(y.rank());
    for (&wanted, &size_now) in wanted.iter().zip(y.shape()) {
        after.push((0, size("a size", wanted)? as isize - size_now as isize));
    }
    Ok(vec![y.pad(
        &after,
        streampool_tensor::Padding::Constant(0.into()),
    )?])
}

fn global(node: &Node<'_>, reduce: impl Fn(&Tensor, &[isize]) -> Made) -> Outputs {
    let x = node.input(0)?;
    let axes: Vec<isize> = (2..x.rank() as isize).collect();
    Ok(vec![reduce(x, &axes)?])
}
