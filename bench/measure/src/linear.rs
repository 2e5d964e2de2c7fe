//! A small layer of a model: what threads gain, and what the runtime adds to the kernel.

use std::sync::Arc;

use streampool::{Activation, Buffer, DType, Layout, MatMul, Op, Pool, Stream};

use super::bare::Bare;
use super::figure::{Figure, Goal, Measurement, Unit};
use super::timing::{per_call, rate};
use crate::Result;

const THREADS: usize = 8;
const BATCH: usize = 4;
const INPUTS: usize = 256;
const OUTPUTS: usize = 128;

/// The weights of the layer, shared by all who use it.
pub struct Layer {
    weights: Buffer,
    bias: Buffer,
    shapes: Shapes,
}

/// How the operands lie in memory.
#[derive(Clone, Copy)]
struct Shapes {
    x: Layout,
    weights: Layout,
    bias: Layout,
    y: Layout,
}

/// One user's input and output.
pub struct Activations {
    x: Buffer,
    y: Buffer,
}

impl Layer {
    /// The layer, ready on the device.
    pub fn new(stream: &Stream) -> Result<Arc<Layer>> {
        let shapes = Shapes {
            x: Layout::contiguous(&[BATCH, INPUTS])?,
            weights: Layout::contiguous(&[OUTPUTS, INPUTS])?.permute(&[1, 0])?,
            bias: Layout::contiguous(&[OUTPUTS])?,
            y: Layout::contiguous(&[BATCH, OUTPUTS])?,
        };
        let layer = Layer {
            weights: filled(stream, OUTPUTS * INPUTS)?,
            bias: filled(stream, OUTPUTS)?,
            shapes,
        };
        stream.synchronize()?;
        Ok(Arc::new(layer))
    }

    /// The layer over `data`, as a kernel takes it.
    pub fn kernel_op(&self, data: &Activations) -> streampool::Result<MatMul> {
        let view = |buffer: &Buffer, layout| {
            streampool::device::View::new(buffer.span(), DType::F32, layout)
        };
        Ok(MatMul {
            a: view(&data.x, self.shapes.x)?,
            b: view(&self.weights, self.shapes.weights)?,
            out: view(&data.y, self.shapes.y)?,
            bias: Some(view(&self.bias, self.shapes.bias)?),
            activation: Activation::None,
            alpha: 1.0,
        })
    }

    /// Runs the layer on `stream`, and waits for it.
    fn run(&self, stream: &Stream, data: &mut Activations) -> streampool::Result<()> {
        stream.encode(Op::MatMul(MatMul {
            a: data.x.read_as(DType::F32, self.shapes.x)?,
            b: self.weights.read_as(DType::F32, self.shapes.weights)?,
            out: data.y.write_as(DType::F32, self.shapes.y)?,
            bias: Some(self.bias.read_as(DType::F32, self.shapes.bias)?),
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        stream.synchronize()
    }
}

impl Activations {
    /// An input, ready on the device, and room for the output.
    pub fn new(stream: &Stream) -> Result<Self> {
        let x = filled(stream, BATCH * INPUTS)?;
        let y = filled(stream, BATCH * OUTPUTS)?;
        stream.synchronize()?;
        Ok(Activations { x, y })
    }
}

fn filled(stream: &Stream, elements: usize) -> Result<Buffer> {
    let values: Vec<f32> = (0..elements).map(|i| (i % 7) as f32 - 3.0).collect();
    let mut buffer = stream.allocate(elements * DType::F32.size())?;
    stream.upload(&mut buffer, &values)?;
    Ok(buffer)
}

/// What the layer costs through the runtime, waiting included.
pub fn one_thread(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "linear_ns",
        what: "Linear 256 to 128, 4 rows",
        unit: Unit::Nanoseconds,
        goal: None,
    };
    let (pool, stream) = (pool.clone(), pool.lease_alone()?);
    let layer = Layer::new(&stream)?;
    let mut data = Activations::new(&stream)?;
    Ok(Measurement::new(FIGURE, move |slice| {
        pool.with_stream(&stream, || {
            per_call(slice, || layer.run(&stream, &mut data))
        })?
    }))
}

/// What eight threads, each on its stream, reach together.
pub fn scaling(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "linear_scaling_8",
        what: "  8 threads, against one",
        unit: Unit::Ratio,
        goal: Some(Goal::AtLeast(1.8)),
    };
    let streams = (0..THREADS)
        .map(|_| pool.lease_alone())
        .collect::<Result<Vec<_>, _>>()?;
    let layer = Layer::new(&streams[0])?;
    let mut workers = Vec::new();
    for stream in &streams {
        let layer = layer.clone();
        let mut data = Activations::new(stream)?;
        workers.push(move |stream: &Stream| layer.run(stream, &mut data));
    }
    let pool = pool.clone();
    Ok(Measurement::new(FIGURE, move |slice| {
        let one = rate(&pool, &streams, &mut workers[..1], slice)?;
        let all = rate(&pool, &streams, &mut workers, slice * 2)?;
        Ok(all / one)
    }))
}

/// What is left of the bare kernel's rate when the runtime calls it.
pub fn against_bare(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "linear_vs_bare",
        what: "  one thread, against the bare kernel",
        unit: Unit::Ratio,
        goal: Some(Goal::AtLeast(0.8)),
    };
    let (pool, stream) = (pool.clone(), pool.lease_alone()?);
    let layer = Layer::new(&stream)?;
    let mut data = Activations::new(&stream)?;
    let mut bare = Bare::new(layer.clone(), Activations::new(&stream)?)?;
    Ok(Measurement::new(FIGURE, move |slice| {
        pool.with_stream(&stream, || {
            // Half of one before and half after the other, so that a drift of the clock speed hits both.
            let before = per_call(slice / 2, || layer.run(&stream, &mut data))?;
            let bare = per_call(slice, || bare.run())?;
            let after = per_call(slice / 2, || layer.run(&stream, &mut data))?;
            Ok(bare / ((before + after) / 2.0))
        })?
    }))
}
