//! Pooling.

use streampool_tensor::{DType, PoolOptions, Tensor};

use super::call::{Call, Operator, Outputs, TensorResult, size, wider};
use super::conv::spatial;
use super::sliding::{Sliding, counted, each, pads, reach, spread};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "AveragePool" => |call| Ok(vec![average_pooled(call, call.input(0)?)?]),
        "LpPool" => |call| {
            let p = call.int_or("p", 2)? as f64;
            pooled(call, |x, kernel, options| x.lp_pool(p, kernel, options))
        },
        "MaxPool" => max_pool,
        "MaxUnpool" => max_unpool,
        "GlobalAveragePool" => |call| global(call, |x, axes| x.mean(axes, true)),
        "GlobalMaxPool" => |call| global(call, |x, axes| x.max(axes, true)),
        "GlobalLpPool" => |call| {
            let p = call.int_or("p", 2)? as f64;
            global(call, |x, axes| {
                let wide = x.to_dtype(wider(x.dtype()))?.abs()?;
                let sum = wide.pow(p)?.sum(axes, true)?;
                sum.pow(1.0 / p)?.to_dtype(x.dtype())
            })
        },
        _ => return None,
    })
}

/// The mean of each window that a node's attributes describe.
pub fn average_pooled(call: &Call<'_>, x: &Tensor) -> Result<Tensor, NodeError> {
    let count_padding = call.flag_or("count_include_pad", false)?;
    pooled_of(call, x, |x, kernel, options| {
        x.avg_pool(kernel, count_padding, options)
    })
}

/// The largest of each window that a node's attributes describe.
pub fn max_pooled(call: &Call<'_>, x: &Tensor) -> Result<Tensor, NodeError> {
    pooled_of(call, x, Tensor::max_pool)
}

