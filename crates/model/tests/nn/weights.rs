//! Where the parameters of layers come from.

use std::collections::BTreeMap;

use streampool_model::nn::{Embedding, Initial, Linear, Module, Weights};
use streampool_tensor::{DType, Generator, Pool, Tensor, write_safetensors};

use crate::{pool, refused};

/// Some weights of a model, in a pool of their own.
fn stored(pool: &Pool) -> Vec<(String, Tensor)> {
    let matrix = Tensor::arange(pool, 0, 6, 1, DType::F32).unwrap();
    [
        ("encoder.layer.0.weight", matrix.view(&[2, 3]).unwrap()),
        (
            "encoder.layer.0.bias",
            Tensor::ones(pool, &[2], DType::F32).unwrap(),
        ),
        (
            "encoder.layers",
            Tensor::ones(pool, &[1], DType::F32).unwrap(),
        ),
        ("ids", Tensor::arange(pool, 0, 4, 1, DType::I64).unwrap()),
    ]
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .to_vec()
}

#[test]
fn names_are_found_under_prefixes() {
    let pool = pool();
    let weights = Weights::from_tensors(stored(&pool), &pool);
    let layer = weights.at("encoder").at("layer").at(0);
    assert_eq!(layer.path(), "encoder.layer.0");
    assert!(layer.has("weight") && !layer.has("ids"));
    assert_eq!(layer.shape("weight"), Some(&[2, 3][..]));
    assert_eq!(layer.shape("scale"), None);
    let layers = weights.at("encoder").at("layer");
    let names: Vec<_> = layers.names().collect();
    assert_eq!(names, ["encoder.layer.0.bias", "encoder.layer.0.weight"]);
    assert_eq!(weights.unused().len(), 4);
    let linear = Linear::new(&layer, 3, 2).unwrap();
    assert_eq!(weights.unused(), ["encoder.layers", "ids"]);
    assert_eq!(layer.unused(), [""; 0]);
    assert_eq!(weights.raw("ids").unwrap().dtype(), DType::I64);
    let x = Tensor::ones(&pool, &[1, 3], DType::F32).unwrap();
    let y = linear.forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(y, [4.0, 13.0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let weights = Weights::from_tensors(stored(&pool), &pool);
    let layer = weights.at("encoder.layer.0");
    assert_eq!(
        refused(layer.tensor("wieght", &[2, 3])),
        "weights: name is `encoder.layer.0.wieght`, expected one of 4 names, such as `encoder.layer.0.weight`, \
         `encoder.layer.0.bias`, `encoder.layers`"
    );
    assert_eq!(
        refused(layer.tensor("weight", &[3, 2])),
        "weights: tensor is `encoder.layer.0.weight` of shape [2, 3], expected floats of shape [3, 2]"
    );
    assert_eq!(
        refused(weights.tensor("ids", &[4])),
        "weights: tensor is `ids` of type i64, expected floats of shape [4]"
    );
    assert!(refused(Weights::random(&Generator::new(1), &pool).raw("x")).contains("`x`"));
    assert!(weights.with_dtype(DType::I32).is_err());
    let missing = Embedding::new(&weights.at("embeddings"), 4, 2);
    let error = missing.err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("`embeddings.weight`")));
}

#[test]
fn floats_are_converted_when_asked() {
    let pool = pool();
    let weights = Weights::from_tensors(stored(&pool), &pool);
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let converted = weights.with_dtype(dtype).unwrap();
        let layer = Linear::new(&converted.at("encoder.layer.0"), 3, 2).unwrap();
        assert!(
            layer
                .parameters()
                .unwrap()
                .iter()
                .all(|(_, tensor)| tensor.dtype() == dtype)
        );
        let values = layer.weight().to_dtype(DType::F32).unwrap();
        assert_eq!(
            values.to_vec::<f32>().unwrap(),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert_eq!(converted.raw("ids").unwrap().dtype(), DType::I64);
    }
}

#[test]
fn a_file_is_read_to_the_pool() {
    let pool = pool();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nn_weights.safetensors");
    let tensors = stored(&pool);
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    write_safetensors(&path, named, &BTreeMap::new()).unwrap();
    let other = crate::pool();
    let weights = Weights::open(&path, &other).unwrap();
    let layer = Linear::new(&weights.at("encoder.layer.0"), 3, 2).unwrap();
    assert_eq!(weights.unused(), ["encoder.layers", "ids"]);
    // It is in the pool of the weights, and so is what is taken from tensors elsewhere.
    let x = Tensor::ones(&other, &[1, 3], DType::F32).unwrap();
    assert_eq!(
        layer.forward(&x).unwrap().to_vec::<f32>().unwrap(),
        [4.0, 13.0]
    );
    let moved = Weights::from_tensors(tensors, &other);
    let layer = Linear::new(&moved.at("encoder.layer.0"), 3, 2).unwrap();
    assert_eq!(
        layer.forward(&x).unwrap().to_vec::<f32>().unwrap(),
        [4.0, 13.0]
    );
    std::fs::remove_file(&path).unwrap();
    assert!(Weights::open(&path, &other).is_err());
}

#[test]
fn random_ones_depend_on_seed_and_name() {
    let pool = pool();
    let values = |seed, name: &str| {
        let weights = Weights::random(&Generator::new(seed), &pool);
        let tensor = weights.at("layer").tensor(name, &[8, 16]).unwrap();
        tensor.to_vec::<f32>().unwrap()
    };
    let first = values(1, "a");
    assert_eq!(first, values(1, "a"));
    assert_ne!(first, values(1, "b"));
    assert_ne!(first, values(2, "a"));
    assert!(first.iter().all(|value| value.abs() <= 0.25));
    let weights = Weights::random(&Generator::new(1), &pool);
    let constant = weights.tensor_from("c", &[2], Initial::Constant(3.0));
    assert_eq!(constant.unwrap().to_vec::<f32>().unwrap(), [3.0, 3.0]);
    let half = weights.with_dtype(DType::F16).unwrap();
    let deviation = Initial::Normal { deviation: 0.5 };
    let half = half.tensor_from("d", &[2], deviation).unwrap();
    assert_eq!(half.dtype(), DType::F16);
    assert!(weights.has("anything") && weights.unused().is_empty());
}
