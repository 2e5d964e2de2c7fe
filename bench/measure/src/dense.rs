//! Dense layers: `y = activation(x W + b)`, on the device and on the host to compare with.

use std::sync::Arc;

use streampool::{Activation, Buffer, DType, Layout, MatMul, Op, Stream};

use crate::Result;
use crate::noise::Noise;

/// A layer whose weights all threads share.
pub struct Dense {
    inputs: usize,
    outputs: usize,
    activation: Activation,
    /// The weights as `[outputs, inputs]`, as frameworks keep them, and on the host.
    pub weights: Arc<Buffer>,
    weights_on_host: Vec<f32>,
    pub bias: Arc<Buffer>,
    bias_on_host: Vec<f32>,
}

/// How the operands of a layer lie in memory.
#[derive(Clone, Copy)]
pub struct Shapes {
    pub x: Layout,
    pub weights: Layout,
    pub bias: Layout,
    pub y: Layout,
}

/// One user of a layer: an input, the same on the host, and room for the output.
pub struct User {
    pub shapes: Shapes,
    pub x: Buffer,
    pub input: Vec<f32>,
    pub y: Buffer,
}

impl Dense {
    /// A layer of weights that keep values about as large as they were, ready on the device.
    pub fn new(
        stream: &Stream,
        noise: &mut Noise,
        (inputs, outputs): (usize, usize),
        activation: Activation,
    ) -> streampool::runtime::Result<Dense> {
        let scale = (3.0 / inputs as f32).sqrt();
        let weights = noise.values(inputs * outputs).into_iter();
        let weights_on_host: Vec<f32> = weights.map(|weight| weight * scale).collect();
        let bias_on_host = noise.values(outputs);
        let layer = Dense {
            inputs,
            outputs,
            activation,
            weights: Arc::new(uploaded(stream, &weights_on_host)?),
            weights_on_host,
            bias: Arc::new(uploaded(stream, &bias_on_host)?),
            bias_on_host,
        };
        stream.synchronize()?;
        Ok(layer)
    }

    /// The bytes of a row of the result.
    pub fn output_bytes(&self) -> usize {
        self.outputs * DType::F32.size()
    }

    /// How its operands lie in memory, for so many rows.
    pub fn shapes(&self, rows: usize) -> streampool::runtime::Result<Shapes> {
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

    /// Runs it for `user`, and waits for it.
    pub fn run(&self, stream: &Stream, user: &mut User) -> streampool::runtime::Result<()> {
        let shapes = user.shapes;
        stream.encode(self.op(
            user.x.read_as(DType::F32, shapes.x)?,
            self.weights.read_as(DType::F32, shapes.weights)?,
            self.bias.read_as(DType::F32, shapes.bias)?,
            user.y.write_as(DType::F32, shapes.y)?,
        ))?;
        stream.synchronize()
    }

    /// What it makes of the rows of `x`, by the host.
    pub fn by_the_host(&self, x: &[f32]) -> Vec<f32> {
        let element = |row: &[f32], (weights, bias): (&[f32], &f32)| {
            let products = row.iter().zip(weights);
            let sum: f64 = products.map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
            let y = (sum + f64::from(*bias)) as f32;
            match self.activation {
                Activation::Relu => y.max(0.0),
                _ => y,
            }
        };
        let columns = || {
            let columns = self.weights_on_host.chunks_exact(self.inputs);
            columns.zip(&self.bias_on_host)
        };
        let rows = x.chunks_exact(self.inputs);
        rows.flat_map(|row| columns().map(move |column| element(row, column)))
            .collect()
    }
}

impl User {
    /// A user of `layer` with so many rows of `noise`, ready on the device.
    pub fn of(stream: &Stream, layer: &Dense, rows: usize, noise: &mut Noise) -> Result<User> {
        let input = noise.values(rows * layer.inputs);
        let user = User {
            shapes: layer.shapes(rows)?,
            x: uploaded(stream, &input)?,
            input,
            y: stream.allocate(rows * layer.output_bytes())?,
        };
        stream.synchronize()?;
        Ok(user)
    }
}

/// A buffer of these values.
pub fn uploaded(stream: &Stream, values: &[f32]) -> streampool::runtime::Result<Buffer> {
    let mut buffer = stream.allocate(values.len() * DType::F32.size())?;
    stream.upload(&mut buffer, values)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::difference;

    #[test]
    fn the_device_agrees_with_the_host() {
        let pool = streampool::host_pool().unwrap();
        let stream = pool.lease().unwrap();
        let mut noise = Noise::new(1);
        for activation in [Activation::Relu, Activation::None] {
            let layer = Dense::new(&stream, &mut noise, (24, 10), activation).unwrap();
            let mut user = User::of(&stream, &layer, 3, &mut noise).unwrap();
            layer.run(&stream, &mut user).unwrap();
            let got = stream.download::<f32>(&user.y).unwrap();
            let right = layer.by_the_host(&user.input);
            assert!(difference(&got, &right) < 1e-5, "{got:?} {right:?}");
            assert!(right.iter().any(|&x| x != 0.0));
        }
    }
}
