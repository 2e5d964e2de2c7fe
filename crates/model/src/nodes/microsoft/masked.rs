//! One step of attention over a cache that has room for all steps.

use streampool_tensor::{AttentionOptions, DType, Tensor};

use super::super::call::{Call, Operator, Outputs, size};
use super::super::heads::{by_head, packed};
use super::mask::{self, Extent};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "DecoderMaskedMultiHeadAttention" => attention,
        _ => return None,
    })
}

fn attention(call: &Call<'_>) -> Outputs {
    let heads = call.size_or("num_heads", 0)?;
    let part = |place: usize| -> Result<Tensor, NodeError> {
        let x = call.input(place)?;
        let features = x.dim(-1)?;
        let x = match call.optional(10)? {
            Some(bias) if x.rank() == 3 => x.add(&bias.narrow(0, place * features, features)?)?,
            _ => x.clone(),
        };
        by_head(&x, heads)
    };
    let (query, key, value) = (part(0)?, part(1)?, part(2)?);
    let batch = query.dim(0)?;
    let past = match call.optional_int(7)? {
        Some(past) => size("the past sequence length", past)?,
        None => 0,
    };
    let beams = match call.optional_int(8)? {
        Some(beams) => size("the number of beams", beams)?.max(1),
        None => 1,
    };
    // The cache with what is new in its place, and the part of it that counts.
    let filled = |cache: usize, new: Tensor| -> Result<[Tensor; 2], NodeError> {
        let Some(cache) = call.optional(cache)? else {
            return Ok([new.clone(), new]);
        };
        let room = cache.dim(2)?;
        if past >= room {
            let expected = format!("less than {room}, as the cache has room for");
            return Err(NodeError::malformed(
                "the past sequence length",
                past,
                expected,
            ));
        }
        let before = cache.narrow(2, 0, past)?;
        let behind = cache.narrow(2, past + 1, room - past - 1)?;
        let whole = Tensor::cat(&[&before, &new, &behind], 2)?;
        let before = match call.optional(9)? {
            Some(sources) if beams > 1 => {
                // Of which beam each step was.
                let sources = sources.to_dtype(DType::I64)?.narrow(2, 0, past)?;
                let first = call.counted(batch / beams, DType::I64)?.mul(beams as i64)?;
                let rows = sources.add(&first.reshape(&[batch / beams, 1, 1])?)?;
                let rows = rows.reshape(&[batch, 1, past, 1])?;
                before.gather(0, &rows.broadcast_to(before.shape())?)?
            }
            _ => before,
        };
        Ok([whole, Tensor::cat(&[&before, &new], 2)?])
    };
    let [present_key, key] = filled(5, key)?;
    let [present_value, value] = filled(6, value)?;
    let keys = key.dim(2)?;
    let extent = Extent {
        batch,
        queries: 1,
        keys,
        past: keys.saturating_sub(1),
    };
    let mask = mask::added(call, (3, 4), extent, query.dtype())?;
    let options = AttentionOptions {
        mask: mask.as_ref(),
        scale: call.attr_float("scale")?.filter(|&scale| scale != 0.0),
        ..AttentionOptions::default()
    };
    let mixed = packed(&query.attention(&key, &value, &options)?)?;
    Ok(vec![mixed, present_key, present_value])
}
