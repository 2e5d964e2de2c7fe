//! Attention over packed inputs and a cache, against the same from its pieces.

use streampool_tensor::{DType, Pool, Tensor};

use super::{Expected, Given, expected, floats, given, microsoft, pool};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const BATCH: usize = 2;
const HEADS: usize = 2;
const WIDTH: usize = 4;

/// `[batch, length, heads, width]`.
fn part(host: &Pool, length: usize, seed: usize) -> Result<Tensor, Box<dyn std::error::Error>> {
    let made = floats(&[BATCH, length, HEADS, WIDTH], seed).ok_or("values")?;
    Ok(made(host))
}

fn handed(tensor: &Tensor) -> Result<Option<Given>, Box<dyn std::error::Error>> {
    Ok(given(tensor.shape(), &tensor.to_vec::<f32>()?))
}

/// The mix of these parts, packed.
fn mixed(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
) -> Result<Expected, Box<dyn std::error::Error>> {
    let [query, key, value] = [query, key, value].map(|part| part.transpose(1, 2));
    let scale = 1.0 / (WIDTH as f64).sqrt();
    let products = query?.matmul(&key?.transpose(2, 3)?)?.mul(scale)?;
    let mixed = products.softmax(-1)?.matmul(&value?)?.transpose(1, 2)?;
    let length = mixed.dim(1)?;
    let values = mixed.to_dtype(DType::F64)?.to_vec::<f64>()?;
    Ok(expected(&[BATCH, length, HEADS * WIDTH], &values))
}

fn flat(part: &Tensor) -> Result<Tensor, Box<dyn std::error::Error>> {
    Ok(part.reshape(&[BATCH, part.dim(1)?, HEADS * WIDTH])?)
}

#[test]
fn multi_head_attention_of_packed_parts() -> Outcome {
    let host = pool();
    let [query, key, value] = [part(&host, 3, 1)?, part(&host, 3, 2)?, part(&host, 3, 3)?];
    let results = [mixed(&query, &key, &value)?];
    let node = || microsoft("MultiHeadAttention").int("num_heads", HEADS as i64);
    let all = handed(&Tensor::stack(&[&query, &key, &value], 3)?)?;
    node().check(&[all], &results);
    let pair = handed(&Tensor::stack(&[&key, &value], 3)?)?;
    node().check(&[handed(&flat(&query)?)?, pair], &results);
    Ok(())
}

#[test]
fn grouped_attention_continues_each_sequence_where_it_ends() -> Outcome {
    let host = pool();
    // Of the cache the first sequence has two places, the second one.
    let [query, key, value] = [part(&host, 1, 1)?, part(&host, 1, 2)?, part(&host, 1, 3)?];
    let [keys, values] = [part(&host, 3, 4)?, part(&host, 3, 5)?];
    let of = |batch: usize, past: &Tensor, new: &Tensor| {
        let kept = past.narrow(0, batch, 1)?.narrow(1, 0, 2 - batch)?;
        Tensor::cat(&[&kept, &new.narrow(0, batch, 1)?], 1)
    };
    let mut results = Vec::new();
    for batch in 0..BATCH {
        let query = query.narrow(0, batch, 1)?.transpose(1, 2)?;
        let key = of(batch, &keys, &key)?.transpose(1, 2)?;
        let value = of(batch, &values, &value)?.transpose(1, 2)?;
        let products = query.matmul(&key.transpose(2, 3)?)?.mul(0.5)?;
        let mixed = products.softmax(-1)?.matmul(&value)?;
        results.extend(mixed.to_dtype(DType::F64)?.to_vec::<f64>()?);
    }
    let by_head = |tensor: &Tensor| handed(&tensor.transpose(1, 2)?);
    let node = microsoft("GroupQueryAttention");
    let node = node
        .int("num_heads", HEADS as i64)
        .int("kv_num_heads", HEADS as i64);
    let inputs = [
        handed(&flat(&query)?)?,
        handed(&flat(&key)?)?,
        handed(&flat(&value)?)?,
        by_head(&keys)?,
        by_head(&values)?,
        given::<i32>(&[BATCH], &[2, 1]),
        given::<i32>(&[], &[3]),
    ];
    node.check(&inputs, &[expected(&[BATCH, 1, HEADS * WIDTH], &results)]);
    Ok(())
}
