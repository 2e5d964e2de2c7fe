//! The ops of the ring, and what each should give.

use std::sync::Arc;

use streampool::{
    Activation, Axes, Binary, Buffer, Capture, DType, Expr, Layout, MatMul, Op, Program,
    ReduceKind, Stream, Unary,
};

use crate::dense::uploaded;
use crate::errors::difference;
use crate::noise::Noise;

const ROWS: usize = 8;
const COLUMNS: usize = 32;
const INNER: usize = COLUMNS;
const OUTPUTS: usize = 16;

/// How many kinds of op there are.
const KINDS: u64 = 8;

/// A result on its way to another thread, and what it should be.
pub struct Parcel {
    buffer: Buffer,
    right: Vec<f32>,
}

/// What all threads use.
pub struct Shared {
    weights: Arc<Buffer>,
    weights_on_host: Vec<f32>,
    /// `relu(3 x - 1)`.
    fused: Arc<Expr>,
    negate: Arc<Expr>,
    /// The product with the weights, then its sums: through scratch memory that all replays share.
    program: Program,
}

impl Shared {
    /// The weights, the expressions and the program, ready on the device.
    pub fn new(stream: &Stream) -> streampool::runtime::Result<Shared> {
        let weights_on_host = Noise::new(7).integers(INNER * OUTPUTS);
        let weights = Arc::new(uploaded(stream, &weights_on_host)?);
        let mut fused = Expr::builder();
        let x = fused.input(DType::F32)?;
        let three = fused.constant(3.0, DType::F32)?;
        let one = fused.constant(1.0, DType::F32)?;
        let tripled = fused.binary(Binary::Mul, x, three)?;
        let less = fused.binary(Binary::Sub, tripled, one)?;
        let y = fused.unary(Unary::Relu, less)?;
        let shared = Shared {
            program: program(stream, &weights)?,
            weights,
            weights_on_host,
            fused: Arc::new(fused.finish(&[y])?),
            negate: Arc::new(Expr::unary(Unary::Neg, DType::F32)?),
        };
        stream.synchronize()?;
        Ok(shared)
    }

    /// Computes something that belongs to `seed` on `stream`, without waiting for it.
    pub fn make(&self, stream: &Stream, seed: u64) -> streampool::runtime::Result<Parcel> {
        let x = Noise::new(seed).integers(ROWS * COLUMNS);
        let input = uploaded(stream, &x)?;
        let right = self.by_the_host(seed, &x);
        let mut buffer = stream.allocate(right.len() * DType::F32.size())?;
        let src = input.read(DType::F32, &[ROWS, COLUMNS])?;
        let op = match seed % KINDS {
            0 => Op::Fill {
                dst: buffer.write(DType::F32, &[ROWS, COLUMNS])?,
                value: f64::from(x[0]).into(),
            },
            1 => Op::Iota {
                dst: buffer.write(DType::F32, &[ROWS, COLUMNS])?,
                start: f64::from(x[0]).into(),
                step: 2.0.into(),
            },
            2 => Op::Map {
                expr: self.fused.clone(),
                inputs: vec![src],
                outputs: vec![buffer.write(DType::F32, &[ROWS, COLUMNS])?],
            },
            3 => Op::Copy {
                src: input.read_as(DType::F32, transposed()?)?,
                dst: buffer.write(DType::F32, &[COLUMNS, ROWS])?,
            },
            4 => Op::Reduce {
                kind: ReduceKind::Sum,
                src,
                dst: buffer.write(DType::F32, &[ROWS, 1])?,
                axes: Axes::new(&[1])?,
            },
            5 => Op::MatMul(MatMul {
                a: src,
                b: self.weights.read(DType::F32, &[INNER, OUTPUTS])?,
                out: buffer.write(DType::F32, &[ROWS, OUTPUTS])?,
                bias: None,
                activation: Activation::None,
                alpha: 1.0,
            }),
            6 => Op::Softmax {
                src,
                dst: buffer.write(DType::F32, &[ROWS, COLUMNS])?,
                axis: 1,
                log: false,
            },
            _ => {
                stream.replay(&self.program, &[&input], &mut [&mut buffer])?;
                return Ok(Parcel { buffer, right });
            }
        };
        stream.encode(op)?;
        Ok(Parcel { buffer, right })
    }

