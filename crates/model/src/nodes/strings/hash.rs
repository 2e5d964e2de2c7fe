//! Hashes of 32 bits, as scikit-learn's `FeatureHasher` takes them.

use streampool_tensor::{DType, Tensor};

use super::common::Words;
use crate::nodes::call::{Call, Outputs};

/// The hash of each string, or of the bytes of each number.
pub fn murmur(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let seed = call.int_or("seed", 0)? as u32;
    let hashes = if call.has("of_strings") {
        words.each(&words.given(x)?, |string| Ok(hash(string.as_bytes(), seed)))?
    } else {
        let bytes = x.to_bytes()?;
        let each = bytes.chunks_exact(x.dtype().size());
        each.map(|bytes| hash(bytes, seed)).collect()
    };
    let hashes = Tensor::from_slice(words.pool, &hashes, x.shape())?;
    Ok(vec![match call.flag_or("positive", true)? {
        true => hashes,
        false => hashes.to_dtype(DType::I32)?,
    }])
}

/// MurmurHash3 for 32 bits.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    let mixed = |word: u32| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15);
        word.wrapping_mul(0x1b87_3593)
    };
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for &word in words {
        hash ^= mixed(u32::from_le_bytes(word));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    hash ^= mixed(u32::from_le_bytes(last));
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
