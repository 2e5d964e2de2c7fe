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
    let first = match call.optional(16)? {
        Some(counts) => {
            let counts = counts.to_dtype(DType::I64)?.reshape(&[batch, 1])?;
            last.add(1)?.sub(&counts)?
        }
        None => last.add(1 - queries as i64)?.maximum(0)?,
    };
    let steps = call.counted(queries, DType::I64)?;
    let places = first.add(&steps)?;
    if call.flag_or("do_rotary", false)? {
        let positions = match call.optional(9)? {
            Some(positions) => positions.to_dtype(DType::I64)?,
            // Rows that are no words may lie behind all that are known.
            None if call.has_input(16) => places.minimum(call.input(7)?.dim(0)? as i64 - 1)?,
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
        query = turned(call, &query, [&cos, &sin], rotated, interleaved)?;
        key = turned(call, &key, [&cos, &sin], rotated, interleaved)?;
    }
    let window = call.int_or("local_window_size", -1)?;
    let is_windowed = call.flag_or("sliding_window_cache", false)?;
    let pasts = [call.optional(3)?, call.optional(4)?];
    let (read, presents, columns, there) = match is_windowed {
        true => {
            let times = Times {
                first: &first,
                last: &last,
                places: &places,
            };
            let cache = windowed(call, pasts, [&key, &value], &times, window)?;
            (cache.read, cache.presents, cache.columns, Some(cache.there))
        }
        false => {
            let total = size("the total sequence length", call.int(6)?)?;
            // Rows that are no words may lie behind all others.
            let spare = if call.has_input(16) { queries } else { 0 };
            let made = |past, new| cached(past, new, &places, (total, spare));
            let presents = [made(pasts[0], &key)?, made(pasts[1], &value)?];
            let columns = call.counted(presents[0].dim(2)?, DType::I64)?;
            (presents.clone(), presents, columns, None)
        }
    };
    let [key, value] = read;
    let keys = key.dim(2)?;
    let rows = match call.flag_or("causal", true)? {
        true => places.reshape(&[batch, 1, queries, 1])?,
        false => last.reshape(&[batch, 1, 1, 1])?,
    };
    let mut seen = columns.le(&rows)?;
    if window > 0 {
        seen = seen.logical_and(&columns.gt(&rows.sub(window)?)?)?;
    }
    if let Some(there) = &there {
        seen = seen.logical_and(there)?;
    }
    let mut mask = match call.optional(10)? {
        Some(bias) => {
            let bias = match is_windowed {
                true => of_columns(bias, &columns)?,
                false => bias.narrow(3, 0, keys.min(bias.dim(3)?))?,
            };
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
    let [key, value] = presents;
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

/// Of each sequence, in `i64`: how many words came before, how many there are but one, and where the new ones stand.
struct Times<'a> {
    first: &'a Tensor,
    last: &'a Tensor,
    places: &'a Tensor,
}

/// Keys and values over a cache that holds just the last of them.
struct Windowed {
    /// What the queries look at: the cache as it was, and the new ones.
    read: [Tensor; 2],
    /// The cache as it is left.
    presents: [Tensor; 2],
    /// Where the words of what is read stand.
    columns: Tensor,
    /// Whether there are such words.
    there: Tensor,
}

/// Has `new` follow what a cache of a window holds. Its first rows are the latest words in their order; as many as the cache has
/// more than the window needs go at once when it is full.
fn windowed(
    call: &Call<'_>,
    pasts: [Option<&Tensor>; 2],
    new: [&Tensor; 2],
    times: &Times<'_>,
    window: i64,
) -> Result<Windowed, NodeError> {
    let Times {
        first,
        last,
        places,
    } = *times;
    let [Some(past_key), Some(past_value)] = pasts else {
        let expected = "one as long as the window";
        return Err(NodeError::malformed("the cache", "left out", expected));
    };
    let capacity = past_key.dim(2)?;
    let length = capacity as i64;
    if window < 1 || length < window || past_value.dim(2)? != capacity {
        let expected = format_args!("at least the window, {window}, which has to be above zero");
        let what = "the length of the cache of a window";
        return Err(NodeError::malformed(what, capacity, expected));
    }
    let at_once = length - window + 1;
    // How many of so many words the cache holds.
    let held = |count: &Tensor| -> Result<Tensor, NodeError> {
        let beyond = count.sub(length)?.maximum(0)?;
        let gone = beyond.add(at_once - 1)?.div(at_once)?.mul(at_once)?;
        Ok(count.sub(&gone)?)
    };
    let rows = call.counted(capacity, DType::I64)?;
    let before = held(first)?;
    let oldest = first.sub(&before)?;
    let columns = Tensor::cat(&[&oldest.add(&rows)?, places], 1)?;
    let there = Tensor::cat(&[&rows.lt(&before)?, &places.le(last)?], 1)?;
    let count = last.add(1)?;
    let kept = count.sub(&held(&count)?)?.add(&rows)?;
    let places_read = kept.sub(&oldest)?;
    let is_new = kept.ge(first)?;
    let from = is_new.where_cond(&kept.sub(first)?.add(length)?, &places_read)?;
    let all = columns.dim(1)?;
    // What lies behind the words is of no use.
    let from = from.maximum(0)?.minimum(all as i64 - 1)?;
    let batch = from.dim(0)?;
    let from = from.reshape(&[batch, 1, capacity, 1])?;
    let of = |past: &Tensor, new: &Tensor| -> Result<[Tensor; 2], NodeError> {
        let read = Tensor::cat(&[past, new], 2)?;
        let shape = past.shape().to_vec();
        let present = read.gather(2, &from.broadcast_to(&shape)?)?;
        Ok([read, present])
    };
    let [key, present_key] = of(past_key, new[0])?;
    let [value, present_value] = of(past_value, new[1])?;
    Ok(Windowed {
        read: [key, value],
        presents: [present_key, present_value],
        columns: columns.reshape(&[batch, 1, 1, all])?,
        there: there.reshape(&[batch, 1, 1, all])?,
    })
}

/// Of a bias for all words, the columns of these.
fn of_columns(bias: &Tensor, columns: &Tensor) -> Result<Tensor, NodeError> {
    let most = bias.dim(3)? as i64 - 1;
    let columns = columns.maximum(0)?.minimum(most)?;
    let (batch, keys) = (columns.dim(0)?, columns.dim(3)?);
    let (heads, queries) = (bias.dim(1)?, bias.dim(2)?);
    let columns = columns.broadcast_to(&[batch, heads, queries, keys])?;
    let bias = bias.broadcast_to(&[batch, heads, queries, bias.dim(3)?])?;
    Ok(bias.gather(3, &columns)?)
}

/// A cache, made at least `total` long, with `new` put at each sequence's `places`. These may go beyond it by up to `spare`, which
/// are left out.
fn cached(
    past: Option<&Tensor>,
    new: &Tensor,
    places: &Tensor,
    (total, spare): (usize, usize),
) -> Result<Tensor, NodeError> {
    let places = places
        .reshape(&[places.dim(0)?, 1, places.dim(1)?, 1])?
        .broadcast_to(new.shape())?;
    let buffer = match past {
        Some(past) => {
            let missing = (total.saturating_sub(past.dim(2)?) + spare) as isize;
            past.pad(
                &[(0, 0), (0, 0), (0, missing), (0, 0)],
                Padding::Constant(0.into()),
            )?
        }
        None => {
            let shape = [
                new.dim(0)?,
                new.dim(1)?,
                total.max(new.dim(2)?) + spare,
                new.dim(3)?,
            ];
            Tensor::zeros(new.pool(), &shape, new.dtype())?
        }
    };
    let made = buffer.scatter(2, &places, new)?;
    match spare {
        0 => Ok(made),
        _ => Ok(made.narrow(2, 0, made.dim(2)? - spare)?),
    }
}
