//! What a module holds makes the same module again, through a file.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use streampool_model::nn::{
    BatchNorm, Conv, Embedding, Gru, LayerNorm, Linear, Lstm, Module, MultiHeadAttention,
    RecurrentOptions, RmsNorm, Sequential, Weights, parameters,
};

use streampool_tensor::{Activation, DType, Pool, Result, Tensor, write_safetensors};

use super::{assert_same, normal, pool, random};

/// A module of a user's.
struct Mixed {
    first: Linear,
    more: Vec<RmsNorm>,
    none: Option<Linear>,
    scale: Tensor,
}

impl Module for Mixed {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.first.forward(x)?.mul(&self.scale)?;
        self.more.iter().try_fold(x, |x, norm| norm.forward(&x))
    }

    parameters!(first, more, none, scale);
}

/// A module that is made of weights, and something to give it.
type Case = (
    &'static str,
    Box<dyn Fn(&Weights) -> Result<Box<dyn Module>>>,
    Tensor,
);

fn case<M: Module + 'static>(
    name: &'static str,
    x: &Tensor,
    make: impl Fn(&Weights) -> Result<M> + 'static,
) -> Case {
    let make = move |weights: &Weights| Ok(Box::new(make(weights)?) as Box<dyn Module>);
    (name, Box::new(make), x.clone())
}

/// Each module, of features that are even.
fn cases(pool: &Pool, features: usize, options: &RecurrentOptions) -> Vec<Case> {
    let heads = 2;
    let x = normal(pool, 3, &[2, 5, features]);
    let picture = normal(pool, 4, &[2, features, 4, 4]);
    let places = Tensor::from_slice(pool, &[1i64, 0, 1], &[3]).unwrap();
    let (lstm, gru) = (*options, *options);
    vec![
        case("linear", &x, move |weights| {
            Linear::new(weights, features, 3)
        }),
        case("linear without bias", &x, move |weights| {
            Linear::without_bias(weights, features, 3)
        }),
        case("conv", &picture, move |weights| {
            Conv::builder(features, 4, &[3, 3]).load(weights)
        }),
        case("embedding", &places, move |weights| {
            Embedding::new(weights, 2, features)
        }),
        case("layer norm", &x, move |weights| {
            LayerNorm::new(weights, features, 1e-5)
        }),
        case("rms norm", &x, move |weights| {
            RmsNorm::new(weights, features, 1e-5)
        }),
        case("batch norm", &picture, move |weights| {
            BatchNorm::new(weights, features, 1e-5)
        }),
        case("lstm", &x, move |weights| {
            Lstm::new(weights, features, 3, &lstm)
        }),
        case("gru", &x, move |weights| {
            Gru::new(weights, features, 3, &gru)
        }),
        case("attention", &x, move |weights| {
            MultiHeadAttention::new(weights, features, heads)
        }),
        case("attention of projections", &x, move |weights| {
            let linear = |name: &str| Linear::new(&weights.at(name), features, features);
            let all = [linear("q_proj")?, linear("k_proj")?, linear("v_proj")?];
            MultiHeadAttention::from_projections(all, linear("out_proj")?, heads, heads)
        }),
        case("attention of few keys", &x, move |weights| {
            let linear = |name: &str, made| Linear::without_bias(&weights.at(name), features, made);
            let (query, key) = (linear("q_proj", features)?, linear("k_proj", features / 2)?);
            let all = [query, key, linear("v_proj", features / 2)?];
            MultiHeadAttention::from_projections(all, linear("out_proj", features)?, heads, 1)
        }),
        case("sequence", &x, move |weights| {
            Ok(Sequential::new()
                .with(LayerNorm::new(&weights.at(0), features, 1e-5)?)
                .with(Activation::Silu)
                .with(|x: &Tensor| x.softmax(-1))
                .with(Linear::new(&weights.at(3), features, 2)?))
        }),
        case("a user's", &x, move |weights| {
            let more = (0..2).map(|place| RmsNorm::new(&weights.at("more").at(place), 4, 1e-5));
            Ok(Mixed {
                first: Linear::new(&weights.at("first"), features, 4)?,
                more: more.collect::<Result<_>>()?,
                none: None,
                scale: weights.tensor("scale", &[4])?,
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn what_a_module_holds_makes_it_again(
        half in 1usize..5,
        layers in 1usize..3,
        bidirectional: bool,
        bias: bool,
        half_precision: bool,
    ) {
        let pool = pool();
        let options = RecurrentOptions { layers, bidirectional, bias, ..Default::default() };
        for (name, make, x) in cases(&pool, 2 * half, &options) {
            let dtype = if half_precision { DType::F16 } else { DType::F32 };
            let x = if x.dtype() == DType::F32 { x.to_dtype(dtype).unwrap() } else { x };
            let module = make(&random(&pool).with_dtype(dtype).unwrap()).unwrap();
            let held = module.parameters().unwrap();
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("round_trip.safetensors");
            let tensors = held.iter().map(|(name, tensor)| (&name[..], tensor));
            write_safetensors(&path, tensors, &BTreeMap::new()).unwrap();

            let stored = Weights::open(&path, &pool).unwrap();
            let again = make(&stored);
            prop_assert!(again.is_ok(), "{name}: {}", again.err().unwrap());
            let again = again.unwrap();
            prop_assert_eq!(stored.unused(), [""; 0], "{}", name);
            assert_same(&again.forward(&x).unwrap(), &module.forward(&x).unwrap());
            for ((one, first), (other, second)) in held.iter().zip(&again.parameters().unwrap()) {
                prop_assert_eq!(one, other);
                assert_same(first, second);
            }
        }
    }
}
