//! Attention with its projection, and of many heads.

use streampool_tensor::{Activation, AttentionOptions, Tensor};

use super::super::call::{Call, Operator, Outputs, size};
use super::super::heads::{after, by_head, packed, turned};
use super::mask::{self, Extent};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Attention" => attention,
        "MultiHeadAttention" => multi_head,
        "RotaryEmbedding" => rotary,
        _ => return None,
    })
}

/// Three sizes of a packed axis: as they are listed, or thirds.
fn thirds(call: &Call<'_>, whole: usize) -> Result<[usize; 3], NodeError> {
    Ok(match call.attr_ints("qkv_hidden_sizes")? {
        None | Some([]) => [whole / 3; 3],
        Some(&[query, key, value]) => {
            let part = |value| size("attribute qkv_hidden_sizes", value);
            [part(query)?, part(key)?, part(value)?]
        }
        Some(other) => {
            let what = "attribute qkv_hidden_sizes";
            return Err(NodeError::malformed(
                what,
                format_args!("{other:?}"),
                "three sizes",
            ));
        }
    })
}

fn attention(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let sum = x.matmul_with(call.input(1)?, call.optional(2)?, Activation::None, 1.0)?;
    projected(call, &sum, 4, (3, 5))
}

/// Attention over query, key and value side by side; `places` are those of mask and bias.
pub fn projected(
    call: &Call<'_>,
    projected: &Tensor,
    past: usize,
    places: (usize, usize),
) -> Outputs {
    let heads = call.size_or("num_heads", 0)?;
    let parts = projected.split_sizes(-1, &thirds(call, projected.dim(-1)?)?)?;
    let [query, key, value] = &parts[..] else {
        return Err(NodeError::unsupported(
            "a projection that is not of three parts",
        ));
    };
    let past = call.optional(past)?;
    let half = |place| past.map(|past| past.select(0, place)).transpose();
    let key = after(half(0)?.as_ref(), by_head(key, heads)?)?;
    let value = after(half(1)?.as_ref(), by_head(value, heads)?)?;
    let (mixed, key, value) = attended(call, &by_head(query, heads)?, key, value, places)?;
    let mut outputs = vec![mixed];
    if call.wants(1) {
        outputs.push(Tensor::stack(&[&key, &value], 0)?);
    }
    Ok(outputs)
}

fn multi_head(call: &Call<'_>) -> Outputs {
    let heads = call.size_or("num_heads", 0)?;
    if call.has_input(8) || call.has_input(9) {
        return Err(NodeError::unsupported(
            "a buffer that past and present share",
        ));
    }
    let [query, key, value] = separate(call)?;
    let [query, key, value] = biased(call, [query, key, value], heads)?;
    let (query, key, value) = (
        by_head(&query, heads)?,
        by_head(&key, heads)?,
        by_head(&value, heads)?,
    );
    let key = after(call.optional(6)?, key)?;
    let value = after(call.optional(7)?, value)?;
    let (mixed, key, value) = attended(call, &query, key, value, (4, 5))?;
    Ok(vec![mixed, key, value])
}

/// Query, key and value, each packed or by head.
fn separate(call: &Call<'_>) -> Result<[Tensor; 3], NodeError> {
    // `[batch, length, heads, which, width]`, of each the tensors by head.
    let part = |packed: &Tensor, which| -> Result<Tensor, NodeError> {
        Ok(packed.select(3, which)?.transpose(1, 2)?)
    };
    let query = call.input(0)?;
    if query.rank() == 5 {
        return Ok([part(query, 0)?, part(query, 1)?, part(query, 2)?]);
    }
    let key = call.input(1)?;
    if key.rank() == 5 {
        return Ok([query.clone(), part(key, 0)?, part(key, 1)?]);
    }
    Ok([query.clone(), key.clone(), call.input(2)?.clone()])
}

/// With the part of the bias that is each one's added; keys and values that come by head have theirs already.
fn biased(call: &Call<'_>, parts: [Tensor; 3], heads: usize) -> Result<[Tensor; 3], NodeError> {
    let Some(bias) = call.optional(3)? else {
        return Ok(parts);
    };
    let finished = call.has_input(1) && call.input(1)?.rank() == 4;
    let mut first = 0;
    let mut added = Vec::new();
    for part in &parts {
        if finished && !added.is_empty() {
            added.push(part.clone());
            continue;
        }
        let features = match part.rank() {
            3 => part.dim(2)?,
            _ => heads * part.dim(-1)?,
        };
        let own = bias.narrow(0, first, features)?;
        first += features;
        added.push(match part.rank() {
            3 => part.add(&own)?,
            _ => part.add(&own.reshape(&[heads, 1, features / heads.max(1)])?)?,
        });
    }
    <[Tensor; 3]>::try_from(added)
        .map_err(|_| NodeError::unsupported("a bias of other than three parts"))
}

/// The mix of values, packed, and all keys and values there are. `places` are those of mask and bias.
fn attended(
    call: &Call<'_>,
    query: &Tensor,
    key: Tensor,
    value: Tensor,
    places: (usize, usize),
) -> Result<(Tensor, Tensor, Tensor), NodeError> {
    let (queries, keys) = (query.dim(2)?, key.dim(2)?);
    let extent = Extent {
        batch: query.dim(0)?,
        queries,
        keys,
        past: keys.saturating_sub(queries),
    };
    let mask = mask::added(call, places, extent, query.dtype())?;
    let options = AttentionOptions {
        mask: mask.as_ref(),
        causal: call.flag_or("unidirectional", false)?,
        past: extent.past,
        scale: call.attr_float("scale")?.filter(|&scale| scale != 0.0),
        ..AttentionOptions::default()
    };
    let mixed = query.attention(&key, &value, &options)?;
    Ok((packed(&mixed)?, key, value))
}

fn rotary(call: &Call<'_>) -> Outputs {
    let (x, cos, sin) = (call.input(0)?, call.input(2)?, call.input(3)?);
    let rotated = call.size_or("rotary_embedding_dim", 0)?;
    let own = match (call.size_or("num_heads", 0)?, x.shape()) {
        // A cache for whole heads says how wide they are.
        (0, &[_, _, features]) => features / (2 * cos.dim(1)?).max(1),
        (heads, _) => heads,
    };
    let heads = by_head(x, own)?;
    let length = heads.dim(2)?;
    let positions = positions(call, length)?;
    let angles = |cache: &Tensor| cache.index_select(0, &positions)?.unsqueeze(1);
    let interleaved = call.flag_or("interleaved", false)?;
    let scale = call.float_or("scale", 1.0)?;
    let mut y = turned(
        call,
        &heads,
        [&angles(cos)?, &angles(sin)?],
        rotated,
        interleaved,
    )?;
    if scale != 1.0 {
        y = y.mul(scale)?;
    }
    Ok(vec![if x.rank() == 3 { packed(&y)? } else { y }])
}

/// `[batch, length]` positions; where only the first is given, `[1, length]` from that on.
fn positions(call: &Call<'_>, length: usize) -> Result<Tensor, NodeError> {
    let given = call.input(1)?;
    if given.rank() == 2 {
        return Ok(given.clone());
    }
    let places = call.counted(length, given.dtype())?;
    Ok(places.add(&given.reshape::<usize>(&[])?)?.unsqueeze(0)?)
}
