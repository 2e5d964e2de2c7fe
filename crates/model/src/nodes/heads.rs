//! Heads of attention: how they are packed, turned and masked.

use streampool_tensor::{DType, Pool, Tensor};

use super::call::Call;
use crate::error::NodeError;

/// `[batch, length, heads * width]` as `[batch, heads, length, width]`; what is so already stays.
pub fn by_head(tensor: &Tensor, heads: usize) -> Result<Tensor, NodeError> {
    let &[batch, length, features] = tensor.shape() else {
        return Ok(tensor.clone());
    };
    if heads == 0 || features % heads != 0 {
        let expected = format!("a divisor of {features}");
        return Err(NodeError::malformed("the number of heads", heads, expected));
    }
    Ok(tensor
        .reshape(&[batch, length, heads, features / heads])?
        .transpose(1, 2)?)
}

/// The reverse of [`by_head`].
pub fn packed(tensor: &Tensor) -> Result<Tensor, NodeError> {
    let length = tensor.dim(2)?;
    Ok(tensor
        .transpose(1, 2)?
        .reshape(&[tensor.dim(0)? as i64, length as i64, -1])?)
}

/// What came before, and then what is new, both by head.
pub fn after(past: Option<&Tensor>, new: Tensor) -> Result<Tensor, NodeError> {
    match past {
        Some(past) => Ok(Tensor::cat(&[past, &new], 2)?),
        None => Ok(new),
    }
}

/// `[batch, heads, length, width]` with the first `rotated` of each row, or all for 0, turned by the angles whose cosines
/// and sines broadcast to `[batch, heads, length, rotated / 2]`.
pub fn turned(
    call: &Call<'_>,
    x: &Tensor,
    [cos, sin]: [&Tensor; 2],
    rotated: usize,
    interleaved: bool,
) -> Result<Tensor, NodeError> {
    let width = x.dim(3)?;
    let all = if rotated == 0 { width } else { rotated };
    if all > width || !all.is_multiple_of(2) {
        let expected = format!("an even number of at most {width}");
        let name = "the width that is rotated";
        return Err(NodeError::malformed(name, all, expected));
    }
    let of_pairs = |angles: &Tensor| angles.unsqueeze(if interleaved { -1 } else { -2 });
    let angles = [&of_pairs(cos)?, &of_pairs(sin)?];
    if all == width {
        return pairs_turned(call, x, angles, interleaved);
    }
    let y = pairs_turned(call, &x.narrow(3, 0, all)?, angles, interleaved)?;
    let rest = x.narrow(3, all, width - all)?;
    Ok(Tensor::cat(&[&y, &rest], 3)?)
}

/// Pairs of the last axis turned: an element and the one half the axis behind, or, `interleaved`, neighbours. Cosines and sines
/// broadcast to `[..., 2, pairs]`, or, `interleaved`, to `[..., pairs, 2]`. It is one elementwise op.
pub fn pairs_turned(
    call: &Call<'_>,
    x: &Tensor,
    [cos, sin]: [&Tensor; 2],
    interleaved: bool,
) -> Result<Tensor, NodeError> {
    let (axis, signs) = match interleaved {
        true => (-1, [1, 2]),
        false => (-2, [2, 1]),
    };
    let pairs = by_pair(x, interleaved)?;
    let signs = Tensor::from_slice(call.known_pool(), &[-1.0f32, 1.0], &signs)?;
    let signs = call.lift(&signs.to_dtype(x.dtype())?)?;
    let other = pairs.flip(&[axis])?.mul(sin)?.mul(&signs)?;
    Ok(pairs.mul(cos)?.add(&other)?.reshape(x.shape())?)
}

/// The last axis, of an even size, as `[2, pairs]`, or, `interleaved`, as `[pairs, 2]`.
pub fn by_pair(x: &Tensor, interleaved: bool) -> Result<Tensor, NodeError> {
    let mut sizes = x.shape().to_vec();
    let last = sizes.pop().unwrap_or(0);
    sizes.extend(match interleaved {
        true => [last / 2, 2],
        false => [2, last / 2],
    });
    Ok(x.reshape(&sizes)?)
}

/// Which keys each query sees that sees none after it, where `past` keys come before the first query.
pub fn seen(pool: &Pool, queries: usize, keys: usize, past: usize) -> Result<Tensor, NodeError> {
    let all = Tensor::ones(pool, &[queries, keys], DType::Bool)?;
    Ok(all.tril(past as i64)?)
}
