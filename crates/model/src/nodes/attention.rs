//! Attention, its linear kin, and the rotation that goes before it.

use streampool_tensor::room::room;
use streampool_tensor::{AttentionOptions, DType, Padding, Scalar, Tensor};

use super::call::{Call, Operator, Outputs, parts};
use super::heads::{after, by_head, packed, seen, turned};
use crate::error::NodeError;
use crate::onnx;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Attention" => attention,
        "RotaryEmbedding" => rotary_embedding,
        "LinearAttention" => linear_attention,
        _ => return None,
    })
}

fn attention(call: &Call<'_>) -> Outputs {
    let heads = call.size_or("q_num_heads", 0)?;
    let key_heads = call.size_or("kv_num_heads", 0)?;
    for (place, name) in [(0, "q_num_heads"), (1, "kv_num_heads")] {
        let &[_, own, _, _] = call.input(place)?.shape() else {
            continue;
        };
        let said = call.size_or(name, own)?;
        if said != own {
            let expected = format!("{own}, as of input {place}");
            return Err(NodeError::malformed(
                format_args!("attribute {name}"),
                said,
                expected,
            ));
        }
    }
    let query = by_head(call.input(0)?, heads)?;
    let with_past = |place: usize, past: usize| -> Result<Tensor, NodeError> {
        after(
            call.optional(past)?,
            by_head(call.input(place)?, key_heads)?,
        )
    };
    let (key, value) = (with_past(1, 4)?, with_past(2, 5)?);
    let keys = key.dim(2)?;
    let typed = value.to_dtype(query.dtype())?;
    let mut mask = mask(call, keys, query.dtype())?;
    let mut causal = call.flag_or("is_causal", false)?;
    if let Some(inside) = window(call, query.dim(2)?, keys, causal)? {
        // It includes what is causal.
        causal = false;
        mask = Some(within(call, mask, inside, query.dtype())?);
    }
    let width = query.dim(3)?.max(1) as f64;
    let scale = call.float_or("scale", 1.0 / width.sqrt())?;
    // Its root is taken, of which each side gets one.
    if scale.is_nan() || scale <= 0.0 {
        return Err(NodeError::malformed("attribute scale", scale, "positive"));
    }
    let options = AttentionOptions {
        mask: mask.as_ref(),
        causal,
        past: match call.optional(4)? {
            Some(past) => past.dim(2)?,
            None => 0,
        },
        scale: Some(scale),
        softcap: call.float_or("softcap", 0.0)?,
    };
    let mixed = query.attention(&key, &typed, &options)?;
    let mixed = if call.input(0)?.rank() == 3 {
        packed(&mixed)?
    } else {
        mixed
    };
    if !call.wants(3) {
        return Ok(vec![mixed, key, value]);
    }
    let scores = scores(call, &query, &key, &options)?;
    Ok(vec![mixed, key, value, scores])
}

/// The mask, with what is beyond it and beyond each sequence's length left out.
fn mask(call: &Call<'_>, keys: usize, dtype: DType) -> Result<Option<Tensor>, NodeError> {
    let mut mask = match call.optional(3)? {
        Some(mask) if mask.dtype() != DType::Bool => Some(mask.to_dtype(dtype)?),
        mask => mask.cloned(),
    };
    if let Some(short) = mask
        .as_mut()
        .filter(|mask| mask.shape().last() != Some(&keys))
    {
        let missing = keys as isize - short.dim(-1)? as isize;
        let mut amounts = vec![(0, 0); short.rank()];
        amounts[short.rank() - 1] = (0, missing);
        let outside = match short.dtype() {
            DType::Bool => Scalar::Bool(false),
            _ => Scalar::Float(f64::NEG_INFINITY),
        };
        *short = short.pad(&amounts, Padding::Constant(outside))?;
    }
    let Some(lengths) = call.optional(6)? else {
        return Ok(mask);
    };
    let places = call.counted(keys, lengths.dtype())?;
    let inside = places.lt(&lengths.unsqueeze(1)?)?;
    let inside = inside.reshape(&[lengths.elem_count(), 1, 1, keys])?;
    within(call, mask, inside, dtype).map(Some)
}

