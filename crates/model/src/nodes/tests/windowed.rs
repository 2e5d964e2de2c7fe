//! Grouped attention over caches of a window, and of chunks that are filled up, against the same over a cache of all words.

use streampool_tensor::{DType, Pool, Tensor};

use super::{One, floats, microsoft, pool};
use crate::testing::{Value, evaluate_eagerly};

const HEADS: usize = 2;
const WIDTH: usize = 4;
const WORDS: usize = 9;
const WINDOW: usize = 3;

fn node() -> One {
    microsoft("GroupQueryAttention")
        .int("num_heads", HEADS as i64)
        .int("kv_num_heads", HEADS as i64)
        .int("local_window_size", WINDOW as i64)
}

/// What a node makes of these inputs.
fn results(node: One, pool: &Pool, inputs: &[Option<Tensor>]) -> Vec<Tensor> {
    let there: Vec<bool> = inputs.iter().map(Option::is_some).collect();
    let graph = node.graph(&there, &[true; 3]);
    let inputs = inputs.iter().flatten();
    let inputs: Vec<_> = inputs
        .map(|tensor| Some(Value::Tensor(tensor.clone())))
        .collect();
    let made = evaluate_eagerly(&graph, (pool, pool), &inputs).expect("results");
    let tensors = made.iter().map(|value| value.tensor().expect("a tensor"));
    tensors.cloned().collect()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.to_dtype(DType::F64).expect("a wider type");
    wide.to_vec().expect("numbers")
}

fn assert_near(got: &Tensor, wanted: &Tensor, of: &str) {
    assert_eq!(got.shape(), wanted.shape(), "{of}");
    for (got, wanted) in numbers(got).iter().zip(numbers(wanted)) {
        assert!((got - wanted).abs() < 1e-4, "{of}: {got} and not {wanted}");
    }
}

/// Query, key and value of all words of one sequence.
fn words(pool: &Pool) -> [Tensor; 3] {
    [1, 2, 3].map(|seed| floats(&[1, WORDS, HEADS * WIDTH], seed).expect("values")(pool))
}

fn of(part: &Tensor, first: usize, count: usize) -> Option<Tensor> {
    Some(part.narrow(1, first, count).expect("a part"))
}

fn counts(pool: &Pool, values: &[i32]) -> Option<Tensor> {
    Some(Tensor::from_slice(pool, values, &[values.len()]).expect("counts"))
}

fn zeros(pool: &Pool, batch: usize, length: usize) -> Tensor {
    Tensor::zeros(pool, &[batch, HEADS, length, WIDTH], DType::F32).expect("a cache")
}

/// How many of so many words a cache holds, as ONNX Runtime says it.
fn resident(words: usize, capacity: usize) -> usize {
    let at_once = capacity - WINDOW + 1;
    words - words.saturating_sub(capacity).div_ceil(at_once) * at_once
}

#[test]
fn a_cache_of_a_window_gives_what_one_of_all_words_does() {
    let pool = pool();
    let [query, key, value] = words(&pool);
    let last = WORDS as i32 - 1;
    let whole = [
        of(&query, 0, WORDS),
        of(&key, 0, WORDS),
        of(&value, 0, WORDS),
        None,
        None,
        counts(&pool, &[last]),
        counts(&pool, &[last + 1]),
    ];
    let all = results(node(), &pool, &whole);
    for capacity in [WINDOW, WINDOW + 2, WORDS + 1] {
        for steps in [&[1; WORDS][..], &[4, 1, 1, 3], &[WORDS]] {
            let mut caches = [zeros(&pool, 1, capacity), zeros(&pool, 1, capacity)];
            let mut done = 0;
            for &step in steps {
                let case = format!("{step} words after {done}, with room for {capacity}");
                let [keys, values] = caches;
                let total = (done + step) as i32;
                let inputs = [
                    of(&query, done, step),
                    of(&key, done, step),
                    of(&value, done, step),
                    Some(keys),
                    Some(values),
                    counts(&pool, &[total - 1]),
                    counts(&pool, &[total]),
                ];
                let windowed = node().int("sliding_window_cache", 1);
                let made = results(windowed, &pool, &inputs);
                assert_near(&made[0], &of(&all[0], done, step).unwrap(), &case);
                done += step;
                let held = resident(done, capacity);
                for (cache, all) in made[1..].iter().zip(&all[1..]) {
                    assert_eq!(cache.dim(2).unwrap(), capacity);
                    let latest = all.narrow(2, done - held, held).unwrap();
                    assert_near(&cache.narrow(2, 0, held).unwrap(), &latest, &case);
                }
                caches = [made[1].clone(), made[2].clone()];
            }
        }
    }
}