fn pooled(
    call: &Call<'_>,
    pool: impl Fn(&Tensor, &[usize], &PoolOptions<'_>) -> TensorResult,
) -> Outputs {
    Ok(vec![pooled_of(call, call.input(0)?, pool)?])
}

fn pooled_of(
    call: &Call<'_>,
    x: &Tensor,
    pool: impl Fn(&Tensor, &[usize], &PoolOptions<'_>) -> TensorResult,
) -> Result<Tensor, NodeError> {
    let (kernel, sliding, none) = window(call, x)?;
    without(&pool(x, &kernel, &options(call, &sliding)?)?, &none)
}

/// A result whose axes of these places have no elements.
fn without(made: &Tensor, none: &[usize]) -> Result<Tensor, NodeError> {
    let empty = |made: Tensor, &axis: &usize| made.narrow(axis as isize, 0, 0);
    Ok(none.iter().try_fold(made.clone(), empty)?)
}

/// The sizes of the window that a node's attributes describe, and how it moves; it never lies in the padding alone. Last
/// come the axes where no window is.
///
/// Of a window that reaches beyond input and padding there is one, if by less than a stride, and none, if by less than
/// two. ONNX's rounding has it so, and so has ONNX Runtime.
fn window(call: &Call<'_>, x: &Tensor) -> Result<(Vec<usize>, Sliding, Vec<usize>), NodeError> {
    let mut kernel = call.sizes("kernel_shape")?;
    let mut sliding = Sliding::of(call, spatial(x)?, &kernel)?;
    for (axis, &(before, after)) in sliding.padding.iter().enumerate() {
        let reach = kernel[axis].saturating_mul(sliding.dilation[axis]);
        if before.max(after) >= reach {
            let got = format!("{before} and {after} for axis {axis}");
            let expected = format!("less than {reach}, what a window covers");
            return Err(NodeError::malformed("attribute pads", got, expected));
        }
    }
    let mut none = Vec::new();
    for (axis, &size) in spatial(x)?.iter().enumerate() {
        let (before, after) = sliding.padding[axis];
        let there = size.saturating_add(before).saturating_add(after);
        let (dilation, stride) = (sliding.dilation[axis], sliding.stride[axis]);
        let beyond = reach(kernel[axis], dilation).saturating_sub(there);
        if beyond == 0 || size == 0 || beyond / 2 >= stride {
            continue;
        }
        // What is beyond counts for nothing, so the window is as large as what is there, and does not move.
        kernel[axis] = (there - 1) / dilation.max(1) + 1;
        sliding.stride[axis] = there;
        if beyond >= stride {
            none.push(axis + 2);
        }
    }
    Ok((kernel, sliding, none))
}

fn options<'s>(call: &Call<'_>, sliding: &'s Sliding) -> Result<PoolOptions<'s>, NodeError> {
    Ok(PoolOptions {
        stride: &sliding.stride,
        padding: &sliding.padding,
        dilation: &sliding.dilation,
        ceil: call.flag_or("ceil_mode", false)?,
    })
}

fn max_pool(call: &Call<'_>) -> Outputs {
    let columns_first = call.flag_or("storage_order", false)?;
    if !call.wants(1) {
        return pooled(call, Tensor::max_pool);
    }
    let x = call.input(0)?;
    let (kernel, sliding, none) = window(call, x)?;
    let (y, places) = x.max_pool_with_indices(&kernel, &options(call, &sliding)?)?;
    let (y, places) = (without(&y, &none)?, without(&places, &none)?);
    let places = match columns_first {
        false => places,
        true => column_major(&places, spatial(x)?)?,
    };
    // Places count from the start of the whole tensor.
    let planes = x.shape()[0] * x.shape()[1];
    let plane: usize = spatial(x)?.iter().product();
    let first = call.counted(planes, DType::I64)?.mul(plane as i64)?;
    let mut shape = vec![1; x.rank()];
    shape[..2].copy_from_slice(&x.shape()[..2]);
    Ok(vec![y, places.add(&first.view(&shape)?)?])
}

/// Row-major places among `sizes`, counted with the first axis as the fastest.
fn column_major(places: &Tensor, sizes: &[usize]) -> Result<Tensor, NodeError> {
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

fn max_unpool(call: &Call<'_>) -> Outputs {
    let (x, kernel) = (call.input(0)?, call.sizes("kernel_shape")?);
    let (sizes, rank) = (spatial(x)?, kernel.len());
    let (stride, padding) = (each(call, "strides", rank)?, pads(call, rank)?);
    counted("kernel_shape", &kernel, sizes.len())?;
    for (name, sizes) in [
        ("attribute kernel_shape", &kernel),
        ("attribute strides", &stride),
    ] {
        if sizes.contains(&0) {
            let got = format!("{sizes:?}");
            return Err(NodeError::malformed(name, got, "at least 1 for each axis"));
        }
    }
    let mut whole = Vec::new();
    for axis in 0..rank {
        let (before, after) = padding[axis];
        let spread = spread(sizes[axis], stride[axis], kernel[axis]);
        whole.push(spread.saturating_sub(before).saturating_sub(after));
    }
    // Places count from the start of the whole tensor.
    let plane = whole
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    let plane = plane.and_then(|plane| i64::try_from(plane.max(1)).ok());
    let too_large = || NodeError::malformed("the sizes", format!("{whole:?}"), "of fewer elements");
    let plane = plane.ok_or_else(too_large)?;
    let y = x.max_unpool(&call.input(1)?.rem(plane)?, &whole)?;
    let Some(wanted) = call.optional_ints(2)? else {
        return Ok(vec![y]);
    };
    let mut after = Vec::new();
    for (&wanted, &size_now) in wanted.iter().zip(y.shape()) {
        after.push((0, size("a size", wanted)? as isize - size_now as isize));
    }
    Ok(vec![y.pad(
        &after,
        streampool_tensor::Padding::Constant(0.into()),
    )?])
}

fn global(call: &Call<'_>, reduce: impl Fn(&Tensor, &[isize]) -> TensorResult) -> Outputs {
    let x = call.input(0)?;
    let axes: Vec<isize> = (2..x.rank() as isize).collect();
    Ok(vec![reduce(x, &axes)?])
}