/// A mask, but nothing that is not inside.
fn within(
    call: &Call<'_>,
    mask: Option<Tensor>,
    inside: Tensor,
    dtype: DType,
) -> Result<Tensor, NodeError> {
    match mask {
        None => Ok(inside),
        Some(mask) if mask.dtype() == DType::Bool => Ok(mask.logical_and(&inside)?),
        Some(mask) => {
            let outside = call.constant(f64::NEG_INFINITY, dtype)?;
            Ok(inside.where_cond(&mask, &outside)?)
        }
    }
}

/// Which keys are in reach of each query, where that is not causal alone, counted from a start that all share.
fn window(
    call: &Call<'_>,
    queries: usize,
    keys: usize,
    causal: bool,
) -> Result<Option<Tensor>, NodeError> {
    let bound = |name: &str| -> Result<Option<i64>, NodeError> {
        match call.int_or(name, -1)? {
            -1 => Ok(None),
            bound @ 0.. => Ok(Some(bound)),
            other => Err(NodeError::malformed(name, other, "-1 or more")),
        }
    };
    let (left, right) = (bound("left_window_size")?, bound("right_window_size")?);
    let lengths = call.optional(6)?;
    let unbounded = left.is_none() && right.is_none();
    if unbounded && !(causal && lengths.is_some()) {
        return Ok(None);
    }
    let mut own = call.counted(queries, DType::I64)?.reshape(&[queries, 1])?;
    if let Some(past) = call.optional(4)? {
        own = own.add(i64::try_from(past.dim(2)?).unwrap_or(i64::MAX))?;
    } else if let Some(lengths) = lengths {
        let before = lengths.to_dtype(DType::I64)?.sub(queries as i64)?;
        own = own.add(&before.reshape(&[lengths.elem_count(), 1, 1, 1])?)?;
    }
    let places = call.counted(keys, DType::I64)?;
    // Bounds beyond all keys are none.
    let most = i64::try_from(keys.saturating_add(queries)).unwrap_or(i64::MAX);
    let mut inside = places.ge(&own.sub(left.map_or(i64::MAX / 4, |left| left.min(most)))?)?;
    let after = match (causal, right) {
        (true, _) => Some(0),
        (false, right) => right.map(|right| right.min(most)),
    };
    if let Some(after) = after {
        inside = inside.logical_and(&places.le(&own.add(after)?)?)?;
    }
    Ok(Some(inside))
}

/// What the softmax is taken of, or one of the steps on the way.
fn scores(
    call: &Call<'_>,
    query: &Tensor,
    key: &Tensor,
    options: &AttentionOptions<'_>,
) -> Result<Tensor, NodeError> {
    let repeats = query.dim(1)? / key.dim(1)?.max(1);
    let key = key.repeat_interleave(repeats, 1)?;
    // Half of the scale to each side, so that neither grows large.
    let scale = options.scale.unwrap_or(1.0).sqrt();
    let products = query
        .mul(scale)?
        .matmul(&key.mul(scale)?.transpose(2, 3)?)?;
    let mode = call.int_or("qk_matmul_output_mode", 0)?;
    if mode == 0 {
        return Ok(products);
    }
    let capped = match options.softcap {
        0.0 => products,
        cap => products.div(cap)?.tanh()?.mul(cap)?,
    };
    if mode == 1 {
        return Ok(capped);
    }
    let mut masked = capped;
    let outside = call.constant(f64::NEG_INFINITY, masked.dtype())?;
    if let Some(mask) = options.mask {
        masked = match mask.dtype() {
            DType::Bool => mask.where_cond(&masked, &outside)?,
            _ => masked.add(mask)?,
        };
    }
    if options.causal {
        let (queries, keys) = (masked.dim(2)?, masked.dim(3)?);
        let seen = call.lift(&seen(call.known_pool(), queries, keys, options.past)?)?;
        masked = seen.where_cond(&masked, &outside)?;
    }
    match mode {
        2 => Ok(masked),
        3 => {
            let precision = call.attr_int("softmax_precision")?;
            let dtype = precision.map_or(Ok(masked.dtype()), onnx::dtype)?;
            let weights = masked.to_dtype(dtype)?.softmax(-1)?;
            let weights = weights.to_dtype(masked.dtype())?;
            if masked.elem_count() == 0 {
                return Ok(weights);
            }
            // Where nothing is left, nothing counts.
            let empty = masked.max(&[-1], true)?.eq(f64::NEG_INFINITY)?;
            Ok(empty.where_cond(0.0, &weights)?)
        }
        other => Err(call.unknown("qk_matmul_output_mode", other)),
    }
}

