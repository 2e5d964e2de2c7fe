//! A model written in Rust: layers with weights, shared by four threads.
//!
//! `cargo run -p streampool --example rust_model`. With a file of your own: `Weights::open("model.safetensors", &pool)`.

use streampool::model::nn::{LayerNorm, Linear, Module, Weights, parameters};
use streampool::prelude::*;
use streampool::tensor::{Activation, Generator, Result};

/// A residual block. Its weights are named for its fields: `norm.weight`, `up.weight`, `up.bias`, ...
struct Block {
    norm: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(weights: &Weights, features: usize) -> Result<Block> {
        let up = Linear::new(&weights.at("up"), features, 4 * features)?;
        Ok(Block {
            norm: LayerNorm::new(&weights.at("norm"), features, 1e-5)?,
            up: up.with_activation(Activation::Gelu),
            down: Linear::new(&weights.at("down"), 4 * features, features)?,
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let inner = self.up.forward(&self.norm.forward(x)?)?;
        x + &self.down.forward(&inner)?
    }

    parameters!(norm, up, down);
}

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let pool = streampool::host_pool()?;
    let block = Block::new(&Weights::random(&Generator::new(7), &pool), 64)?;
    for (name, tensor) in block.parameters()? {
        println!("{name}: {:?}", tensor.shape());
    }

    let x = Tensor::ones(&pool, &[2, 64], DType::F32)?;
    let expected = block.forward(&x)?.to_vec::<f32>()?;
    std::thread::scope(|scope| {
        let threads = [0; 4].map(|_| scope.spawn(|| block.forward(&x)?.to_vec::<f32>()));
        for thread in threads {
            assert_eq!(thread.join().expect("no thread panics")?, expected);
        }
        Ok(())
    })
}
