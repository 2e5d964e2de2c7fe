//! Layers that go from tensor to tensor, and sequences of them.

use streampool_model::nn::{
    BatchNorm, Conv, Embedding, LayerNorm, Linear, Lstm, Module, MultiHeadAttention,
    RecurrentOptions, RmsNorm, Sequential, Weights,
};
use streampool_tensor::{Activation, DType, Tensor};

use crate::{assert_near, assert_same, normal, pool, random, refused};

#[test]
fn a_linear_layer_is_a_product() {
    let pool = pool();
    let x = normal(&pool, 1, &[2, 3, 8]);
    let layer = Linear::new(&random(&pool).at("fc"), 8, 5).unwrap();
    let plain = x.matmul(&layer.weight().transpose(0, 1).unwrap()).unwrap();
    let plain = plain.add(layer.bias().unwrap()).unwrap();
    assert_same(&layer.forward(&x).unwrap(), &plain);
    for activation in [
        Activation::None,
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::HardSwish,
    ] {
        let fused = layer.clone().with_activation(activation);
        let expected = activation.forward(&plain).unwrap();
        assert_same(&fused.forward(&x).unwrap(), &expected);
    }
    let part = layer.narrow(1, 2).unwrap().forward(&x).unwrap();
    assert_same(&part, &plain.narrow(-1, 1, 2).unwrap());
    let bare = Linear::without_bias(&random(&pool).at("fc"), 8, 5).unwrap();
    assert!(bare.bias().is_none());
    assert_eq!((bare.features_in(), bare.features_out()), (8, 5));
}

#[test]
fn layers_refuse_tensors_that_do_not_fit() {
    let pool = pool();
    let of = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
    let error = refused(Linear::from_tensors(of(&[4]), None));
    assert!(
        error.contains("weight") && error.contains("[features out, features in]"),
        "{error}"
    );
    let error = refused(Linear::from_tensors(of(&[4, 3]), Some(of(&[3]))));
    assert!(
        error.contains("bias has shape [3], expected [4]"),
        "{error}"
    );
    let layer = Linear::from_tensors(of(&[4, 3]), None).unwrap();
    let error = refused(layer.forward(&of(&[2, 4])));
    assert!(error.contains("a last axis of 3"), "{error}");
    let error = refused(Embedding::from_tensor(of(&[4])));
    assert!(error.contains("[entries, features]"), "{error}");
    let conv = Conv::builder(4, 6, &[3]);
    let error = refused(conv.clone().groups(4).load(&random(&pool)));
    assert!(error.contains("a divisor of 4 and 6"), "{error}");
    let error = refused(conv.from_tensors(of(&[6, 4, 5]), None));
    assert!(error.contains("expected [6, 4, 3]"), "{error}");
    let error = refused(Lstm::from_layers(Vec::new(), false));
    assert!(error.contains("at least one"), "{error}");
    let linear = |from, to| Linear::new(&random(&pool), from, to).unwrap();
    let error = refused(MultiHeadAttention::packed(
        linear(8, 24),
        linear(8, 8),
        3,
        2,
    ));
    assert!(error.contains("heads is 3, with 2 of keys"), "{error}");
    let error = refused(MultiHeadAttention::packed(
        linear(8, 24),
        linear(6, 8),
        2,
        2,
    ));
    assert!(error.contains("[features out, 8]"), "{error}");
    let attention = MultiHeadAttention::packed(linear(8, 24), linear(8, 8), 2, 2).unwrap();
    let error = refused(attention.forward(&of(&[1, 1, 2, 8])));
    assert!(error.contains("[batch, length, features]"), "{error}");
}

#[test]
fn norms_are_their_formulas() {
    let pool = pool();
    let x = normal(&pool, 2, &[3, 6]);
    let scale = normal(&pool, 3, &[6]);
    let bias = normal(&pool, 4, &[6]);
    let weights = Weights::from_tensors(
        [
            ("weight".to_owned(), scale.clone()),
            ("bias".to_owned(), bias.clone()),
        ],
        &pool,
    );
    let mean = x.mean(&[1], true).unwrap();
    let centred = x.sub(&mean).unwrap();
    let variance = centred.mul(&centred).unwrap().mean(&[1], true).unwrap();
    let spread = variance.add(1e-5).unwrap().sqrt().unwrap();
    let expected = centred.div(&spread).unwrap().mul(&scale).unwrap();
    let expected = expected.add(&bias).unwrap();
    let norm = LayerNorm::new(&weights, 6, 1e-5).unwrap();
    assert_same(&norm.forward(&x).unwrap(), &expected);

    let square = x.mul(&x).unwrap().mean(&[1], true).unwrap();
    let root = square.add(1e-6).unwrap().sqrt().unwrap();
    let expected = x.div(&root).unwrap().mul(&scale).unwrap();
    let norm = RmsNorm::new(&weights, 6, 1e-6).unwrap();
    assert_same(&norm.forward(&x).unwrap(), &expected);
}

#[test]
fn batch_norm_uses_what_training_found() {
    let pool = pool();
    let of = |values: &[f32]| Tensor::from_slice(&pool, values, &[values.len()]).unwrap();
    let stored = [
        ("running_mean", of(&[1.0, 2.0])),
        ("running_var", of(&[4.0, 0.25])),
        ("weight", of(&[2.0, 1.0])),
        ("bias", of(&[0.5, -1.0])),
        (
            "num_batches_tracked",
            Tensor::scalar(&pool, 100i64).unwrap(),
        ),
    ];
    let stored = stored.map(|(name, tensor)| (format!("bn.{name}"), tensor));
    let weights = Weights::from_tensors(stored, &pool);
    let norm = BatchNorm::new(&weights.at("bn"), 2, 0.0).unwrap();
    assert_eq!(weights.unused(), [""; 0]);
    let x = Tensor::from_slice(&pool, &[1.0f32, 5.0, 2.0, 3.0], &[1, 2, 2]).unwrap();
    let y = norm.forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert_near(&y, &[0.5, 4.5, -1.0, 1.0], 1e-6);
    let names: Vec<_> = norm
        .parameters()
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["running_mean", "running_var", "weight", "bias"]);
}

