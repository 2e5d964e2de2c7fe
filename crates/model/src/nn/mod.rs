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
mod module;
mod norm;
mod recurrent;
mod sequential;
mod weights;

pub use crate::parameters;
pub use attention::MultiHeadAttention;
pub use conv::{Conv, ConvBuilder};
pub use embedding::Embedding;
pub use linear::Linear;
pub use module::{Module, Part, Parts};
pub use norm::{BatchNorm, LayerNorm, RmsNorm};
pub use recurrent::{Gru, Lstm, LstmState, RecurrentLayer, RecurrentOptions};
pub use sequential::Sequential;
/// What [`parameters!`] names.
#[doc(hidden)]
pub use streampool_tensor::{Error, Tensor};
pub use weights::{Initial, Weights};

/// Writes [`parameters`](Module::parameters) of a module, inside its `impl Module`: those of these fields, each of which is a
/// tensor, a module, or an `Option` or `Vec` of such. Fields that are not listed have none.
#[macro_export]
macro_rules! parameters {
    ($($field:ident),* $(,)?) => {
        fn parameters(
            &self,
        ) -> ::std::result::Result<
            ::std::vec::Vec<(::std::string::String, $crate::nn::Tensor)>,
            $crate::nn::Error,
        > {
            let parts = $crate::nn::Parts::new();
            $(let parts = parts.with(::std::stringify!($field), &self.$field)?;)*
            ::std::result::Result::Ok(parts.into_parameters())
        }
    };
}
