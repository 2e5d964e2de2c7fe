//! Normalisation.

use streampool_tensor::{Result, Tensor};

use super::module::{Module, Parts};
use super::weights::{Initial, Weights};

const ZEROS: Initial = Initial::Constant(0.0);
const ONES: Initial = Initial::Constant(1.0);

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias` over the last axis.
#[derive(Clone)]
pub struct LayerNorm {
    scale: Tensor,
    bias: Option<Tensor>,
    epsilon: f64,
}

impl LayerNorm {
    /// Takes `weight` and `bias`, both `[features]`.
    pub fn new(weights: &Weights, features: usize, epsilon: f64) -> Result<LayerNorm> {
        let scale = weights.tensor_from("weight", &[features], ONES)?;
        let bias = weights.tensor_from("bias", &[features], ZEROS)?;
        Ok(LayerNorm::from_tensors(scale, Some(bias), epsilon))
    }

    /// Of `scale` and `bias`, both of the shape of the last axes, as many as `scale` has.
    pub fn from_tensors(scale: Tensor, bias: Option<Tensor>, epsilon: f64) -> LayerNorm {
        LayerNorm {
            scale,
            bias,
            epsilon,
        }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let axis = -(self.scale.rank() as isize);
        x.layer_norm(axis, Some(&self.scale), self.bias.as_ref(), self.epsilon)
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Parts::new()
            .with("weight", &self.scale)?
            .with("bias", &self.bias)?
            .into_parameters())
    }
}

/// `x / sqrt(mean of x² + epsilon) * scale` over the last axis.
#[derive(Clone)]
pub struct RmsNorm {
    scale: Tensor,
    epsilon: f64,
}

impl RmsNorm {
    /// Takes `weight`, `[features]`.
    pub fn new(weights: &Weights, features: usize, epsilon: f64) -> Result<RmsNorm> {
        let scale = weights.tensor_from("weight", &[features], ONES)?;
        Ok(RmsNorm::from_tensor(scale, epsilon))
    }

    /// Of `scale`, of the shape of the last axes, as many as it has.
    pub fn from_tensor(scale: Tensor, epsilon: f64) -> RmsNorm {
        RmsNorm { scale, epsilon }
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rms_norm(
            -(self.scale.rank() as isize),
            Some(&self.scale),
            self.epsilon,
        )
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Parts::new().with("weight", &self.scale)?.into_parameters())
    }
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias` for each channel (axis 1), with what training found.
#[derive(Clone)]
pub struct BatchNorm {
    mean: Tensor,
    variance: Tensor,
    scale: Option<Tensor>,
    bias: Option<Tensor>,
    epsilon: f64,
}

impl BatchNorm {
    /// Takes `running_mean`, `running_var`, `weight` and `bias`, all `[channels]`. `num_batches_tracked`, which counts
    /// for training only, is taken if it is there.
    pub fn new(weights: &Weights, channels: usize, epsilon: f64) -> Result<BatchNorm> {
        let take = |name, initial| weights.tensor_from(name, &[channels], initial);
        let counter = "num_batches_tracked";
        if weights.shape(counter).is_some() {
            weights.raw(counter)?;
        }
        let (mean, variance) = (take("running_mean", ZEROS)?, take("running_var", ONES)?);
        let (scale, bias) = (take("weight", ONES)?, take("bias", ZEROS)?);
        Ok(BatchNorm::from_tensors(
            mean,
            variance,
            Some(scale),
            Some(bias),
            epsilon,
        ))
    }

    /// Of these, all `[channels]`.
    pub fn from_tensors(
        mean: Tensor,
        variance: Tensor,
        scale: Option<Tensor>,
        bias: Option<Tensor>,
        epsilon: f64,
    ) -> BatchNorm {
        BatchNorm {
            mean,
            variance,
            scale,
            bias,
            epsilon,
        }
    }
}

impl Module for BatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.batch_norm(
            &self.mean,
            &self.variance,
            self.scale.as_ref(),
            self.bias.as_ref(),
            self.epsilon,
        )
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Parts::new()
            .with("running_mean", &self.mean)?
            .with("running_var", &self.variance)?
            .with("weight", &self.scale)?
            .with("bias", &self.bias)?
            .into_parameters())
    }
}
