//! Counts of the n-grams of a list.

use streampool_tensor::{DType, Tensor};

use super::call::{Call, Operator, Outputs, parts, size};
use super::strings::{Grams, count_strings};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "TfIdfVectorizer" => count_grams,
        _ => return None,
    })
}

/// So many comparisons are held at a time, unless those with one n-gram are more.
const AT_ONCE: usize = 1 << 22;

/// How often each n-gram of a pool is in each row, or its weight if it is there, or both together.
fn count_grams(call: &Call<'_>) -> Outputs {
    let of_strings = call.attr_ints("pool_strings")?;
    let pool = match of_strings {
        Some(pool) => pool,
        None => call.attr_ints("pool_int64s")?.unwrap_or(&[]),
    };
    let starts = call.sizes("ngram_counts")?;
    let columns = call.sizes("ngram_indexes")?;
    let shortest = size(
        "attribute min_gram_length",
        call.int_or("min_gram_length", 1)?,
    )?;
    let longest = size(
        "attribute max_gram_length",
        call.int_or("max_gram_length", 1)?,
    )?;
    let skips = size(
        "attribute max_skip_count",
        call.int_or("max_skip_count", 0)?,
    )?;
    let skips = parts("attribute max_skip_count", skips)?;
    let mut pools = Vec::new();
    let mut grams = 0;
    for (place, &start) in starts.iter().enumerate() {
        let length = place + 1;
        let end = starts.get(length).copied().unwrap_or(pool.len());
        let Some(own) = pool.get(start..end).filter(|own| own.len() % length == 0) else {
            let got = format_args!("{starts:?} for a pool of {}", pool.len());
            return Err(NodeError::malformed(
                "attribute ngram_counts",
                got,
                "places of whole n-grams in it",
            ));
        };
        pools.push(Grams {
            length,
            all: own,
            first: grams,
            is_counted: (shortest..=longest).contains(&length),
        });
        grams += own.len() / length;
    }
    if columns.len() != grams {
        let expected = format!("{grams}, one for each n-gram");
        return Err(NodeError::malformed(
            "the number of ngram_indexes",
            columns.len(),
            expected,
        ));
    }
    let width = columns
        .iter()
        .max()
        .map_or(0, |&last| last.saturating_add(1));
    let width = parts("the largest of ngram_indexes", width)?;
    let found = match of_strings {
        Some(_) => count_strings(call, &pools, (&columns, width), skips)?,
        None => count_numbers(call, &pools, (&columns, width), skips)?,
    };
    let list = |values: &[f32]| Tensor::from_slice(call.known_pool(), values, &[values.len()]);
    let weighed = |counts: &Tensor| -> Result<Tensor, NodeError> {
        let Some(weights) = call.attr_floats("weights")? else {
            return Ok(counts.clone());
        };
        let mut own = streampool_tensor::room::filled(0f32, width)?;
        for (&column, &weight) in columns.iter().zip(weights) {
            own[column] = weight;
        }
        Ok(counts.mul(&call.in_pool(&list(&own)?, counts.pool())?)?)
    };
    let there = || found.gt(0.0)?.to_dtype(DType::F32);
    let y = match call.string_or("mode", "")? {
        "TF" => found,
        "IDF" => weighed(&there()?)?,
        "TFIDF" => weighed(&found)?,
        other => return Err(call.unknown("mode", other)),
    };
    let is_one = call.given(0)?.rank() == 1;
    Ok(vec![if is_one { y.squeeze(0)? } else { y }])
}

/// The counts in their columns, where the elements are numbers: wherever those lie.
fn count_numbers(
    call: &Call<'_>,
    pools: &[Grams<'_>],
    (columns, width): (&[usize], usize),
    skips: usize,
) -> Result<Tensor, NodeError> {
    let x = call.input(0)?.to_dtype(DType::I64)?;
    let rows = match x.rank() {
        1 => x.unsqueeze(0)?,
        _ => x,
    };
    let mut counts: Vec<Tensor> = Vec::new();
    for pool in pools {
        let count = pool.all.len() / pool.length;
        // One element has no neighbours to skip.
        let skips = if pool.length == 1 { 0 } else { skips };
        counts.push(match pool.is_counted && count > 0 {
            true => counted(call, &rows, (pool.all, pool.length), skips)?,
            false => {
                let shape = [rows.dim(0)?, count];
                Tensor::zeros(rows.pool(), &shape, DType::F32)?
            }
        });
    }
    // What no n-gram is counted in is zero: the column behind all others.
    counts.push(Tensor::zeros(rows.pool(), &[rows.dim(0)?, 1], DType::F32)?);
    let all = Tensor::cat(&counts.iter().collect::<Vec<_>>(), 1)?;
    let mut order = streampool_tensor::room::filled(columns.len() as i64, width)?;
    for (gram, &column) in columns.iter().enumerate() {
        order[column] = gram as i64;
    }
    let order = Tensor::from_slice(call.known_pool(), &order, &[width])?;
    Ok(all.index_select(1, &call.in_pool(&order, rows.pool())?)?)
}

/// How often each of the n-grams of a length is in each row, with up to so many elements skipped between its own.
fn counted(
    call: &Call<'_>,
    rows: &Tensor,
    (pool, length): (&[i64], usize),
    skips: usize,
) -> Result<Tensor, NodeError> {
    let (count, whole) = (pool.len() / length, rows.dim(1)?);
    let pool = Tensor::from_slice(call.known_pool(), pool, &[count, length])?;
    let pool = call.in_pool(&pool, rows.pool())?;
    let shape = [rows.dim(0)?, count];
    let mut sum = Tensor::zeros(rows.pool(), &shape, DType::F32)?;
    for step in 1..=skips + 1 {
        let reach = (length - 1).saturating_mul(step);
        let Some(windows) = whole.checked_sub(reach).filter(|&windows| windows > 0) else {
            break;
        };
        let one = windows.saturating_mul(shape[0]).max(1);
        let together = (AT_ONCE / one).clamp(1, count);
        let mut found = Vec::new();
        for first in (0..count).step_by(together) {
            let grams = pool.narrow(0, first, together.min(count - first))?;
            let mut same: Option<Tensor> = None;
            for place in 0..length {
                let seen = rows.narrow(1, place * step, windows)?.unsqueeze(2)?;
                let equal = seen.eq(&grams.select(1, place as isize)?)?;
                same = Some(match same {
                    Some(same) => same.logical_and(&equal)?,
                    None => equal,
                });
            }
            let same = same.ok_or_else(|| NodeError::unsupported("n-grams of nothing"))?;
            found.push(same.to_dtype(DType::F32)?.sum(&[1], false)?);
        }
        sum = sum.add(&Tensor::cat(&found.iter().collect::<Vec<_>>(), 1)?)?;
    }
    Ok(sum)
}
