//! What the planner makes of several nodes.

use half::{bf16, f16};
use streampool_tensor::{Activation, AttentionOptions, ConvOptions, DType, Tensor};

use super::call::{Call, Operator, Outputs, resolve};
use super::conv::convolved_with;
use super::heads::{by_pair, pairs_turned};
use super::quantise::{conv_of_bytes, linear_of_bytes, round_to_bytes};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Linear" => linear,
        "Conv" => |call| {
            let (x, weight) = (call.input(0)?, call.input(1)?);
            let options = ConvOptions {
                bias: call.optional(2)?,
                activation: activation(call)?,
                ..ConvOptions::default()
            };
            Ok(vec![convolved_with(call, x, weight, &options)?])
        },
        "ConvOfBytes" => conv_of_bytes,
        "LinearOfBytes" => linear_of_bytes,
        "RoundToBytes" => round_to_bytes,
        "Attention" => attention,
        "EmptyRows" => empty_rows,
        "Rotary" => rotary,
        "Shorten" => shorten,
        "LayerNormalization" | "RMSNormalization" => norm,
        "Gelu" => |call| {
            let x = call.input(0)?;
            Ok(vec![match call.string_or("approximate", "none")? {
                "none" => x.gelu()?,
                "tanh" => x.gelu_tanh()?,
                other => return Err(call.unknown("approximate", other)),
            }])
        },
        "ScaleShift" => |call| {
            Ok(vec![
                call.input(0)?.scale_shift(call.input(1)?, call.input(2)?)?,
            ])
        },
        "Silu" => |call| Ok(vec![call.input(0)?.silu()?]),
        _ => return None,
    })
}

/// The activation that a node ends with.
fn activation(call: &Call<'_>) -> Result<Activation, NodeError> {
    Ok(match call.string_or("activation", "none")? {
        "none" => Activation::None,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "gelu_tanh" => Activation::GeluTanh,
        "silu" => Activation::Silu,
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        "hard_swish" => Activation::HardSwish,
        other => return Err(call.unknown("activation", other)),
    })
}

fn linear(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let alpha = call.float_or("alpha", 1.0)?;
    Ok(vec![x.matmul_with(
        weight,
        bias,
        activation(call)?,
        alpha,
    )?])
}

/// `softmax(query keyᵀ * scale, masked) value`, which are the pieces that this was made of: whatever sizes those broadcast
/// are right here, too.
fn attention(call: &Call<'_>) -> Outputs {
    let (query, value) = (call.input(0)?, call.input(2)?);
    let key: Tensor = match call.flag_or("key_transposed", false)? {
        true => call.input(1)?.transpose(-2, -1)?,
        false => call.input(1)?.clone(),
    };
    let mixed = match call.optional(5)? {
        None => attended(call, [query, &key, value], call.optional(3)?)?,
        Some(mask) => by_window(call, [query, &key, value], mask)?,
    };
    Ok(vec![mixed])
}

/// Attention whose scores, plus a bias, are parted into windows, to each of which a mask is added.
fn by_window(
    call: &Call<'_>,
    [query, key, value]: [&Tensor; 3],
    mask: &Tensor,
) -> Result<Tensor, NodeError> {
    let (bias, scale) = (call.optional(3)?, scale(call)?);
    let sizes = |name: &str| Ok::<_, NodeError>(call.attr_ints(name)?.unwrap_or_default());
    let (parted, joined) = (sizes("parted")?, sizes("joined")?);
    let plain_windows = match *parted {
        [_, windows, heads, rows, columns] if windows > 0 => {
            let has = |x: &Tensor, rows: i64| match x.shape() {
                &[batch, own, length, _] => {
                    batch as i64 % windows == 0 && [own as i64, length as i64] == [heads, rows]
                }
                _ => false,
            };
            let is_one = |bias: &Tensor| bias.rank() < 4 || bias.shape()[0] == 1;
            let fit = has(query, rows) && has(key, columns) && has(value, columns);
            (fit && bias.is_none_or(is_one)).then_some(windows)
        }
        _ => None,
    };
    let Some(windows) = plain_windows else {
        let scores = scores(query, key, scale)?;
        let scores = match bias {
            Some(bias) => scores.add(bias)?,
            None => scores,
        };
        let masked = scores.reshape(parted)?.add(mask)?.reshape(joined)?;
        let weights = clear(call, masked.softmax(-1)?)?;
        return Ok(weights.matmul(value)?);
    };
    let mask = match bias {
        Some(bias) => mask.add(bias)?,
        None => mask.clone(),
    };
    let mask = match is_cleared(call)? {
        true => mask,
        false => without_empty_rows(&mask)?,
    };
    let apart = |x: &Tensor| x.reshape(&with_batch(x, &[-1, windows]));
    let all = [&apart(query)?, &apart(key)?, &apart(value)?];
    let mixed = attended(call, all, Some(&mask))?;
    Ok(mixed.reshape(&with_batch(&mixed, &[-1]))?)
}

