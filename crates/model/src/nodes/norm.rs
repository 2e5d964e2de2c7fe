//! Softmax and normalisation.

use streampool_tensor::{DType, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs, resolve};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Softmax" => |node| softmax(node, Tensor::softmax),
        "LogSoftmax" => |node| softmax(node, Tensor::log_softmax),
        "Hardmax" => |node| softmax(node, hardmax),
        "LayerNormalization" => layer_norm,
        "RMSNormalization" => rms_norm,
        "BatchNormalization" => batch_norm,
        "InstanceNormalization" => instance_norm,
        "GroupNormalization" => group_norm,
        "LpNormalization" => lp_norm,
        "LRN" => local_response_norm,
        "MeanVarianceNormalization" => mean_variance_norm,
        _ => return None,
    })
}

type Along = fn(&Tensor, isize) -> streampool_tensor::Result<Tensor>;

/// A function along an axis; before version 13, along all from that on as if they were one.
fn softmax(node: &Node<'_>, along: Along) -> Outputs {
    let x = node.input(0)?;
    if node.opset() >= 13 {
        return Ok(vec![along(x, node.axis_or("axis", -1)?)?]);
    }
    let axis = resolve(node.axis_or("axis", 1)?, x.rank())?;
    let rows: usize = x.shape()[..axis].iter().product();
    let columns: usize = x.shape()[axis..].iter().product();
    Ok(vec![
        along(&x.reshape(&[rows, columns])?, 1)?.reshape(x.shape())?,
    ])
}

/// One at the first largest, zero elsewhere.
fn hardmax(x: &Tensor, axis: isize) -> streampool_tensor::Result<Tensor> {
    let largest = x.argmax(axis, true)?;
    let ones = Tensor::ones(x.pool(), largest.shape(), x.dtype())?;
    x.full_like(0)?.scatter(axis, &largest, &ones)
}

fn epsilon(node: &Node<'_>) -> Result<f64, Fault> {
    node.float_or("epsilon", 1e-5)
}

/// The axis from which on is normalised.
fn first_axis(node: &Node<'_>, x: &Tensor) -> Result<usize, Fault> {
    resolve(node.axis_or("axis", -1)?, x.rank())
}

fn layer_norm(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let axis = first_axis(node, x)?;
    let own = |tensor: &Tensor| tensor.broadcast_to(&x.shape()[axis..]);
    let (scale, bias) = (own(node.input(1)?)?, node.optional(2).map(own).transpose()?);
    let y = x.layer_norm(axis as isize, Some(&scale), bias.as_ref(), epsilon(node)?)?;
    if node.wanted() == 1 {
        return Ok(vec![y]);
    }
    let axes: Vec<isize> = (axis..x.rank()).map(|axis| axis as isize).collect();
    let wide = x.to_dtype(DType::F32)?;
    let mean = wide.mean(&axes, true)?;
    let centred = wide.sub(&mean)?;
    let variance = centred.mul(&centred)?.mean(&axes, true)?;
    Ok(vec![y, mean, variance.add(epsilon(node)?)?.rsqrt()?])
}

fn rms_norm(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let axis = first_axis(node, x)?;
    let scale = node.input(1)?.broadcast_to(&x.shape()[axis..])?;
    Ok(vec![x.rms_norm(
        axis as isize,
        Some(&scale),
        epsilon(node)?,
    )?])
}

fn batch_norm(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let (scale, bias) = (Some(node.input(1)?), Some(node.input(2)?));
    let (mean, variance) = (node.input(3)?, node.input(4)?);
    if !node.flag_or("training_mode", false)? {
        return Ok(vec![x.batch_norm(
            mean,
            variance,
            scale,
            bias,
            epsilon(node)?,
        )?]);
    }
    let axes: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
    let found_mean = x.mean(&axes, false)?;
    let found_variance = x.var(&axes, 0, false)?;
    let y = x.batch_norm(&found_mean, &found_variance, scale, bias, epsilon(node)?)?;
    let momentum = node.float_or("momentum", 0.9)?;
    let running =
        |before: &Tensor, found: &Tensor| before.mul(momentum)?.add(&found.mul(1.0 - momentum)?);
    let (mean, variance) = (
        running(mean, &found_mean)?,
        running(variance, &found_variance)?,
    );
    Ok(vec![y, mean, variance])
}

fn instance_norm(node: &Node<'_>) -> Outputs {
    let (scale, bias) = (Some(node.input(1)?), Some(node.input(2)?));
    Ok(vec![node.input(0)?.instance_norm(
        scale,
        bias,
        epsilon(node)?,
    )?])
}

fn group_norm(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let groups = node.size_or("num_groups", 1)?;
    let channels = x.size(1)?;
    // Before version 21 there is one number for each group.
    let own = |tensor: &Tensor| match node.opset() {
        21.. => Ok(tensor.clone()),
        _ => tensor.repeat_interleave(channels / groups.max(1), 0),
    };
    let (scale, bias) = (own(node.input(1)?)?, own(node.input(2)?)?);
    Ok(vec![x.group_norm(
        groups,
        Some(&scale),
        Some(&bias),
        epsilon(node)?,
    )?])
}

fn lp_norm(node: &Node<'_>) -> Outputs {
    let (x, p) = (node.input(0)?, node.int_or("p", 2)? as f64);
    // What is all zeros stays so.
    let least = if x.dtype() == DType::F16 {
        6.2e-5
    } else {
        1e-37
    };
    Ok(vec![x.normalize(p, node.axis_or("axis", -1)?, least)?])
}

fn local_response_norm(node: &Node<'_>) -> Outputs {
    let size = node.size_or("size", 1)?;
    let (alpha, beta) = (node.float_or("alpha", 1e-4)?, node.float_or("beta", 0.75)?);
    let y = node
        .input(0)?
        .local_response_norm(size, alpha, beta, node.float_or("bias", 1.0)?)?;
    Ok(vec![y])
}

fn mean_variance_norm(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let given = node.attr_ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes: Vec<isize> = given.iter().map(|&axis| axis as isize).collect();
    let centred = x.sub(&x.mean(&axes, true)?)?;
    let deviation = centred.mul(&centred)?.mean(&axes, true)?.sqrt()?;
    Ok(vec![centred.div(&deviation.add(1e-9)?)?])
}
