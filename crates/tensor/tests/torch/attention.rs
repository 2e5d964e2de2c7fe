//! Attention, and the layer around it.

use streampool_tensor::AttentionOptions;

use crate::Reference;

const NEAR: f64 = 2e-5;

#[test]
fn scaled_dot_products() {
    let mut reference = Reference::open("attention");
    for case in [
        "plain", "causal", "scaled", "masked", "blocked", "added", "grouped",
    ] {
        let [query, key, value] = ["query", "key", "value"].map(|name| reference.get(case, name));
        let mask = reference.find(case, "mask");
        let options = AttentionOptions {
            mask: mask.as_ref(),
            causal: case == "causal",
            scale: (case == "scaled").then_some(0.3),
            ..AttentionOptions::default()
        };
        let y = query.attention(&key, &value, &options).unwrap();
        reference.assert_close(case, "y", &y, NEAR);
    }
}

#[test]
fn packed_layers() {
    let mut reference = Reference::open("attention");
    for case in ["layer", "layer_causal", "layer_padded"] {
        let names = [
            "x",
            "packed",
            "packed_bias",
            "projection",
            "projection_bias",
        ];
        let [x, packed, packed_bias, projection, projection_bias] =
            names.map(|name| reference.get(case, name));
        let attends = reference.find(case, "attends");
        // Which keys of a batch count, for every head and query.
        let mask = attends.map(|attends| attends.view(&[2, 1, 1, 6]).unwrap());
        let options = AttentionOptions {
            mask: mask.as_ref(),
            causal: case == "layer_causal",
            ..AttentionOptions::default()
        };
        let y = x
            .multi_head_attention(
                3,
                &packed,
                Some(&packed_bias),
                &projection,
                Some(&projection_bias),
                &options,
            )
            .unwrap();
        reference.assert_close(case, "y", &y, NEAR);
    }
}
