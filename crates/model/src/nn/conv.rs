//! Convolutions.

use streampool_tensor::{Activation, ConvOptions, Error, Result, Tensor};

use super::module::Module;
use super::weights::{Initial, Weights};
use crate::parameters;

/// A convolution over one, two or three spatial axes of `[batch, channels, spatial ...]`, with bias and activation in
/// the same launch.
#[derive(Clone)]
pub struct Conv {
    weight: Tensor,
    bias: Option<Tensor>,
    slide: Slide,
}

/// How windows move, and what is done with what they give.
#[derive(Debug, Clone)]
struct Slide {
    stride: Vec<usize>,
    padding: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
    activation: Activation,
}

/// A convolution in the making: what is not said is as usual, and there is a bias.
///
/// ```
/// # use streampool_host::{HostDevice, HostOptions};
/// # use streampool_model::nn::{Conv, Module, Weights};
/// # use streampool_tensor::{Activation, DType, Generator, Pool, Tensor};
/// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// # let weights = Weights::random(&Generator::new(7), &pool);
/// let conv = Conv::builder(3, 16, &[3, 3])
///     .stride(&[2, 2])
///     .padding(&[1, 1])
///     .activation(Activation::Relu)
///     .load(&weights.at("stem"))?;
/// let picture = Tensor::ones(&pool, &[1, 3, 8, 8], DType::F32)?;
/// assert_eq!(conv.forward(&picture)?.shape(), [1, 16, 4, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ConvBuilder {
    channels_in: usize,
    channels_out: usize,
    kernel: Vec<usize>,
    bias: bool,
    slide: Slide,
}

impl Conv {
    /// One that reads and makes so many channels, with a window of these sizes: as many as there are spatial axes.
    pub fn builder(channels_in: usize, channels_out: usize, kernel: &[usize]) -> ConvBuilder {
        ConvBuilder {
            channels_in,
            channels_out,
            kernel: kernel.to_vec(),
            bias: true,
            slide: Slide {
                stride: Vec::new(),
                padding: Vec::new(),
                dilation: Vec::new(),
                groups: 1,
                activation: Activation::None,
            },
        }
    }

    /// `[channels out, channels in / groups, kernel ...]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// `[channels out]`.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl ConvBuilder {
    /// The distance between neighbouring windows, for each spatial axis; 1.
    pub fn stride(mut self, stride: &[usize]) -> ConvBuilder {
        self.slide.stride = stride.to_vec();
        self
    }

    /// How many zeros there are on both sides, for each spatial axis; none.
    pub fn padding(mut self, padding: &[usize]) -> ConvBuilder {
        self.slide.padding = padding.iter().map(|&size| (size, size)).collect();
        self
    }

    /// How many zeros there are before and after, for each spatial axis; none.
    pub fn padding_before_after(mut self, padding: &[(usize, usize)]) -> ConvBuilder {
        self.slide.padding = padding.to_vec();
        self
    }

    /// The distance between neighbouring elements of a window, for each spatial axis; 1.
    pub fn dilation(mut self, dilation: &[usize]) -> ConvBuilder {
        self.slide.dilation = dilation.to_vec();
        self
    }

    /// In how many groups channels are; 1.
    pub fn groups(mut self, groups: usize) -> ConvBuilder {
        self.slide.groups = groups;
        self
    }

    /// What is applied last.
    pub fn activation(mut self, activation: Activation) -> ConvBuilder {
        self.slide.activation = activation;
        self
    }

    /// Without a bias.
    pub fn without_bias(mut self) -> ConvBuilder {
        self.bias = false;
        self
    }

    /// Takes `weight`, `[channels out, channels in / groups, kernel ...]`, and `bias`, `[channels out]`.
    pub fn load(self, weights: &Weights) -> Result<Conv> {
        let shape = self.weight_shape()?;
        let weight = weights.tensor("weight", &shape)?;
        let initial = Initial::of_weight(&shape);
        let bias = self
            .bias
            .then(|| weights.tensor_from("bias", &[self.channels_out], initial))
            .transpose()?;
        Ok(Conv {
            weight,
            bias,
            slide: self.slide,
        })
    }

    /// Of `weight`, `[channels out, channels in / groups, kernel ...]`, and `bias`, `[channels out]`.
    pub fn from_tensors(self, weight: Tensor, bias: Option<Tensor>) -> Result<Conv> {
        let op = "ConvBuilder::from_tensors";
        let shape = self.weight_shape()?;
        if weight.shape() != shape {
            let expected = format!("{shape:?}");
            return Err(Error::shape(op, "weight", weight.shape(), expected));
        }
        if let Some(bias) = &bias
            && bias.shape() != [self.channels_out]
        {
            let expected = format!("[{}]", self.channels_out);
            return Err(Error::shape(op, "bias", bias.shape(), expected));
        }
        Ok(Conv {
            weight,
            bias,
            slide: self.slide,
        })
    }

    fn weight_shape(&self) -> Result<Vec<usize>> {
        let (groups, inputs, outputs) = (self.slide.groups, self.channels_in, self.channels_out);
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            let expected =
                format!("a divisor of {inputs} and {outputs}, the channels that go in and out");
            return Err(Error::parameter("Conv", "groups", groups, expected));
        }
        Ok([&[outputs, inputs / groups], &self.kernel[..]].concat())
    }
}

impl Module for Conv {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let slide = &self.slide;
        let options = ConvOptions {
            bias: self.bias.as_ref(),
            stride: &slide.stride,
            padding: &slide.padding,
            dilation: &slide.dilation,
            groups: slide.groups,
            activation: slide.activation,
            zero_point: 0,
            to_bytes: None,
        };
        x.conv(&self.weight, &options)
    }

    parameters!(weight, bias);
}
