//! Masks of attention, in the forms in which ONNX Runtime takes them.

use streampool_tensor::{DType, Tensor};

use super::super::call::Call;
use crate::error::NodeError;

/// The sizes of `[batch, heads, queries, keys]`, and how many keys come before the first query.
#[derive(Clone, Copy)]
pub struct Extent {
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub past: usize,
}

/// What is added to the products of queries and keys: for the mask that input `place` is, and for the bias that input
/// `bias` is.
pub fn added(
    call: &Call<'_>,
    (place, bias): (usize, usize),
    extent: Extent,
    dtype: DType,
) -> Result<Option<Tensor>, NodeError> {
    let bias = call.optional(bias)?;
    let Some(mask) = call.optional(place)? else {
        return Ok(bias.cloned());
    };
    let filter = call.float_or("mask_filter_value", -10_000.0)?;
    let left_out = kept(call, mask, extent)?
        .to_dtype(dtype)?
        .rsub(1.0)?
        .mul(filter)?;
    Ok(Some(match bias {
        Some(bias) => left_out.add(bias)?,
        None => left_out,
    }))
}

/// Which keys count: broadcasts to `[batch, heads, queries, keys]`.
fn kept(call: &Call<'_>, mask: &Tensor, extent: Extent) -> Result<Tensor, NodeError> {
    let Extent {
        batch,
        queries,
        keys,
        past,
    } = extent;
    let column = |first: usize| {
        mask.narrow(0, first, batch)?
            .to_dtype(DType::I64)?
            .reshape(&[batch, 1, 1, 1])
    };
    let places = || call.counted(keys, DType::I64);
    Ok(match *mask.shape() {
        [count] if count == 2 * batch => {
            let places = places()?;
            let (end, start) = (column(0)?, column(batch)?);
            places.lt(&end)?.logical_and(&places.ge(&start)?)?
        }
        [count] if count == batch || count == 3 * batch + 2 => places()?.lt(&column(0)?)?,
        [_, _] => mask.ne(0)?.unsqueeze(1)?.unsqueeze(1)?,
        [_, _, _] => mask.ne(0)?.unsqueeze(1)?,
        [_, _, _, _] => mask.narrow(2, past, queries)?.narrow(3, 0, keys)?.ne(0)?,
        _ => {
            let got = format!("of shape {:?}", mask.shape());
            let expected =
                format!("[{batch}], [2 * {batch}], [3 * {batch} + 2], or two to four axes");
            return Err(NodeError::malformed("the mask", got, expected));
        }
    })
}