fn rotary_embedding(call: &Call<'_>) -> Outputs {
    let input = call.input(0)?;
    let x = by_head(input, call.size_or("num_heads", 0)?)?;
    let cache = |place: usize| -> Result<Tensor, NodeError> {
        let cache = call.input(place)?;
        let picked = match call.optional(3)? {
            Some(positions) => cache.index_select(0, positions)?,
            None => cache.clone(),
        };
        Ok(picked.unsqueeze(1)?)
    };
    let (cos, sin) = (cache(1)?, cache(2)?);
    let rotated = call.size_or("rotary_embedding_dim", 0)?;
    let y = turned(
        call,
        &x,
        [&cos, &sin],
        rotated,
        call.flag_or("interleaved", false)?,
    )?;
    Ok(vec![if input.rank() == 3 { packed(&y)? } else { y }])
}

/// Attention without a softmax: a state for each head is updated step by step, and each query reads it.
fn linear_attention(call: &Call<'_>) -> Outputs {
    let heads = call.size_or("q_num_heads", 0)?;
    let key_heads = call.size_or("kv_num_heads", 0)?;
    let (query, dtype) = (by_head(call.input(0)?, heads)?, call.input(0)?.dtype());
    let wide = |tensor: Tensor| {
        tensor.to_dtype(if dtype == DType::F64 {
            dtype
        } else {
            DType::F32
        })
    };
    let key = wide(by_head(call.input(1)?, key_heads)?)?;
    let value = wide(by_head(call.input(2)?, key_heads)?)?;
    let scale = match call.float_or("scale", 0.0)? {
        0.0 => 1.0 / (query.dim(3)?.max(1) as f64).sqrt(),
        scale => scale,
    };
    let rule = call.string_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(call.unknown("update_rule", other)),
    };
    let (batch, steps) = (key.dim(0)?, parts("the number of steps", key.dim(2)?)?);
    let (width, value_width) = (key.dim(3)?, value.dim(3)?);
    let mut state = match call.optional(3)? {
        Some(past) => wide(past.clone())?,
        None => Tensor::zeros(
            call.pool(),
            &[batch, key_heads, width, value_width],
            key.dtype(),
        )?,
    };
    let decay = gated
        .then(|| by_head(call.input(4)?, key_heads))
        .transpose()?;
    let decay = decay.map(|decay| wide(decay)?.exp()).transpose()?;
    let rate = delta
        .then(|| -> Result<Tensor, NodeError> {
            let rate = call.input(5)?;
            let own = rate.dim(2)?;
            wide(by_head(rate, own)?).map_err(NodeError::from)
        })
        .transpose()?;
    let shared = heads / key_heads.max(1);
    let query = wide(query)?.reshape(&[batch, key_heads, shared, steps, width])?;
    let mut made = room(steps)?;
    for step in 0..steps {
        // `[batch, heads, width, 1]` and `[batch, heads, 1, width]`.
        let row = key.narrow(2, step, 1)?;
        let column = row.transpose(2, 3)?;
        if let Some(decay) = &decay {
            state = state.mul(&decay.narrow(2, step, 1)?.transpose(2, 3)?)?;
        }
        let mut update = value.narrow(2, step, 1)?;
        if let Some(rate) = &rate {
            let known = row.matmul(&state)?;
            update = update.sub(&known)?.mul(&rate.narrow(2, step, 1)?)?;
        }
        state = state.add(&column.matmul(&update)?)?;
        made.push(query.select(3, step as isize)?.matmul(&state)?);
    }
    let made: Vec<&Tensor> = made.iter().collect();
    // `[batch, key heads, shared, steps, width]`
    let out = Tensor::stack(&made, 3)?.mul(scale)?.to_dtype(dtype)?;
    let out = packed(&out.reshape(&[batch, heads, steps, value_width])?)?;
    let kept = call.optional(3)?.map_or(dtype, Tensor::dtype);
    Ok(vec![out, state.to_dtype(kept)?])
}
