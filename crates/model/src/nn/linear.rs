//! Linear layers.

use streampool_tensor::{Activation, Error, Result, Tensor};

use super::module::Module;
use super::weights::{Initial, Weights};
use crate::parameters;

/// `activation(x * weightᵀ + bias)` over the last axis, in one launch.
#[derive(Clone)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    activation: Activation,
}

impl Linear {
    /// Takes `weight`, `[features out, features in]`, and `bias`, `[features out]`.
    pub fn new(weights: &Weights, features_in: usize, features_out: usize) -> Result<Linear> {
        let layer = Linear::without_bias(weights, features_in, features_out)?;
        let bound = 1.0 / (features_in.max(1) as f64).sqrt();
        let bias = weights.tensor_from("bias", &[features_out], Initial::Uniform { bound })?;
        Ok(Linear {
            bias: Some(bias),
            ..layer
        })
    }

    /// Takes `weight`, `[features out, features in]`.
    pub fn without_bias(
        weights: &Weights,
        features_in: usize,
        features_out: usize,
    ) -> Result<Linear> {
        Linear::from_tensors(
            weights.tensor("weight", &[features_out, features_in])?,
            None,
        )
    }

    /// Of `weight`, `[features out, features in]`, and `bias`, `[features out]`.
    pub fn from_tensors(weight: Tensor, bias: Option<Tensor>) -> Result<Linear> {
        let op = "Linear::from_tensors";
        let &[made, _] = weight.shape() else {
            let expected = "[features out, features in]";
            return Err(Error::shape(op, "weight", weight.shape(), expected));
        };
        if let Some(bias) = &bias
            && bias.shape() != [made]
        {
            let expected = format!("[{made}], as weight {:?} makes", weight.shape());
            return Err(Error::shape(op, "bias", bias.shape(), expected));
        }
        Ok(Linear {
            weight,
            bias,
            activation: Activation::None,
        })
    }

    /// The same, with what is applied last.
    pub fn with_activation(self, activation: Activation) -> Linear {
        Linear { activation, ..self }
    }

    /// `[features out, features in]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// `[features out]`.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// What is applied last.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// How many features it reads.
    pub fn features_in(&self) -> usize {
        self.weight.shape()[1]
    }

    /// How many features it makes.
    pub fn features_out(&self) -> usize {
        self.weight.shape()[0]
    }

    /// The layer that makes `count` of its features, those from `first`: views, not copies.
    pub fn narrow(&self, first: usize, count: usize) -> Result<Linear> {
        let part = |tensor: &Tensor| tensor.narrow(0, first, count);
        Ok(Linear {
            weight: part(&self.weight)?,
            bias: self.bias.as_ref().map(part).transpose()?,
            activation: self.activation,
        })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear_with(&self.weight, self.bias.as_ref(), self.activation)
    }

    parameters!(weight, bias);
}