fn scale(call: &Call<'_>) -> Result<f64, NodeError> {
    Ok(match call.attr_tensor("scale")? {
        Some(scale) => scale.item::<f64>()?,
        None => 1.0,
    })
}

/// `query keyᵀ * scale`. Whichever is smaller is multiplied, lest a short type overflows.
fn scores(query: &Tensor, key: &Tensor, scale: f64) -> streampool_tensor::Result<Tensor> {
    let turned = key.transpose(-2, -1)?;
    match scale.abs() < 1.0 {
        true => query.mul(scale)?.matmul(&turned),
        false => query.matmul(&turned)?.mul(scale),
    }
}

/// Whether weights that are not a number are zero.
fn is_cleared(call: &Call<'_>) -> Result<bool, NodeError> {
    call.flag_or("empty_rows_are_zero", false)
}

/// Weights, of which those that are not a number become zero, if they are to.
fn clear(call: &Call<'_>, weights: Tensor) -> Result<Tensor, NodeError> {
    Ok(match is_cleared(call)? {
        true => weights.eq(&weights)?.where_cond(&weights, 0.0)?,
        false => weights,
    })
}

/// The shape of the last three axes of `x`, after these.
fn with_batch(x: &Tensor, batch: &[i64]) -> Vec<i64> {
    let last = x.shape().iter().skip(x.rank().saturating_sub(3));
    let last = last.map(|&size| size as i64);
    batch.iter().copied().chain(last).collect()
}

fn attended(
    call: &Call<'_>,
    [query, key, value]: [&Tensor; 3],
    mask: Option<&Tensor>,
) -> Result<Tensor, NodeError> {
    let (scale, fill) = (scale(call)?, call.optional(4)?);
    let where_true = call.flag_or("fill_where", true)?;
    if !fits(query, key, value, mask) {
        let scores = scores(query, key, scale)?;
        let masked = match (mask, fill) {
            (Some(mask), Some(fill)) if where_true => mask.where_cond(fill, &scores)?,
            (Some(mask), Some(fill)) => mask.where_cond(&scores, fill)?,
            (Some(mask), None) => scores.add(mask)?,
            (None, _) => scores,
        };
        let weights = clear(call, masked.softmax(-1)?)?;
        return Ok(weights.matmul(value)?);
    }
    let kept = match (mask, fill) {
        (Some(mask), Some(_)) if where_true => Some(mask.logical_not()?),
        (mask, _) => mask.cloned(),
    };
    let mixed = in_one_batch([query, key, value], kept.as_ref(), scale)?;
    let (Some(kept), true) = (&kept, fill.is_some()) else {
        return Ok(mixed);
    };
    // Where all scores are the same number, all values count alike; infinite ones leave NaN.
    let fill = call.optional_float(4)?.unwrap_or_default();
    let alike = match fill.is_finite() {
        true => shared(&value.mean(&[-2], true)?, query)?,
        // Zeros are what there are already.
        false if is_cleared(call)? => return Ok(mixed),
        false => call.constant(f64::NAN, value.dtype())?,
    };
    let some = kept.any(&[-1], true)?;
    Ok(some.where_cond(&mixed, &alike)?)
}

/// Attention, where all axes before the heads are one batch.
fn in_one_batch(
    [query, key, value]: [&Tensor; 3],
    mask: Option<&Tensor>,
    scale: f64,
) -> streampool_tensor::Result<Tensor> {
    let of = |query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>| {
        let options = AttentionOptions {
            mask,
            scale: Some(scale),
            ..AttentionOptions::default()
        };
        query.attention(key, value, &options)
    };
    let outer = query.rank().saturating_sub(3);
    if outer <= 1 {
        return of(query, key, value, mask);
    }
    let batch = &query.shape()[..outer];
    let joined = |x: &Tensor| x.flatten(0, outer as isize - 1);
    let mask = match mask {
        Some(mask) if mask.rank() > 3 => {
            let (own, last) = mask.shape().split_at(mask.rank() - 3);
            Some(match own.iter().all(|&size| size == 1) {
                true => mask.reshape(last)?,
                false => joined(&mask.broadcast_to(&[batch, last].concat())?)?,
            })
        }
        mask => mask.cloned(),
    };
    let mixed = of(
        &joined(query)?,
        &joined(key)?,
        &joined(value)?,
        mask.as_ref(),
    )?;
    let mut shape = query.shape().to_vec();
    if let (Some(last), Ok(width)) = (shape.last_mut(), value.dim(-1)) {
        *last = width;
    }
    mixed.reshape(&shape)
}

