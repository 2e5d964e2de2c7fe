//! What a module is, and the parameters of one of several parts, with the names of these.

use streampool_tensor::{Activation, Result, Tensor};

/// A part of a model: what it knows is on a device, and any thread may use it at any time.
pub trait Module: Send + Sync {
    /// What it makes of a tensor, on the current stream of the calling thread.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// What it holds, by the names that it is made by from [`Weights`](super::Weights): saved, it makes the same module again. For a module of
    /// fields [`parameters!`](crate::parameters) writes this.
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

/// An activation by itself. After a [`Linear`](super::Linear) or a [`Conv`](super::Conv) it costs nothing if it is made part of that.
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
            Activation::HardSwish => x.hard_swish(),
        }
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Vec::new())
    }
}

/// The parameters of parts, as they are listed.
#[derive(Debug, Default)]
pub struct Parts(Vec<(String, Tensor)>);

impl Parts {
    /// None so far.
    pub fn new() -> Parts {
        Parts::default()
    }

    /// Also those of a part of this name.
    pub fn with(mut self, name: &str, part: &(impl Part + ?Sized)) -> Result<Parts> {
        part.add_to(name, &mut self)?;
        Ok(self)
    }

    /// All of them.
    pub fn into_parameters(self) -> Vec<(String, Tensor)> {
        self.0
    }
}

/// A part of a module that may have parameters: a tensor, a module, or several.
pub trait Part {
    /// Adds its parameters to the others. `name` is what its module calls it.
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()>;
}

impl Part for Tensor {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        parts.0.push((name.to_owned(), self.clone()));
        Ok(())
    }
}

/// What comes after the name of the part is the part's own name for it.
impl<M: Module + ?Sized> Part for M {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        let named = |(own, tensor)| (format!("{name}.{own}"), tensor);
        parts.0.extend(self.parameters()?.into_iter().map(named));
        Ok(())
    }
}

impl<P: Part> Part for Option<P> {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        self.iter().try_for_each(|part| part.add_to(name, parts))
    }
}

/// Each is called by its number.
impl<P: Part> Part for Vec<P> {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        let mut each = self.iter().enumerate();
        each.try_for_each(|(place, part)| part.add_to(&format!("{name}.{place}"), parts))
    }
}
