//! Attention: the same at each level of instructions and on any number of threads.

use proptest::prelude::*;
use streampool_device::{Attention, DType, Op};

use crate::kernels::simd::forced::at_each_level;
use crate::testing::cases;

use super::tensor::{Random, Tensor, Threads, near, run, run_on};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// The weighted sum for one element of the result, by definition, and of the sizes of what it is summed from.
fn element(
    [query, key, value]: [&Tensor; 3],
    shares: usize,
    causal: Option<i64>,
    [batch, head, row, column]: [usize; 4],
) -> (f64, f64) {
    let keys = key.view.shape()[2];
    let seen = causal.map_or(keys, |distance| {
        (row as i64 + distance + 1).clamp(0, keys as i64) as usize
    });
    let scores: Vec<f64> = (0..seen)
        .map(|j| {
            let product = |k| {
                let x = query.get(&[batch, head, row, k]).float();
                x * key.get(&[batch, head / shares, j, k]).float()
            };
            (0..query.view.shape()[3]).map(product).sum::<f64>() * 0.5
        })
        .collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
    let parts = scores.iter().enumerate().map(|(j, score)| {
        (score - top).exp() / sum * value.get(&[batch, head / shares, j, column]).float()
    });
    parts.fold((0.0, 0.0), |(sum, size), part| {
        (sum + part, size + part.abs())
    })
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn attends_as_defined(seed in any::<u64>(), dtype in 0usize..4, long in any::<bool>()) {
        let mut random = Random(seed);
        let dtype = FLOATS[dtype];
        let shares = 1 + random.below(3);
        let [batch, key_heads] = [0; 2].map(|_| 1 + random.below(2));
        let [queries, keys] = [0; 2].map(|_| 1 + random.below(if long { 4 } else { 9 }));
        let [width, value_width] = [0; 2].map(|_| 1 + random.below(if long { 6 } else { 40 }));
        let keys = if long { keys + 250 } else { keys };
        let heads = key_heads * shares;
        let mut of = |shape: [usize; 4]| {
            Tensor::new(&mut random, dtype, &shape, true).small(&mut random)
        };
        let query = of([batch, heads, queries, width]);
        let key = of([batch, key_heads, keys, width]);
        let value = of([batch, key_heads, keys, value_width]);
        let mut out = Tensor::new(&mut random, dtype, &[batch, heads, queries, value_width], false);
        let causal = random.chance(2).then(|| random.below(20) as i64 - 3);
        let op = Op::Attention(Box::new(Attention {
            query: query.view,
            key: key.view,
            value: value.view,
            mask: None,
            out: out.view,
            scale: 0.5,
            causal,
            softcap: 0.0,
        }));
        let mut failure = None;
        at_each_level(|level| {
            out.clear();
            run(&op);
            for index in out.indices() {
                let place = [index[0], index[1], index[2], index[3]];
                let (wanted, size) = element([&query, &key, &value], shares, causal, place);
                let got = out.get(&index).float();
                // Scores are sums, and their rounding is in the exponent.
                if !near(dtype, got, wanted, size * width as f64, 32.0) {
                    failure = Some(format!("{level:?} {index:?}: {got}, not {wanted}"));
                }
            }
        });
        prop_assert!(failure.is_none(), "{failure:?}\n{op:?}");
        out.clear();
        run(&op);
        let alone = out.bytes().to_vec();
        out.clear();
        run_on(&op, &Threads(3));
        prop_assert_eq!(&alone, out.bytes());
        for index in out.indices() {
            out.set(&index, super::tensor::Number::Float(0.0));
        }
        prop_assert!(out.gaps_untouched());
    }
}

#[test]
fn threads_share_large_attention_bit_for_bit() {
    let mut random = Random(3);
    for shape in [[1, 12, 128, 32], [1, 1, 600, 64], [3, 2, 257, 16]] {
        let mut of = || Tensor::plain(DType::F32, &shape).small(&mut random);
        let (query, key, value, mut out) = (of(), of(), of(), of());
        let op = Op::Attention(Box::new(Attention {
            query: query.view,
            key: key.view,
            value: value.view,
            mask: None,
            out: out.view,
            scale: 0.2,
            causal: None,
            softcap: 0.0,
        }));
        out.clear();
        run(&op);
        let alone = out.bytes().to_vec();
        out.clear();
        run_on(&op, &Threads(4));
        assert_eq!(alone, out.bytes());
    }
}
