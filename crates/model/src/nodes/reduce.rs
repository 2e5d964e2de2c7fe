//! Reductions over axes.

use super::call::{Call, Operator, Outputs, TensorResult};
use streampool_tensor::{DType, Tensor};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "ReduceSum" => |call| reduced(call, |x, axes, keep| x.sum(axes, keep)),
        "ReduceMean" => |call| reduced(call, mean),
        "ReduceProd" => |call| reduced(call, |x, axes, keep| x.prod(axes, keep)),
        "ReduceMax" => |call| reduced(call, |x, axes, keep| extreme(x, axes, keep, true)),
        "ReduceMin" => |call| reduced(call, |x, axes, keep| extreme(x, axes, keep, false)),
        "ReduceL1" => |call| reduced(call, |x, axes, keep| x.l1_norm(axes, keep)),
        "ReduceL2" => |call| {
            reduced(call, |x, axes, keep| {
                as_floats(x, |x| x.l2_norm(axes, keep))
            })
        },
        "ReduceSumSquare" => |call| reduced(call, |x, axes, keep| x.sum_square(axes, keep)),
        "ReduceLogSum" => |call| {
            reduced(call, |x, axes, keep| {
                as_floats(x, |x| x.log_sum(axes, keep))
            })
        },
        "ReduceLogSumExp" => |call| {
            reduced(call, |x, axes, keep| {
                as_floats(x, |x| x.log_sum_exp(axes, keep))
            })
        },
        "ArgMax" => |call| arg(call, Tensor::argmax),
        "ArgMin" => |call| arg(call, Tensor::argmin),
        _ => return None,
    })
}

/// In the type of `x`, by way of floats.
fn as_floats(x: &Tensor, reduce: impl Fn(&Tensor) -> TensorResult) -> TensorResult {
    match x.dtype().is_float() {
        true => reduce(x),
        false => reduce(&x.to_dtype(DType::F64)?)?.to_dtype(x.dtype()),
    }
}

/// Of integers what is behind the point is left out, as quotients of integers are.
fn mean(x: &Tensor, axes: &[isize], keep: bool) -> TensorResult {
    if x.dtype().is_float() {
        return x.mean(axes, keep);
    }
    let wide = match x.dtype() {
        DType::U64 => DType::U64,
        _ => DType::I64,
    };
    let sum = x.to_dtype(wide)?.sum(axes, keep)?;
    let count = x
        .elem_count()
        .checked_div(sum.elem_count())
        .unwrap_or(1)
        .max(1);
    sum.div(count as i64)?.to_dtype(x.dtype())
}

fn reduced(call: &Call<'_>, reduce: impl Fn(&Tensor, &[isize], bool) -> TensorResult) -> Outputs {
    let x = call.input(0)?;
    let axes = call.axes_of(1)?.unwrap_or_default();
    let keep = call.flag_or("keepdims", true)?;
    if !axes.is_empty() {
        return Ok(vec![reduce(x, &axes, keep)?]);
    }
    if !call.flag_or("noop_with_empty_axes", false)? {
        return Ok(vec![reduce(x, &[], keep)?]);
    }
    // Over no axes: of each element by itself.
    Ok(vec![reduce(&x.unsqueeze(0)?, &[0], false)?])
}

/// The largest or smallest; of nothing, the type's lowest or highest.
fn extreme(x: &Tensor, axes: &[isize], keep: bool, largest: bool) -> TensorResult {
    if x.elem_count() == 0 && x.dtype() == DType::Bool {
        return x.any(axes, keep)?.full_like(!largest);
    }
    if x.elem_count() == 0 {
        let worst = if largest {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
        return x
            .sum(axes, keep)?
            .to_dtype(DType::F64)?
            .full_like(worst)?
            .to_dtype(x.dtype());
    }
    match largest {
        true => x.max(axes, keep),
        false => x.min(axes, keep),
    }
}

fn arg(call: &Call<'_>, of: impl Fn(&Tensor, isize, bool) -> TensorResult) -> Outputs {
    let (x, axis) = (call.input(0)?, call.axis_or("axis", 0)?);
    let keep = call.flag_or("keepdims", true)?;
    if !call.flag_or("select_last_index", false)? {
        return Ok(vec![of(x, axis, keep)?]);
    }
    let last = x.dim(axis)? as i64 - 1;
    Ok(vec![of(&x.flip(&[axis])?, axis, keep)?.rsub(last)?])
}
