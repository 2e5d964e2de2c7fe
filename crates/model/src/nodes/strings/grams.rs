//! The n-grams of strings, found in one pass over the words: a pool of strings may be large.

use rustc_hash::FxHashMap;
use streampool_tensor::Tensor;
use streampool_tensor::room::filled;

use super::common::{Words, spend};
use crate::error::NodeError;
use crate::nodes::call::Call;

/// The n-grams of a length that a pool has.
pub struct Grams<'a> {
    /// How many elements each has.
    pub length: usize,
    /// One after the other.
    pub all: &'a [i64],
    /// The number of the first among the n-grams of all lengths.
    pub first: usize,
    /// Whether those of this length are counted.
    pub is_counted: bool,
}

/// How often each of the n-grams of these pools is in each row, with up to so many elements skipped between its own: added up in
/// its column. An n-gram that is in a pool twice is the later one.
pub fn count_strings(
    call: &Call<'_>,
    pools: &[Grams<'_>],
    (columns, width): (&[usize], usize),
    skips: usize,
) -> Result<Tensor, NodeError> {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let numbers = words.given(x)?;
    let (rows, whole) = match *x.shape() {
        [whole] => (1, whole),
        [rows, whole] => (rows, whole),
        _ => {
            let got = format_args!("of {} axes", x.rank());
            return Err(NodeError::malformed("input 0", got, "one or two"));
        }
    };
    let mut counts = filled(0f32, rows.saturating_mul(width))?;
    let mut gram = Vec::new();
    for pool in pools.iter().filter(|pool| pool.is_counted) {
        let known: FxHashMap<&[i64], usize> = pool
            .all
            .chunks_exact(pool.length)
            .zip(pool.first..)
            .collect();
        let steps = if pool.length == 1 { 1 } else { skips + 1 };
        for (row, counts) in numbers
            .chunks_exact(whole.max(1))
            .zip(counts.chunks_mut(width.max(1)))
        {
            for step in 1..=steps {
                let reach = (pool.length - 1).saturating_mul(step);
                let Some(windows) = whole.checked_sub(reach).filter(|&windows| windows > 0) else {
                    break;
                };
                spend(windows * pool.length)?;
                for begin in 0..windows {
                    gram.clear();
                    gram.extend((0..pool.length).map(|place| row[begin + place * step]));
                    if let Some(&found) = known.get(&gram[..]) {
                        counts[columns[found]] += 1.0;
                    }
                }
            }
        }
    }
    Ok(Tensor::from_slice(words.pool, &counts, &[rows, width])?)
}
