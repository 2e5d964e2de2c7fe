//! Softmax and normalisation.

use streampool_tensor::{DType, Tensor};

use super::call::{Call, Operator, Outputs, resolve, wider};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Softmax" => |call| softmax(call, Tensor::softmax),
        "LogSoftmax" => |call| softmax(call, Tensor::log_softmax),
        "Hardmax" => |call| softmax(call, hardmax),
        "LayerNormalization" => layer_norm,
        "RMSNormalization" | "SimplifiedLayerNormalization" => rms_norm,
        "BatchNormalization" => batch_norm,
        "InstanceNormalization" => instance_norm,
        "GroupNormalization" => group_norm,
        "LpNormalization" => lp_norm,
        "LRN" => local_response_norm,
        "MeanVarianceNormalization" => mean_variance_norm,
        _ => return None,
    })
}

pub type Along = fn(&Tensor, isize) -> streampool_tensor::Result<Tensor>;

/// A function along an axis; before version 13, along all from that on as if they were one.
fn softmax(call: &Call<'_>, along: Along) -> Outputs {
    let x = call.input(0)?;
    if call.opset() >= 13 {
        return Ok(vec![along(x, call.axis_or("axis", -1)?)?]);
    }
    let axis = resolve(call.axis_or("axis", 1)?, x.rank())?;
    Ok(vec![along_rest(x, axis, along)?])
}

/// A function along all axes from this one on, as if they were one.
pub fn along_rest(x: &Tensor, axis: usize, along: Along) -> Result<Tensor, NodeError> {
    let rows: usize = x.shape()[..axis].iter().product();
    let columns: usize = x.shape()[axis..].iter().product();
    Ok(along(&x.reshape(&[rows, columns])?, 1)?.reshape(x.shape())?)
}

/// The mean over these axes, and the inverse deviation, or the inverse root of the mean square where it is not centred; in
/// `f32`.
pub fn moments(
    x: &Tensor,
    axes: &[isize],
    centred: bool,
    epsilon: f64,
) -> Result<[Tensor; 2], NodeError> {
    let wide = x.to_dtype(DType::F32)?;
    let mean = wide.mean(axes, true)?;
    let centre = if centred { wide.sub(&mean)? } else { wide };
    let square = centre.mul(&centre)?.mean(axes, true)?;
    Ok([mean, square.add(epsilon)?.rsqrt()?])
}

/// One at the first largest, zero elsewhere.
fn hardmax(x: &Tensor, axis: isize) -> streampool_tensor::Result<Tensor> {
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let largest = x.argmax(axis, true)?;
    let ones = Tensor::ones(x.pool(), largest.shape(), x.dtype())?;
    x.full_like(0)?.scatter(axis, &largest, &ones)
}

fn epsilon(call: &Call<'_>) -> Result<f64, NodeError> {
    call.float_or("epsilon", 1e-5)
}

/// Sums are taken in the type of the numbers or a wider one, whatever float type a node names for them.
fn check_stash_type(call: &Call<'_>) -> Result<(), NodeError> {
    match call.attr_dtype("stash_type")? {
        Some(dtype) if !dtype.is_float() => Err(NodeError::malformed(
            "attribute stash_type",
            dtype,
            "a type of floats",
        )),
        _ => Ok(()),
    }
}

/// The axis from which on is normalised.
fn first_axis(call: &Call<'_>, x: &Tensor) -> Result<usize, NodeError> {
    resolve(call.axis_or("axis", -1)?, x.rank())
}

fn layer_norm(call: &Call<'_>) -> Outputs {
    check_stash_type(call)?;
    let x = call.input(0)?;
    let axis = first_axis(call, x)?;
    let own = |tensor: &Tensor| tensor.broadcast_to(&x.shape()[axis..]);
    let (scale, bias) = (
        own(call.input(1)?)?,
        call.optional(2)?.map(own).transpose()?,
    );
    let y = x.layer_norm(axis as isize, Some(&scale), bias.as_ref(), epsilon(call)?)?;
    if call.wanted() == 1 {
        return Ok(vec![y]);
    }
    let axes: Vec<isize> = (axis..x.rank()).map(|axis| axis as isize).collect();
    let [mean, inverse] = moments(x, &axes, true, epsilon(call)?)?;
    Ok(vec![y, mean, inverse])
}

fn rms_norm(call: &Call<'_>) -> Outputs {
    check_stash_type(call)?;
    let x = call.input(0)?;
    let axis = first_axis(call, x)?;
    let scale = call.input(1)?.broadcast_to(&x.shape()[axis..])?;
    if scale.dtype() == x.dtype() {
        let y = x.rms_norm(axis as isize, Some(&scale), epsilon(call)?)?;
        return Ok(vec![y]);
    }
    // The result is of the type of the scale.
    let wide = widest(&[x, &scale]);
    let y =
        x.to_dtype(wide)?
            .rms_norm(axis as isize, Some(&scale.to_dtype(wide)?), epsilon(call)?)?;
    Ok(vec![y.to_dtype(scale.dtype())?])
}

