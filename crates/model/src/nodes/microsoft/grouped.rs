//! Attention in which neighbouring heads share keys and values, over a cache.

use streampool_tensor::{AttentionOptions, DType, Padding, Tensor};

use super::super::call::{Call, Operator, Outputs, size};
use super::super::heads::{by_head, packed, turned};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "GroupQueryAttention" => attention,
        _ => return None,
    })
}

fn attention(call: &Call<'_>) -> Outputs {
    let (heads, key_heads) = (
        call.size_or("num_heads", 0)?,
        call.size_or("kv_num_heads", 0)?,
    );
    let [mut query, mut key, value] = separate(call, heads, key_heads)?;
    let epsilon = call.float_or("qk_norm_epsilon", 1e-6)?;
    for (part, weight, name) in [
        (&mut query, 14, "q_norm_epsilon"),
        (&mut key, 15, "k_norm_epsilon"),
    ] {
        if let Some(weight) = call.optional(weight)? {
            *part = part.rms_norm(-1, Some(weight), call.float_or(name, epsilon)?)?;
        }
    }
    let (batch, queries) = (query.dim(0)?, query.dim(2)?);
    // Each sequence's new part stands behind what came before, however long that is.
    let last = call.input(5)?.to_dtype(DType::I64)?.reshape(&[batch, 1])?;
    let first = last.add(1 - queries as i64)?.maximum(0)?;
    let steps = call.counted(queries, DType::I64)?;
    let places = first.add(&steps)?;
    if call.flag_or("do_rotary", false)? {
        let positions = match call.optional(9)? {
            Some(positions) => positions.to_dtype(DType::I64)?,
            None => places.clone(),
        };
        let interleaved = call.flag_or("rotary_interleaved", false)?;
        let angles = |place| -> Result<Tensor, NodeError> {
            Ok(call
                .input(place)?
                .index_select(0, &positions)?
                .unsqueeze(1)?)
        };
        let (cos, sin) = (angles(7)?, angles(8)?);
        let rotated = 2 * cos.dim(-1)?;
        query = turned(&query, &cos, &sin, rotated, interleaved)?;
        key = turned(&key, &cos, &sin, rotated, interleaved)?;
    }
    let total = size("the total sequence length", call.int(6)?)?;
    let key = cached(call.optional(3)?, &key, &places, total)?;
    let value = cached(call.optional(4)?, &value, &places, total)?;
    let keys = key.dim(2)?;
    let columns = call.counted(keys, DType::I64)?;
    let rows = match call.flag_or("causal", true)? {
        true => places.reshape(&[batch, 1, queries, 1])?,
        false => last.reshape(&[batch, 1, 1, 1])?,
    };
    let mut seen = columns.le(&rows)?;
    let window = call.int_or("local_window_size", -1)?;
    if window > 0 {
        seen = seen.logical_and(&columns.gt(&rows.sub(window)?)?)?;
    }
    let mut mask = match call.optional(10)? {
        Some(bias) => {
            let bias = bias.narrow(3, 0, keys.min(bias.dim(3)?))?;
            let outside = bias.full_like(f64::NEG_INFINITY)?;
            seen.where_cond(&bias, &outside)?
        }
        None => seen,
    };
    let (mut keys_and_sink, mut values_and_sink) = (key.clone(), value.clone());
    let sink = match call.optional(11)? {
        Some(sink) => Some(sink.reshape(&[1, heads, 1, 1])?),
        None if call.flag_or("smooth_softmax", false)? => {
            Some(Tensor::zeros(query.pool(), &[1, 1, 1, 1], query.dtype())?)
        }
        None => None,
    };
    if let Some(sink) = sink {
        // One more key, with no value, whose weight is that of the sink.
        let one_more = |x: &Tensor| {
            x.pad(
                &[(0, 0), (0, 0), (0, 1), (0, 0)],
                Padding::Constant(0.into()),
            )
        };
        keys_and_sink = one_more(&key)?;
        values_and_sink = one_more(&value)?;
        if mask.dtype() == DType::Bool {
            let zero = Tensor::zeros(query.pool(), &[1], query.dtype())?;
            mask = mask.where_cond(&zero, f64::NEG_INFINITY)?;
        }
        let shape = [batch, heads, queries];
        let own = mask.broadcast_to(&[&shape[..], &[keys]].concat())?;
        let sink = sink.broadcast_to(&[&shape[..], &[1]].concat())?;
        mask = Tensor::cat(&[&own, &sink], 3)?;
    }
    let options = AttentionOptions {
        mask: Some(&mask),
        scale: call.attr_float("scale")?.filter(|&scale| scale != 0.0),
        softcap: call.float_or("softcap", 0.0)?,
        ..AttentionOptions::default()
    };
    let mixed = query.attention(&keys_and_sink, &values_and_sink, &options)?;
    Ok(vec![packed(&mixed)?, key, value])
}

/// Query, key and value by head; they may all be in the first input.
fn separate(call: &Call<'_>, heads: usize, key_heads: usize) -> Result<[Tensor; 3], NodeError> {
    let query = call.input(0)?;
    if call.has_input(1) {
        let (key, value) = (call.input(1)?, call.input(2)?);
        return Ok([
            by_head(query, heads)?,
            by_head(key, key_heads)?,
            by_head(value, key_heads)?,
        ]);
    }
    let all = heads + 2 * key_heads;
    let by_head = by_head(query, all)?;
    Ok([
        by_head.narrow(1, 0, heads)?,
        by_head.narrow(1, heads, key_heads)?,
        by_head.narrow(1, heads + key_heads, key_heads)?,
    ])
}

/// A cache, made at least `total` long, with `new` put at each sequence's `places`.
fn cached(
    past: Option<&Tensor>,
    new: &Tensor,
    places: &Tensor,
    total: usize,
) -> Result<Tensor, NodeError> {
    let places = places
        .reshape(&[places.dim(0)?, 1, places.dim(1)?, 1])?
        .broadcast_to(new.shape())?;
    let buffer = match past {
        Some(past) => {
            let missing = total.saturating_sub(past.dim(2)?) as isize;
            past.pad(
                &[(0, 0), (0, 0), (0, missing), (0, 0)],
                Padding::Constant(0.into()),
            )?
        }
        None => {
            let shape = [
                new.dim(0)?,
                new.dim(1)?,
                total.max(new.dim(2)?),
                new.dim(3)?,
            ];
            Tensor::zeros(new.pool(), &shape, new.dtype())?
        }
    };
    Ok(buffer.scatter(2, &places, new)?)
}
