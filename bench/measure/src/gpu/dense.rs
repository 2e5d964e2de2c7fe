//! Dense layers: `y = activation(x W + b)`, on the device and on the host to compare with.

use std::sync::Arc;

use streampool::{Activation, Buffer, DType, Layout, MatMul, Op, Stream};

use crate::noise::Noise;

/// A layer whose weights all threads share.
pub struct Dense {
    inputs: usize,
    outputs: usize,
    activation: Activation,
    /// The weights as `[outputs, inputs]`, as frameworks keep them.
    pub weights: Arc<Buffer>,
    /// The bias.
    pub bias: Arc<Buffer>,
    weights_on_host: Vec<f32>,
    bias_on_host: Vec<f32>,
}

impl Dense {
    /// A layer of weights that keep values about as large as they were, ready on the device.
    pub fn new(
        stream: &Stream,
        noise: &mut Noise,
        (inputs, outputs): (usize, usize),
        activation: Activation,
    ) -> streampool::Result<Dense> {
        let scale = (3.0 / inputs as f32).sqrt();
        let mut weights_on_host = noise.values(inputs * outputs);
        weights_on_host
            .iter_mut()
            .for_each(|weight| *weight *= scale);
        let bias_on_host = noise.values(outputs);
        let weights = Arc::new(uploaded(stream, &weights_on_host)?);
        let bias = Arc::new(uploaded(stream, &bias_on_host)?);
        stream.synchronize()?;
        Ok(Dense {
            inputs,
            outputs,
            activation,
            weights,
            bias,
            weights_on_host,
            bias_on_host,
        })
    }

    /// The width of a row of the result.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How its operands lie in memory, for so many rows.
    pub fn shapes(&self, rows: usize) -> streampool::Result<Shapes> {
        Ok(Shapes {
            x: Layout::contiguous(&[rows, self.inputs])?,
            weights: Layout::contiguous(&[self.outputs, self.inputs])?.permute(&[1, 0])?,
            bias: Layout::contiguous(&[self.outputs])?,
            y: Layout::contiguous(&[rows, self.outputs])?,
        })
    }

    /// The op over these operands.
    pub fn op<T>(&self, x: T, weights: T, bias: T, y: T) -> Op<T> {
        Op::MatMul(MatMul {
            a: x,
            b: weights,
            out: y,
            bias: Some(bias),
            activation: self.activation,
            alpha: 1.0,
        })
    }

    /// What it makes of the rows of `x`, by the host.
    pub fn by_the_host(&self, x: &[f32]) -> Vec<f32> {
        let dot = |row: &[f32], weights: &[f32]| -> f64 {
            let products = row.iter().zip(weights);
            products.map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
        };
        x.chunks_exact(self.inputs)
            .flat_map(|row| {
                let columns = self.weights_on_host.chunks_exact(self.inputs);
                columns
                    .zip(&self.bias_on_host)
                    .map(move |(weights, &bias)| {
                        let sum = dot(row, weights) + f64::from(bias);
                        match self.activation {
                            Activation::Relu => sum.max(0.0) as f32,
                            _ => sum as f32,
                        }
                    })
            })
            .collect()
    }
}

/// How the operands of a layer lie in memory.
#[derive(Clone, Copy)]
pub struct Shapes {
    /// The input.
    pub x: Layout,
    /// The weights, as the product takes them.
    pub weights: Layout,
    /// The bias.
    pub bias: Layout,
    /// The output.
    pub y: Layout,
}

/// A buffer of these values.
pub fn uploaded(stream: &Stream, values: &[f32]) -> streampool::Result<Buffer> {
    let mut buffer = stream.allocate(values.len() * DType::F32.size())?;
    stream.upload(&mut buffer, values)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::difference;

    #[test]
    fn the_device_agrees_with_the_host() {
        let pool = streampool::host_pool().unwrap();
        let stream = pool.lease().unwrap();
        let mut noise = Noise::new(1);
        for activation in [Activation::Relu, Activation::None] {
            let layer = Dense::new(&stream, &mut noise, (24, 10), activation).unwrap();
            let shapes = layer.shapes(3).unwrap();
            let values = noise.values(3 * 24);
            let x = uploaded(&stream, &values).unwrap();
            let mut y = stream.allocate(3 * 10 * 4).unwrap();
            let op = layer.op(
                x.read_as(DType::F32, shapes.x).unwrap(),
                layer.weights.read_as(DType::F32, shapes.weights).unwrap(),
                layer.bias.read_as(DType::F32, shapes.bias).unwrap(),
                y.write_as(DType::F32, shapes.y).unwrap(),
            );
            stream.encode(op).unwrap();
            let got = stream.download::<f32>(&y).unwrap();
            let right = layer.by_the_host(&values);
            assert!(difference(&got, &right) < 1e-5, "{got:?} {right:?}");
            assert!(right.iter().any(|&x| x != 0.0));
        }
    }
}
