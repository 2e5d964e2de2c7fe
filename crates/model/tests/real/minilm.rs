//! Sentence embeddings.

use streampool_model::{Array, Session};

use crate::compare::{assert_near, in_half, run};
use crate::data::{Arrays, MINILM, references};
use crate::pool;
use streampool_model::testing::Random;

const FILE: &str = "paraphrase-MiniLM-L3-v2.onnx";
const WORDS: u64 = 30_000;

/// Sentences of up to `length` words; all but the first are shorter and filled up.
pub fn sentences(seed: u64, batch: usize, length: usize) -> Arrays {
    let mut random = Random::new(seed);
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for sentence in 0..batch {
        let words = match sentence {
            0 => length,
            _ => 1 + random.below(length as u64) as usize,
        };
        for place in 0..length {
            let there = place < words;
            ids.push(if there {
                1 + random.below(WORDS) as i64
            } else {
                0
            });
            mask.push(i64::from(there));
        }
    }
    let array = |values: &[i64]| Array::new(values, &[batch, length]).expect("a rectangle");
    vec![
        ("input_ids".to_owned(), array(&ids)),
        ("attention_mask".to_owned(), array(&mask)),
    ]
}

pub fn session(pool: &streampool_tensor::Pool) -> Result<Session, String> {
    let path = MINILM.file(FILE)?;
    Ok(Session::load(pool, path).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn sentence_embeddings_agree_with_onnx_runtime() {
    let Some(pool) = pool() else { return };
    let sizes = [(1, 1), (1, 8), (1, 37), (2, 16), (5, 23), (1, 128), (8, 64)];
    let inputs: Vec<Arrays> = sizes
        .iter()
        .enumerate()
        .map(|(seed, &(batch, length))| sentences(seed as u64, batch, length))
        .collect();
    let made = MINILM.file(FILE).and_then(|path| {
        let references = references(&path, "minilm", &inputs)?;
        Ok((session(&pool)?, references))
    });
    let (session, references) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    for _ in 0..2 {
        for ((inputs, expected), size) in references.iter().zip(&sizes) {
            let what = format!("{size:?}");
            assert_near(&what, &run(&session, inputs), expected, 2e-5);
        }
    }
    let statistics = session.statistics();
    assert_eq!(statistics.captures, sizes.len() as u64);
    assert_eq!(statistics.nodes_alone, 0, "all of it is one program");
}

#[test]
fn sentence_embeddings_in_half_precision_are_near() {
    let Some(pool) = pool() else { return };
    let made = session(&pool).and_then(|exact| Ok((exact, MINILM.file(FILE)?)));
    let (exact, path) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    let half = in_half(&pool, &path);
    for (batch, length) in [(1, 8), (3, 23)] {
        let inputs = sentences(3, batch, length);
        assert_near(
            "minilm in half",
            &run(&half, &inputs),
            &run(&exact, &inputs),
            0.01,
        );
    }
}