#[test]
fn a_cache_shorter_than_its_window_is_refused() {
    let cache = || floats(&[1, HEADS, WINDOW - 1, WIDTH], 4);
    let part = |seed| floats(&[1, 1, HEADS * WIDTH], seed);
    let one = || super::given::<i32>(&[1], &[1]);
    let node = node().int("sliding_window_cache", 1);
    let inputs = [part(1), part(2), part(3), cache(), cache(), one(), one()];
    let said = node.refused(&inputs, 3);
    assert!(said.contains("window"), "{said}");
}

#[test]
fn chunks_that_are_filled_up_give_what_their_words_alone_do() {
    let pool = pool();
    let [query, key, value] = words(&pool);
    // Two sequences in one run: the first has four words and gets three, the second has two and gets one.
    let (before, new) = ([4, 2], [3, 1]);
    let past = |part: &Tensor, count: usize| -> Tensor {
        let words = of(part, 0, count).unwrap();
        let by_head = words.reshape(&[1, count, HEADS, WIDTH]).unwrap();
        let rest = zeros(&pool, 1, WORDS - count);
        Tensor::cat(&[&by_head.transpose(1, 2).unwrap(), &rest], 2).unwrap()
    };
    let both = |of: &dyn Fn(usize) -> Tensor| Tensor::cat(&[&of(0), &of(1)], 0).ok();
    for is_windowed in [0, 1] {
        let node = || node().int("sliding_window_cache", is_windowed);
        let chunk = |part: &Tensor| both(&|row| of(part, before[row], 3).unwrap());
        let pasts = |part: &Tensor| both(&|row| past(part, before[row]));
        let totals = [before[0] + new[0], before[1] + new[1]].map(|total| total as i32);
        let mut inputs = vec![
            chunk(&query),
            chunk(&key),
            chunk(&value),
            pasts(&key),
            pasts(&value),
            counts(&pool, &totals.map(|total| total - 1)),
            counts(&pool, &[WORDS as i32]),
        ];
        inputs.resize_with(16, || None);
        inputs.push(counts(&pool, &new.map(|new| new as i32)));
        let made = results(node(), &pool, &inputs);
        for row in 0..2 {
            let alone = [
                of(&query, before[row], new[row]),
                of(&key, before[row], new[row]),
                of(&value, before[row], new[row]),
                Some(past(&key, before[row])),
                Some(past(&value, before[row])),
                counts(&pool, &[totals[row] - 1]),
                counts(&pool, &[totals[row]]),
            ];
            let wanted = results(node(), &pool, &alone);
            let got = made[0].narrow(0, row, 1).unwrap();
            assert_near(&of(&got, 0, new[row]).unwrap(), &wanted[0], "the mix");
            let words = totals[row] as usize;
            for (cache, wanted) in made[1..].iter().zip(&wanted[1..]) {
                let cache = cache.narrow(0, row, 1).unwrap();
                let cache = cache.narrow(2, 0, words).unwrap();
                assert_near(&cache, &wanted.narrow(2, 0, words).unwrap(), "the cache");
            }
        }
    }
}
