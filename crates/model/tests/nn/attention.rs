//! Attention of many heads against products and softmax of each.

use streampool_model::nn::{Linear, Module, MultiHeadAttention};
use streampool_tensor::{AttentionOptions, DType, Tensor};

use crate::{assert_same, normal, pool, random, refused};

/// Attention head by head, from products and softmax. The mask is added.
fn attention_by_hand(
    [query, key, value]: [&Linear; 3],
    output: &Linear,
    heads: [usize; 2],
    x: &Tensor,
    memory: &Tensor,
    mask: Option<&Tensor>,
) -> Tensor {
    let (q, k) = (query.forward(x).unwrap(), key.forward(memory).unwrap());
    let v = value.forward(memory).unwrap();
    let width = q.dim(-1).unwrap() / heads[0];
    let value_width = v.dim(-1).unwrap() / heads[1];
    let mixed: Vec<Tensor> = (0..heads[0])
        .map(|head| {
            let serving = head / (heads[0] / heads[1]);
            let q = q.narrow(-1, head * width, width).unwrap();
            let k = k.narrow(-1, serving * width, width).unwrap();
            let v = v.narrow(-1, serving * value_width, value_width).unwrap();
            let mut scores = q.matmul(&k.transpose(-1, -2).unwrap()).unwrap();
            scores = scores.mul(1.0 / (width as f64).sqrt()).unwrap();
            if let Some(mask) = mask {
                scores = scores.add(mask).unwrap();
            }
            scores.softmax(-1).unwrap().matmul(&v).unwrap()
        })
        .collect();
    let mixed = Tensor::cat(&mixed.iter().collect::<Vec<_>>(), -1).unwrap();
    output.forward(&mixed).unwrap()
}

#[test]
fn attention_is_that_of_each_head() {
    let pool = pool();
    let weights = random(&pool);
    let x = normal(&pool, 7, &[2, 5, 12]);
    let memory = normal(&pool, 8, &[2, 7, 12]);
    for key_heads in [4, 2, 1] {
        let linear = |name: &str, to| Linear::new(&weights.at(name), 12, to).unwrap();
        let (query, output) = (linear("q", 12), linear("o", 12));
        let (key, value) = (linear("k", 3 * key_heads), linear("v", 3 * key_heads));
        let parts = [query.clone(), key.clone(), value.clone()];
        let layer =
            MultiHeadAttention::from_projections(parts, output.clone(), 4, key_heads).unwrap();
        let by_hand = |x, memory, mask| {
            let projections = [&query, &key, &value];
            attention_by_hand(projections, &output, [4, key_heads], x, memory, mask)
        };
        assert_same(&layer.forward(&x).unwrap(), &by_hand(&x, &x, None));
        let plain = AttentionOptions::default();
        let crossed = layer.attend_to(&x, &memory, &plain).unwrap();
        assert_same(&crossed, &by_hand(&x, &memory, None));

        let causal = AttentionOptions {
            causal: true,
            ..plain
        };
        let hidden = Tensor::full(&pool, &[5, 5], -1e9, DType::F32).unwrap();
        let hidden = hidden.triu(1).unwrap();
        let expected = by_hand(&x, &x, Some(&hidden));
        assert_same(&layer.attend(&x, &causal).unwrap(), &expected);
        let seen = hidden.ge(0.0).unwrap();
        let masked = AttentionOptions {
            mask: Some(&seen),
            ..plain
        };
        assert_same(&layer.attend(&x, &masked).unwrap(), &expected);

        // Without the batch, and with the batch's axis seen otherwise.
        let one = x.select(0, 1).unwrap();
        assert_same(&layer.forward(&one).unwrap(), &by_hand(&one, &one, None));
        assert_eq!(layer.parameters().unwrap()[0].0, "q_proj.weight");
    }
}

#[test]
fn projections_that_differ_stay_apart() {
    let pool = pool();
    let weights = random(&pool);
    let linear = |name: &str, from, to| Linear::new(&weights.at(name), from, to).unwrap();
    // Keys and values of another width than queries, values of another than keys.
    let parts = [linear("q", 8, 6), linear("k", 5, 6), linear("v", 5, 10)];
    let output = linear("o", 10, 8);
    let layer = MultiHeadAttention::from_projections(parts.clone(), output.clone(), 2, 2).unwrap();
    let (x, memory) = (normal(&pool, 9, &[3, 4, 8]), normal(&pool, 10, &[3, 6, 5]));
    let [query, key, value] = &parts;
    let expected = attention_by_hand([query, key, value], &output, [2, 2], &x, &memory, None);
    let got = layer.attend_to(&x, &memory, &AttentionOptions::default());
    assert_same(&got.unwrap(), &expected);
    let names: Vec<_> = layer
        .parameters()
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names[2..4], ["k_proj.weight", "k_proj.bias"]);
    let error = refused(layer.attend_to(
        &x,
        &memory.select(0, 0).unwrap(),
        &AttentionOptions::default(),
    ));
    assert!(error.contains("memory has shape [6, 6]"), "{error}");
    let odd = [linear("q", 8, 6), linear("k", 8, 4), linear("v", 8, 4)];
    let error = refused(MultiHeadAttention::from_projections(odd, output, 2, 2));
    assert!(
        error.contains("2 heads as wide as the 2 of query"),
        "{error}"
    );
}

#[test]
fn pytorchs_packed_projection_is_taken() {
    let pool = pool();
    let weights = random(&pool).at("attn");
    let layer = MultiHeadAttention::new(&weights, 8, 2).unwrap();
    let packed = weights.tensor("in_proj_weight", &[24, 8]).unwrap();
    let part = |place: usize| {
        let zeros = Tensor::zeros(&pool, &[8], DType::F32).unwrap();
        Linear::from_tensors(packed.narrow(0, place * 8, 8).unwrap(), Some(zeros)).unwrap()
    };
    let output = Linear::new(&weights.at("out_proj"), 8, 8).unwrap();
    let x = normal(&pool, 11, &[1, 3, 8]);
    let parts = [&part(0), &part(1), &part(2)];
    let expected = attention_by_hand(parts, &output, [2, 2], &x, &x, None);
    assert_same(&layer.forward(&x).unwrap(), &expected);
}