fn batch_norm(call: &Call<'_>) -> Outputs {
    let given: Vec<&Tensor> = (0..5)
        .map(|place| call.input(place))
        .collect::<Result<_, _>>()?;
    let dtypes = [given[0].dtype(), given[3].dtype(), given[3].dtype()];
    if given.iter().all(|tensor| tensor.dtype() == dtypes[0]) {
        let given: Vec<Tensor> = given.into_iter().cloned().collect();
        return batch_normed(call, &given);
    }
    let wide = widest(&given);
    let given = given.iter().map(|tensor| tensor.to_dtype(wide));
    let made = batch_normed(call, &given.collect::<Result<Vec<_>, _>>()?)?;
    let made = made.iter().zip(dtypes);
    Ok(made
        .map(|(tensor, dtype)| tensor.to_dtype(dtype))
        .collect::<Result<_, _>>()?)
}

/// A float type in which tensors of several can be computed.
fn widest(tensors: &[&Tensor]) -> DType {
    match tensors.iter().any(|tensor| tensor.dtype() == DType::F64) {
        true => DType::F64,
        false => DType::F32,
    }
}

/// Of inputs that are all of one type.
fn batch_normed(call: &Call<'_>, given: &[Tensor]) -> Outputs {
    let [x, scale, bias, mean, variance] = given else {
        return Err(NodeError::unsupported("a normalisation of other inputs"));
    };
    let (scale, bias) = (Some(scale), Some(bias));
    if !call.flag_or("spatial", true)? {
        return batch_norm_by_place(call);
    }
    if !call.flag_or("training_mode", false)? {
        return Ok(vec![x.batch_norm(
            mean,
            variance,
            scale,
            bias,
            epsilon(call)?,
        )?]);
    }
    let axes: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
    let found_mean = x.mean(&axes, false)?;
    let found_variance = x.var(&axes, 0, false)?;
    let y = x.batch_norm(&found_mean, &found_variance, scale, bias, epsilon(call)?)?;
    let momentum = call.float_or("momentum", 0.9)?;
    let running =
        |before: &Tensor, found: &Tensor| before.mul(momentum)?.add(&found.mul(1.0 - momentum)?);
    let (mean, variance) = (
        running(mean, &found_mean)?,
        running(variance, &found_variance)?,
    );
    Ok(vec![y, mean, variance])
}

/// As version 7 has it on request: each place of a sample has numbers of its own.
fn batch_norm_by_place(call: &Call<'_>) -> Outputs {
    let deviation = call.input(4)?.add(epsilon(call)?)?.sqrt()?;
    let centred = call.input(0)?.sub(call.input(3)?)?.div(&deviation)?;
    Ok(vec![centred.mul(call.input(1)?)?.add(call.input(2)?)?])
}

fn instance_norm(call: &Call<'_>) -> Outputs {
    let (scale, bias) = (Some(call.input(1)?), Some(call.input(2)?));
    Ok(vec![call.input(0)?.instance_norm(
        scale,
        bias,
        epsilon(call)?,
    )?])
}

fn group_norm(call: &Call<'_>) -> Outputs {
    check_stash_type(call)?;
    let x = call.input(0)?;
    let groups = call.size_or("num_groups", 1)?;
    let channels = x.dim(1)?;
    // Before version 21 there is one number for each group.
    let own = |tensor: &Tensor| match call.opset() {
        21.. => Ok(tensor.clone()),
        _ => tensor.repeat_interleave(channels / groups.max(1), 0),
    };
    let (scale, bias) = (own(call.input(1)?)?, own(call.input(2)?)?);
    Ok(vec![x.group_norm(
        groups,
        Some(&scale),
        Some(&bias),
        epsilon(call)?,
    )?])
}

fn lp_norm(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let p = match call.int_or("p", 2)? {
        p @ (1 | 2) => p as f64,
        other => return Err(NodeError::malformed("attribute p", other, "1 or 2")),
    };
    // What is all zeros stays so.
    let least = if x.dtype() == DType::F16 {
        6.2e-5
    } else {
        1e-37
    };
    Ok(vec![x.normalize(p, call.axis_or("axis", -1)?, least)?])
}

fn local_response_norm(call: &Call<'_>) -> Outputs {
    let size = call.size_or("size", 1)?;
    // ONNX says which channels an even size takes; ONNX Runtime refuses it, and nobody writes it.
    if size.is_multiple_of(2) {
        return Err(NodeError::malformed("size", size, "an odd number"));
    }
    let (alpha, beta) = (call.float_or("alpha", 1e-4)?, call.float_or("beta", 0.75)?);
    for (name, value) in [("attribute alpha", alpha), ("attribute beta", beta)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(NodeError::malformed(name, value, "positive and finite"));
        }
    }
    let y = call
        .input(0)?
        .local_response_norm(size, alpha, beta, call.float_or("bias", 1.0)?)?;
    Ok(vec![y])
}

fn mean_variance_norm(call: &Call<'_>) -> Outputs {
    let dtype = call.input(0)?.dtype();
    // Squares and their sums are more than halves hold.
    let x = call.input(0)?.to_dtype(wider(dtype))?;
    let given = call.attr_ints("axes")?.unwrap_or(&[0, 2, 3]);
    if given.is_empty() {
        return Err(NodeError::malformed(
            "attribute axes",
            "empty",
            "at least one axis",
        ));
    }
    let axes: Vec<isize> = given.iter().map(|&axis| axis as isize).collect();
    let centred = x.sub(&x.mean(&axes, true)?)?;
    let deviation = centred.mul(&centred)?.mean(&axes, true)?.sqrt()?;
    let y = centred.div(&deviation.add(1e-9)?)?;
    Ok(vec![y.to_dtype(dtype)?])
}