#[test]
fn an_embedding_picks_rows() {
    let pool = pool();
    let table = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let embedding = Embedding::from_tensor(table).unwrap();
    let picked = Tensor::from_slice(&pool, &[1i64, 0, 1], &[1, 3]).unwrap();
    let rows = embedding.forward(&picked).unwrap();
    assert_eq!(rows.shape(), [1, 3, 2]);
    assert_eq!(
        rows.to_vec::<f32>().unwrap(),
        [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]
    );
}

#[test]
fn convolutions_slide() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1.0f32, -2.0, 3.0, 4.0], &[1, 1, 4]).unwrap();
    let weight = Tensor::from_slice(&pool, &[1.0f32, 10.0], &[1, 1, 2]).unwrap();
    let bias = Tensor::from_slice(&pool, &[0.5f32], &[1]).unwrap();
    let of = |builder: streampool_model::nn::ConvBuilder| {
        let conv = builder.from_tensors(weight.clone(), Some(bias.clone()));
        conv.unwrap().forward(&x).unwrap().to_vec::<f32>().unwrap()
    };
    let conv = Conv::builder(1, 1, &[2]);
    assert_eq!(of(conv.clone()), [-18.5, 28.5, 43.5]);
    let rectified = conv.clone().activation(Activation::Relu);
    assert_eq!(of(rectified), [0.0, 28.5, 43.5]);
    let strided = conv.clone().stride(&[2]).padding(&[1]);
    assert_eq!(of(strided), [10.5, 28.5, 4.5]);
    assert_eq!(of(conv.clone().dilation(&[2])), [31.5, 38.5]);
    let late = conv.padding_before_after(&[(0, 1)]);
    assert_eq!(of(late), [-18.5, 28.5, 43.5, 4.5]);

    let weights = random(&pool);
    let x = normal(&pool, 6, &[2, 4, 5, 5]);
    let conv = Conv::builder(4, 6, &[3, 3]).padding(&[1, 1]);
    let grouped = conv.groups(2).without_bias().load(&weights).unwrap();
    let y = grouped.forward(&x).unwrap();
    assert_eq!(y.shape(), [2, 6, 5, 5]);
    for group in 0..2 {
        let part = grouped.weight().narrow(0, group * 3, 3).unwrap();
        let conv = Conv::builder(2, 3, &[3, 3]).padding(&[1, 1]);
        let alone = conv.from_tensors(part, None).unwrap();
        let alone = alone.forward(&x.narrow(1, group * 2, 2).unwrap()).unwrap();
        assert_same(&y.narrow(1, group * 3, 3).unwrap(), &alone);
    }
}

#[test]
fn a_sequence_is_one_module_after_the_other() {
    let pool = pool();
    let weights = random(&pool);
    let first = Linear::new(&weights.at(0), 4, 6).unwrap();
    let second = Linear::without_bias(&weights.at(2), 6, 2).unwrap();
    let model = Sequential::new()
        .with(first.clone())
        .with(Activation::Tanh)
        .with(second.clone())
        .with(|x: &Tensor| x.softmax(-1));
    let x = normal(&pool, 14, &[3, 4]);
    let expected = first.forward(&x).unwrap().tanh().unwrap();
    let expected = second.forward(&expected).unwrap().softmax(-1).unwrap();
    assert_same(&model.forward(&x).unwrap(), &expected);
    let names: Vec<_> = model
        .parameters()
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["0.weight", "0.bias", "2.weight"]);
    assert_eq!(model.len(), 4);
    assert!(Sequential::new().is_empty());
    assert_same(&Sequential::new().forward(&x).unwrap(), &x);
    // What it holds makes the same model again.
    let stored = Weights::from_tensors(model.parameters().unwrap(), &pool);
    let again = Linear::new(&stored.at(0), 4, 6).unwrap();
    assert_same(&again.forward(&x).unwrap(), &first.forward(&x).unwrap());
    assert_eq!(stored.unused(), ["2.weight"]);
}

#[test]
fn threads_share_a_module() {
    let pool = pool();
    let weights = random(&pool);
    let options = RecurrentOptions {
        batch_first: true,
        ..RecurrentOptions::default()
    };
    let model = Sequential::new()
        .with(LayerNorm::new(&weights.at("norm"), 16, 1e-5).unwrap())
        .with(MultiHeadAttention::new(&weights.at("attn"), 16, 4).unwrap())
        .with(
            Linear::new(&weights.at("wide"), 16, 48)
                .unwrap()
                .with_activation(Activation::Gelu),
        )
        .with(Lstm::new(&weights.at("lstm"), 48, 8, &options).unwrap());
    let inputs: Vec<_> = (0..8)
        .map(|seed| normal(&pool, seed, &[2, 3 + seed as usize, 16]))
        .collect();
    let bits = |x: &Tensor| -> Vec<u32> {
        let values = model.forward(x).unwrap().to_vec::<f32>().unwrap();
        values.into_iter().map(f32::to_bits).collect()
    };
    let expected: Vec<_> = inputs.iter().map(bits).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (inputs, expected, bits) = (&inputs, &expected, &bits);
            scope.spawn(move || {
                for round in 0..8 {
                    let place = (thread + round) % inputs.len();
                    assert!(bits(&inputs[place]) == expected[place], "input {place}");
                }
            });
        }
    });
}
