//! Products of integers, for which devices have no op: multiplied and added up, a part of the terms at a time.

use streampool_tensor::Tensor;

use super::call::parts;
use crate::error::NodeError;

/// As many products are held at a time, unless one term of each result is more.
const AT_ONCE: usize = 1 << 22;

/// Whether a product of this type is made here.
pub fn is_whole(x: &Tensor) -> bool {
    x.dtype().is_integer() && x.dtype().size() > 1
}

/// The product of integers of one type, in that type; it wraps.
pub fn product(a: &Tensor, b: &Tensor) -> Result<Tensor, NodeError> {
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let a = if row { a.unsqueeze(0)? } else { a.clone() };
    let b = if column { b.unsqueeze(1)? } else { b.clone() };
    let terms = a.dim(-1)?;
    if b.dim(-2)? != terms {
        let got = format_args!("of shape {:?}", b.shape());
        return Err(NodeError::malformed(
            "input 1",
            got,
            format!("{terms} rows"),
        ));
    }
    // [..., m, 1, k] and [..., 1, n, k]: what is multiplied lies along the last axis.
    let (a, b) = (a.unsqueeze(-2)?, b.transpose(-1, -2)?.unsqueeze(-3)?);
    let [one_a, one_b] = [&a, &b].map(|x| x.narrow(-1, 0, terms.min(1)));
    let results = one_a?.mul(&one_b?)?.sum(&[-1], false)?;
    let width = (AT_ONCE / results.elem_count().max(1)).clamp(1, terms.max(1));
    let mut sum = None;
    for part in 0..parts("the terms of a product", terms.div_ceil(width))? {
        let first = part * width;
        let count = width.min(terms - first);
        let product = a
            .narrow(-1, first, count)?
            .mul(&b.narrow(-1, first, count)?)?;
        let added = product.sum(&[-1], false)?;
        sum = Some(match sum {
            None => added,
            Some(sum) => added.add(&sum)?,
        });
    }
    let mut product = sum.unwrap_or(results);
    if row {
        product = product.squeeze(-2)?;
    }
    if column {
        product = product.squeeze(-1)?;
    }
    Ok(product)
}