/// Whether these sizes are those of attention: batches are the same, heads are, or one of keys and values serves all.
fn fits(query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> bool {
    let (&[ref batch @ .., heads, queries, width], rank) = (query.shape(), query.rank()) else {
        return false;
    };
    let (
        &[ref of_key @ .., key_heads, keys, key_width],
        &[ref of_value @ .., value_heads, values, _],
    ) = (key.shape(), value.shape())
    else {
        return false;
    };
    let same = batch == of_key && batch == of_value && key_heads == value_heads;
    let meets = width == key_width && keys == values && keys > 0;
    let served = key_heads == heads || key_heads == 1;
    let scores = [batch, &[heads, queries, keys]].concat();
    let masked = mask.is_none_or(|mask| {
        let axes = mask.rank();
        let mut sizes = mask
            .shape()
            .iter()
            .zip(scores.iter().skip(rank - axes.min(rank)));
        (1..=rank).contains(&axes) && sizes.all(|(&own, &size)| own == size || own == 1)
    });
    rank >= 3 && same && meets && served && masked
}

/// One row for all queries, as large as what attention gives, as far as it does not broadcast.
fn shared(mean: &Tensor, query: &Tensor) -> streampool_tensor::Result<Tensor> {
    let mut sizes = query.shape().to_vec();
    let last = sizes.len() - 1;
    sizes[last] = mean.dim(-1)?;
    mean.broadcast_to(&sizes)
}

/// Rows times cosines, and rows whose second half is before the first and negated times sines.
fn rotary(call: &Call<'_>) -> Outputs {
    let (x, cos, sin) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (half, end) = (call.size_or("half", 0)?, call.size_or("end", 0)?);
    let width = x.dim(-1)?;
    let is_whole = |angles: &Tensor| angles.shape().last() == Some(&width);
    if width == 2 * half && is_whole(cos) && is_whole(sin) {
        let angles = [&by_pair(cos, false)?, &by_pair(sin, false)?];
        return Ok(vec![pairs_turned(call, x, angles, false)?]);
    }
    let (half, end) = (half.min(width), end.min(width));
    let second = x.narrow(-1, half, end.saturating_sub(half))?;
    let swapped = Tensor::cat(&[&second.neg()?, &x.narrow(-1, 0, half)?], -1)?;
    Ok(vec![x.mul(cos)?.add(&swapped.mul(sin)?)?])
}

/// In a shorter float type, where what is finite stays finite.
fn shorten(call: &Call<'_>) -> Outputs {
    let (x, to) = (call.input(0)?, call.attr_dtype("to")?);
    let (to, most) = match to {
        Some(DType::BF16) => (DType::BF16, bf16::MAX.to_f64()),
        _ => (DType::F16, f16::MAX.to_f64()),
    };
    let beyond = x.abs()?.gt(most)?.logical_and(&x.is_finite()?)?;
    let bounded = beyond.where_cond(&x.clamp(-most, most)?, x)?;
    Ok(vec![bounded.to_dtype(to)?])
}

/// A norm, times a scale, plus a bias. Unlike those of ONNX's norms, they may broadcast what is normalised.
fn norm(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (axis, epsilon) = (call.axis_or("axis", -1)?, call.float_or("epsilon", 1e-5)?);
    let (scale, bias) = (call.input(1)?, call.optional(2)?);
    let normalised = &x.shape()[resolve(axis, x.rank())?..];
    let within = |tensor: &Tensor| match tensor.broadcast_to(normalised) {
        Ok(own) if own.dtype() == x.dtype() => Some(own),
        _ => None,
    };
    let layer = call.op() == "LayerNormalization";
    let of = |scale: Option<&Tensor>, bias: Option<&Tensor>| match layer {
        true => x.layer_norm(axis, scale, bias, epsilon),
        false => x.rms_norm(axis, scale, epsilon),
    };
    let own_bias = bias.map(within);
    if let (Some(scale), false) = (
        within(scale),
        own_bias.as_ref().is_some_and(Option::is_none),
    ) {
        return Ok(vec![of(Some(&scale), own_bias.flatten().as_ref())?]);
    }
    let scaled = of(None, None)?.mul(scale)?;
    Ok(vec![match bias {
        Some(bias) => scaled.add(bias)?,
        None => scaled,
    }])
}

fn empty_rows(call: &Call<'_>) -> Outputs {
    Ok(vec![without_empty_rows(call.input(0)?)?])
}

/// A mask that is added; NaN in rows of negative infinity alone, of which a softmax makes that.
fn without_empty_rows(mask: &Tensor) -> Result<Tensor, NodeError> {
    if mask.elem_count() == 0 {
        return Ok(mask.clone());
    }
    let most = match mask.rank() {
        0 => mask.clone(),
        _ => mask.max(&[-1], true)?,
    };
    let empty = most.eq(f64::NEG_INFINITY)?;
    Ok(empty.where_cond(f64::NAN, mask)?)
}
