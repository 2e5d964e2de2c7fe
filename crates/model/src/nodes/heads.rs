//! Heads of attention: how they are packed, turned and masked.

use streampool_tensor::{DType, Pool, Tensor};

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
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    rotated: usize,
    interleaved: bool,
) -> Result<Tensor, NodeError> {
    let width = x.dim(3)?;
    if rotated == 0 || rotated == width {
        return Ok(x.rotary(cos, sin, interleaved)?);
    }
    if rotated > width {
        let expected = format!("at most {width}");
        return Err(NodeError::malformed(
            "the width that is rotated",
            rotated,
            expected,
        ));
    }
    let y = x.narrow(3, 0, rotated)?.rotary(cos, sin, interleaved)?;
    Ok(Tensor::cat(
        &[&y, &x.narrow(3, rotated, width - rotated)?],
        3,
    )?)
}

/// Which keys each query sees that sees none after it, where `past` keys come before the first query.
pub fn seen(pool: &Pool, queries: usize, keys: usize, past: usize) -> Result<Tensor, NodeError> {
    let all = Tensor::ones(pool, &[queries, keys], DType::Bool)?;
    Ok(all.tril(past as i64)?)
}
