//! Attention.

use streampool_tensor::{AttentionOptions, DType, Tensor};

use crate::{FLOATS, assert_near, assert_refused, common::pool, real, values};

#[test]
fn a_query_sees_the_keys_up_to_its_place() {
    let pool = pool();
    for dtype in FLOATS {
        let make = |shape: &[usize], seed| real(&pool, shape, seed).to_dtype(dtype).unwrap();
        let (query, key) = (make(&[2, 5, 4], 1), make(&[2, 7, 4], 2));
        let value = make(&[2, 7, 3], 3);
        let near = if dtype.size() == 2 { 3e-2 } else { 1e-5 };
        for past in [0, 2] {
            let options = AttentionOptions {
                causal: true,
                past,
                ..AttentionOptions::default()
            };
            let mixed = query.attention(&key, &value, &options).unwrap();
            assert_eq!((mixed.shape(), mixed.dtype()), (&[2, 5, 3][..], dtype));
            for place in 0..5 {
                let one = query.narrow(1, place, 1).unwrap();
                let [key, value] =
                    [&key, &value].map(|x| x.narrow(1, 0, place + past + 1).unwrap());
                let seen = one.attention(&key, &value, &AttentionOptions::default());
                let mixed = mixed.narrow(1, place, 1).unwrap();
                assert_near(&mixed, &values(&seen.unwrap()), near);
            }
        }
    }
}

#[test]
fn packed_and_turned_operands_need_no_copy() {
    let pool = pool();
    // [batch, length, 3, heads, width], as a packed projection makes it.
    let packed = real(&pool, &[2, 6, 3, 2, 4], 4);
    let part = |index| packed.select(2, index).unwrap().transpose(1, 2).unwrap();
    let options = AttentionOptions {
        scale: Some(0.25),
        ..AttentionOptions::default()
    };
    let mixed = part(0).attention(&part(1), &part(2), &options).unwrap();
    let lying = |index| part(index).contiguous().unwrap();
    let copied = lying(0).attention(&lying(1), &lying(2), &options).unwrap();
    assert_eq!(
        mixed.to_vec::<f32>().unwrap(),
        copied.to_vec::<f32>().unwrap()
    );
}

#[test]
fn few_key_heads_serve_many() {
    let pool = pool();
    let (query, key, value) = (
        real(&pool, &[1, 6, 3, 4], 5),
        real(&pool, &[1, 2, 5, 4], 6),
        real(&pool, &[1, 2, 5, 4], 7),
    );
    let options = AttentionOptions::default();
    let mixed = query.attention(&key, &value, &options).unwrap();
    let many = |x: &Tensor| {
        let spread = x.unsqueeze(2).unwrap().expand(&[1, 2, 3, 5, 4]).unwrap();
        spread.reshape(&[1, 6, 5, 4]).unwrap()
    };
    let whole = query
        .attention(&many(&key), &many(&value), &options)
        .unwrap();
    assert_near(&mixed, &values(&whole), 1e-6);
}

#[test]
fn masks_broadcast_and_an_empty_one_gives_zeros() {
    let pool = pool();
    let (query, key, value) = (
        real(&pool, &[2, 2, 3, 4], 8),
        real(&pool, &[2, 2, 3, 4], 9),
        real(&pool, &[2, 2, 3, 4], 10),
    );
    let with = |mask: &Tensor| {
        let options = AttentionOptions {
            mask: Some(mask),
            ..AttentionOptions::default()
        };
        query.attention(&key, &value, &options).unwrap()
    };
    let keys = Tensor::from_slice(&pool, &[true, false, true], &[3]).unwrap();
    let added = Tensor::from_slice(&pool, &[0.0, f32::NEG_INFINITY, 0.0], &[1, 1, 3]).unwrap();
    assert_near(&with(&keys), &values(&with(&added)), 1e-6);
    let none = Tensor::from_slice(&pool, &[true, false, true], &[3, 1]).unwrap();
    let mixed = with(&none).select(2, 1).unwrap();
    assert_near(&mixed, &[0.0; 16], 0.0);
    let nobody = query.narrow(2, 0, 0).unwrap();
    let options = AttentionOptions::default();
    assert_eq!(
        nobody.attention(&key, &value, &options).unwrap().shape(),
        [2, 2, 0, 4]
    );
    let (none, nothing) = (key.narrow(2, 0, 0).unwrap(), value.narrow(2, 0, 0).unwrap());
    assert_near(
        &query.attention(&none, &nothing, &options).unwrap(),
        &[0.0; 48],
        0.0,
    );
}

#[test]
fn products_are_capped() {
    let pool = pool();
    let (query, key, value) = (
        real(&pool, &[1, 2, 2], 11),
        real(&pool, &[1, 3, 2], 12),
        real(&pool, &[1, 3, 2], 13),
    );
    let capped = |softcap| {
        let options = AttentionOptions {
            scale: Some(100.0),
            softcap,
            ..AttentionOptions::default()
        };
        query.attention(&key, &value, &options).unwrap()
    };
    let products = query.bmm(&key.transpose(1, 2).unwrap()).unwrap();
    let scores = products
        .mul(50.0)
        .unwrap()
        .tanh()
        .unwrap()
        .mul(2.0)
        .unwrap();
    let expected = scores.softmax(2).unwrap().bmm(&value).unwrap();
    assert_near(&capped(2.0), &values(&expected), 1e-5);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let make = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
    let x = make(&[2, 4, 3, 8]);
    let options = AttentionOptions::default();
    let mask = make(&[5]);
    let masked = AttentionOptions {
        mask: Some(&mask),
        ..options
    };
    let layer = |heads, packed: &Tensor| {
        make(&[2, 3, 6]).multi_head_attention(heads, packed, None, &make(&[6, 6]), None, &options)
    };
    assert_refused([
        (
            make(&[2, 8]).attention(&x, &x, &options),
            "attention: self has shape [2, 8], expected [batch, heads, length, width]",
        ),
        (
            x.attention(&make(&[4, 3, 8]), &x, &options),
            "attention: key has shape [4, 3, 8], expected [batch, heads",
        ),
        (
            x.attention(&make(&[2, 3, 3, 8]), &make(&[2, 3, 3, 8]), &options),
            "attention: key is of 3 heads, expected a number that divides",
        ),
        (
            x.attention(&x, &x, &masked),
            "attention: mask is of shape [5], expected",
        ),
        (
            layer(4, &make(&[18, 6])),
            "multi_head_attention: heads is 4, expected a divisor of 6",
        ),
        (
            layer(3, &make(&[6, 18])),
            "multi_head_attention: packed has shape [6, 18], expected [18, 6]",
        ),
    ]);
}