    fn by_the_host(&self, seed: u64, x: &[f32]) -> Vec<f32> {
        let rows = || x.chunks_exact(COLUMNS);
        let product = || -> Vec<f32> {
            rows()
                .flat_map(|row| {
                    (0..OUTPUTS).map(move |column| {
                        let weights = self.weights_on_host[column..].iter().step_by(OUTPUTS);
                        row.iter().zip(weights).map(|(x, w)| x * w).sum::<f32>()
                    })
                })
                .collect()
        };
        match seed % KINDS {
            0 => vec![x[0]; x.len()],
            1 => (0..x.len()).map(|i| x[0] + 2.0 * i as f32).collect(),
            2 => x.iter().map(|x| (3.0 * x - 1.0).max(0.0)).collect(),
            3 => (0..COLUMNS)
                .flat_map(|column| rows().map(move |row| row[column]))
                .collect(),
            4 => rows().map(|row| row.iter().sum()).collect(),
            5 => product(),
            6 => rows().flat_map(softmax).collect(),
            _ => product()
                .chunks_exact(OUTPUTS)
                .map(|row| row.iter().sum())
                .collect(),
        }
    }

    /// Reads what another thread computed, by an op on `stream`; says whether it is right. The buffer is freed
    /// here, far from its home.
    pub fn check(&self, stream: &Stream, parcel: Parcel) -> streampool::runtime::Result<bool> {
        let Parcel { buffer, right } = parcel;
        let shape = [right.len()];
        let mut negative = stream.allocate(buffer.bytes())?;
        stream.encode(Op::Map {
            expr: self.negate.clone(),
            inputs: vec![buffer.read(DType::F32, &shape)?],
            outputs: vec![negative.write(DType::F32, &shape)?],
        })?;
        drop(buffer);
        let mut got = stream.download::<f32>(&negative)?;
        got.iter_mut().for_each(|value| *value = -*value);
        // Whole numbers come out exact; the exponentials of softmax do not.
        Ok(difference(&got, &right) < 1e-5)
    }
}

fn transposed() -> streampool::runtime::Result<Layout> {
    Ok(Layout::contiguous(&[ROWS, COLUMNS])?.permute(&[1, 0])?)
}

fn softmax(row: &[f32]) -> Vec<f32> {
    let sum: f32 = row.iter().map(|x| x.exp()).sum();
    row.iter().map(|x| x.exp() / sum).collect()
}

fn program(stream: &Stream, weights: &Arc<Buffer>) -> streampool::runtime::Result<Program> {
    let size = DType::F32.size();
    let mut capture = Capture::new(stream);
    let x = capture.input(ROWS * COLUMNS * size)?;
    let product = capture.scratch(ROWS * OUTPUTS * size)?;
    let sums = capture.output(ROWS * size)?;
    let weights = capture.constant(weights)?;
    capture.encode(Op::MatMul(MatMul {
        a: x.view(DType::F32, &[ROWS, INNER])?,
        b: weights.view(DType::F32, &[INNER, OUTPUTS])?,
        out: product.view(DType::F32, &[ROWS, OUTPUTS])?,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }))?;
    capture.encode(Op::Reduce {
        kind: ReduceKind::Sum,
        src: product.view(DType::F32, &[ROWS, OUTPUTS])?,
        dst: sums.view(DType::F32, &[ROWS, 1])?,
        axes: Axes::new(&[1])?,
    })?;
    capture.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_right_and_a_wrong_one_is_seen() {
        let pool = streampool::host_pool().unwrap();
        let (one, other) = (pool.lease().unwrap(), pool.lease().unwrap());
        let shared = Shared::new(&one).unwrap();
        for seed in 0..2 * KINDS {
            let parcel = shared.make(&one, seed).unwrap();
            assert!(
                shared.check(&other, parcel).unwrap(),
                "kind {}",
                seed % KINDS
            );
            let mut wrong = shared.make(&one, seed).unwrap();
            let last = wrong.right.len() - 1;
            wrong.right[last] += 1.0;
            assert!(
                !shared.check(&other, wrong).unwrap(),
                "kind {}",
                seed % KINDS
            );
        }
    }
}
