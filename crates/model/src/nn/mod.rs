//! Layers, for those who define models in Rust.
//!
//! A [`Module`] holds its parameters on a device and computes on the calling thread's current stream. It never changes
//! once it is made, so any number of threads share one without a lock. [`Weights`] hands out the parameters: from a
//! safetensors file, from tensors, or drawn at random; names and layouts are those of PyTorch.
//!
//! ```
//! use streampool_host::{HostDevice, HostOptions};
//! use streampool_model::nn::{LayerNorm, Linear, Module, Sequential, Weights};
//! use streampool_tensor::{Activation, DType, Generator, Pool, Tensor};
//!
//! let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! // `Weights::open("model.safetensors", &pool)?` for trained ones.
//! let weights = Weights::random(&Generator::new(7), &pool);
//! let model = Sequential::new()
//!     .with(LayerNorm::new(&weights.at("norm"), 8, 1e-5)?)
//!     .with(Linear::new(&weights.at("mlp").at(0), 8, 32)?.with_activation(Activation::Gelu))
//!     .with(Linear::new(&weights.at("mlp").at(1), 32, 4)?)
//!     .with(|x: &Tensor| x.softmax(-1));
//!
//! let x = Tensor::ones(&pool, &[2, 8], DType::F32)?;
//! let expected = model.forward(&x)?.to_vec::<f32>()?;
//! std::thread::scope(|scope| {
//!     let threads = [0; 4].map(|_| scope.spawn(|| model.forward(&x)?.to_vec::<f32>()));
//!     for thread in threads {
//!         assert_eq!(thread.join().unwrap()?, expected);
//!     }
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Weights that nobody asked for
//!
//! What a model left unused often tells what was forgotten:
//!
//! ```
//! # use streampool_host::{HostDevice, HostOptions};
//! # use streampool_model::nn::{Linear, Weights};
//! # use streampool_tensor::{DType, Pool, Tensor};
//! # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let stored = ["head.weight", "head.bias"].map(|name| name.to_owned());
//! let tensors = [Tensor::ones(&pool, &[2, 3], DType::F32)?, Tensor::ones(&pool, &[2], DType::F32)?];
//! let weights = Weights::from_tensors(stored.into_iter().zip(tensors), &pool);
//! let head = Linear::without_bias(&weights.at("head"), 3, 2)?;
//! assert_eq!(weights.unused(), ["head.bias"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

//!
//! # Modules of your own
//!
//! A module's fields are its parts, and their names are those of its weights. [`parameters!`] lists those that hold any, so that
//! what is trained elsewhere can be loaded, and what is loaded can be saved:
//!
//! ```
//! # use streampool_host::{HostDevice, HostOptions};
//! use streampool_model::nn::{LayerNorm, Linear, Module, Weights, parameters};
//! # use streampool_tensor::{Generator, Pool, Result, Tensor};
//!
//! struct Block {
//!     norm: LayerNorm,
//!     layers: Vec<Linear>,
//!     gain: Option<Tensor>,
//!     depth: usize,
//! }
//!
//! impl Module for Block {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.layers.iter().try_fold(self.norm.forward(x)?, |x, layer| layer.forward(&x))
//!     }
//!
//!     parameters!(norm, layers, gain);
//! }
//!
//! # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! # let weights = Weights::random(&Generator::new(7), &pool);
//! let layers = (0..2).map(|layer| Linear::new(&weights.at("layers").at(layer), 8, 8));
//! let block = Block {
//!     norm: LayerNorm::new(&weights.at("norm"), 8, 1e-5)?,
//!     layers: layers.collect::<Result<_>>()?,
//!     gain: None,
//!     depth: 2,
//! };
//! let names: Vec<String> = block.parameters()?.into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names[..3], ["norm.weight", "norm.bias", "layers.0.weight"]);
//! # assert_eq!((names.len(), block.depth), (6, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod conv;
mod embedding;
mod linear;
mod near;
mod norm;
mod parts;
mod recurrent;
mod sequential;
mod weights;

pub use crate::parameters;
pub use attention::MultiHeadAttention;
pub use conv::{Conv, ConvBuilder};
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{BatchNorm, LayerNorm, RmsNorm};
pub use parts::{Part, Parts};
pub use recurrent::{Gru, Lstm, LstmState, RecurrentLayer, RecurrentOptions};
pub use sequential::Sequential;
pub use weights::{Initial, Weights};

use streampool_tensor::{Activation, Result};
/// What [`parameters!`] names.
#[doc(hidden)]
pub use streampool_tensor::{Error, Tensor};

/// A part of a model: what it knows is on a device, and any thread may use it at any time.
pub trait Module: Send + Sync {
    /// What it makes of a tensor, on the current stream of the calling thread.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// What it holds, by the names that it is made by from [`Weights`]: saved, it makes the same module again. For a module of
    /// fields [`parameters!`] writes this.
    fn parameters(&self) -> Result<Vec<(String, Tensor)>>;
}

/// A function without parameters of its own, such as a reshape between two layers.
impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync> Module for F {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self(x)
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Vec::new())
    }
}

/// An activation by itself. After a [`Linear`] or a [`Conv`] it costs nothing if it is made part of that.
impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::None => Ok(x.clone()),
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
        }
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Vec::new())
    }
}
