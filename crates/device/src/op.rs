//! The closed list of primitive operations that every device executes.

use std::sync::Arc;

use crate::{
    Attention, Conv, Expr, Gather, Histogram, Linalg, NonZero, Pool, Random, Resize, Rnn, Scalar,
    Scan, Scatter, Sort, View,
};

/// The name of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Nothing, in order.
    Nop,
    /// Host bytes into device memory.
    Upload,
    /// Device memory into host bytes.
    Download,
    /// The replay of a program.
    Replay,
    /// Strided, casting copy.
    Copy,
    /// One value everywhere.
    Fill,
    /// An arithmetic sequence.
    Iota,
    /// A fused elementwise expression.
    Map,
    /// A reduction over axes.
    Reduce,
    /// Softmax or log-softmax along an axis.
    Softmax,
    /// Layer or RMS normalisation.
    Norm,
    /// Batched matrix product with an epilogue.
    MatMul,
    /// Scaled dot-product attention.
    Attention,
    /// Convolution and its transpose.
    Conv,
    /// Pooling windows.
    Pool,
    /// Interpolation to another size.
    Resize,
    /// Elements or slices picked by index.
    Gather,
    /// Elements or slices put by index.
    Scatter,
    /// Cumulative sums and their kin.
    Scan,
    /// Sorting and top-k.
    Sort,
    /// Counter-based random numbers.
    Random,
    /// Recurrent layers.
    Rnn,
    /// Factorisations and solves.
    Linalg,
    /// Counts per bin.
    Histogram,
    /// Indices of what is not zero.
    NonZero,
}

impl OpKind {
    /// The name in messages and traces.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Nop => "nop",
            OpKind::Upload => "upload",
            OpKind::Download => "download",
            OpKind::Replay => "replay",
            OpKind::Copy => "copy",
            OpKind::Fill => "fill",
            OpKind::Iota => "iota",
            OpKind::Map => "map",
            OpKind::Reduce => "reduce",
            OpKind::Softmax => "softmax",
            OpKind::Norm => "norm",
            OpKind::MatMul => "matmul",
            OpKind::Attention => "attention",
            OpKind::Conv => "conv",
            OpKind::Pool => "pool",
            OpKind::Resize => "resize",
            OpKind::Gather => "gather",
            OpKind::Scatter => "scatter",
            OpKind::Scan => "scan",
            OpKind::Sort => "sort",
            OpKind::Random => "random",
            OpKind::Rnn => "rnn",
            OpKind::Linalg => "linalg",
            OpKind::Histogram => "histogram",
            OpKind::NonZero => "nonzero",
        }
    }
}

impl std::fmt::Display for OpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Axes of a shape, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Axes(u8);

impl Axes {
    /// The set of these axes, each below [`MAX_RANK`](crate::MAX_RANK).
    pub fn new(axes: &[usize]) -> crate::Result<Axes> {
        axes.iter().try_fold(Axes(0), |set, &axis| {
            if axis >= crate::MAX_RANK {
                return Err(crate::Error::Invalid {
                    what: "an axis",
                    got: axis.to_string(),
                    expected: format!("below {}", crate::MAX_RANK),
                });
            }
            Ok(Axes(set.0 | 1 << axis))
        })
    }

    /// Whether `axis` is in the set.
    pub fn contains(self, axis: usize) -> bool {
        axis < crate::MAX_RANK && self.0 & 1 << axis != 0
    }

    /// The axes, rising.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..crate::MAX_RANK).filter(move |&axis| self.contains(axis))
    }
}

/// How elements are combined by [`Op::Reduce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// The sum.
    Sum,
    /// The arithmetic mean (floats only).
    Mean,
    /// The product.
    Prod,
    /// The largest; NaN wins.
    Max,
    /// The smallest; NaN wins.
    Min,
    /// The index of the first largest along one axis, as `i64`.
    ArgMax,
    /// The index of the first smallest along one axis, as `i64`.
    ArgMin,
    /// Whether any is true (`bool` only).
    Any,
    /// Whether all are true (`bool` only).
    All,
}

/// Which normalisation [`Norm`] applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// Subtract the mean, divide by the standard deviation.
    Layer,
    /// Divide by the root of the mean square.
    Rms,
}

/// What is applied to each element of a product before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)`, exact.
    Gelu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// `x σ(x)`.
    Silu,
    /// `σ(x)`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
}

/// `dst = norm(src + added) * scale + bias` over the dimensions from `axis` to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm<T = View> {
    /// Which normalisation.
    pub kind: NormKind,
    /// What is normalised.
    pub src: T,
    /// Added to it first, without rounding: the shape, type and strides of `src`.
    pub added: Option<T>,
    /// The result: shape and type of `src`.
    pub dst: T,
    /// Multiplied onto the result: the normalised dimensions' shape.
    pub scale: Option<T>,
    /// Added to the result: the normalised dimensions' shape.
    pub bias: Option<T>,
    /// The first normalised dimension.
    pub axis: usize,
    /// Added to the variance or mean square; not negative.
    pub epsilon: f64,
}

/// `out = activation(alpha * a @ b + bias)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatMul<T = View> {
    /// `[..., m, k]`; a transposed operand is a permuted layout.
    pub a: T,
    /// `[..., k, n]`.
    pub b: T,
    /// `[..., m, n]`; leading dimensions of `a` and `b` broadcast to its.
    pub out: T,
    /// Broadcast to `out` and added.
    pub bias: Option<T>,
    /// Applied last.
    pub activation: Activation,
    /// Multiplied onto the product.
    pub alpha: f64,
}

/// How an op touches an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads it.
    Read,
    /// It writes it, wholly; what was there before is not read.
    Write,
}

/// A primitive operation over operands of type `T`: views on a device, buffers above it.
///
/// Every operand that is written may alias no other operand, except that `Map`, `Softmax` and `Norm` may
/// write exactly a view they read, and `Scatter` its `src`.
#[derive(Debug, Clone, PartialEq)]
pub enum Op<T = View> {
    /// Nothing, in order: what a launch costs.
    Nop,
    /// `dst = cast(src)`; same shape, any strides.
    Copy {
        /// What is copied.
        src: T,
        /// Where to.
        dst: T,
    },
    /// `dst = value`.
    Fill {
        /// What is filled.
        dst: T,
        /// With what.
        value: Scalar,
    },
    /// `dst[i] = start + i * step`, `i` counting row-major.
    Iota {
        /// What is filled.
        dst: T,
        /// The first value.
        start: Scalar,
        /// The distance between two.
        step: Scalar,
    },
    /// `outputs = expr(inputs)`, element by element; inputs broadcast to the outputs' one shape.
    ///
    /// With several times as many operands as the expression has, it is computed for each such group by
    /// itself, in one launch where the device can: groups need not have the same shape.
    Map {
        /// The expression.
        expr: Arc<Expr>,
        /// One for each input of the expression, group after group.
        inputs: Vec<T>,
        /// One for each output of the expression, group after group.
        outputs: Vec<T>,
    },
    /// `dst = kind(src)` over `axes`, which have size one in `dst`.
    Reduce {
        /// How elements are combined.
        kind: ReduceKind,
        /// What is reduced.
        src: T,
        /// The result.
        dst: T,
        /// Over which axes.
        axes: Axes,
    },
    /// `dst = softmax(src)` along `axis`, or its logarithm.
    Softmax {
        /// The logits.
        src: T,
        /// The result: shape and type of `src`.
        dst: T,
        /// Along which axis.
        axis: usize,
        /// Whether the logarithm is wanted.
        log: bool,
    },
    /// Layer or RMS normalisation.
    Norm(Norm<T>),
    /// Matrix product.
    MatMul(MatMul<T>),
    /// Scaled dot-product attention.
    Attention(Box<Attention<T>>),
    /// Convolution and its transpose.
    Conv(Box<Conv<T>>),
    /// Pooling windows.
    Pool(Pool<T>),
    /// Interpolation to another size.
    Resize(Resize<T>),
    /// Elements or slices picked by index.
    Gather(Gather<T>),
    /// Elements or slices put by index.
    Scatter(Scatter<T>),
    /// Running totals.
    Scan(Scan<T>),
    /// Sorting and top-k.
    Sort(Sort<T>),
    /// Random numbers.
    Random(Random<T>),
    /// Recurrent layers.
    Rnn(Box<Rnn<T>>),
    /// Factorisations and solves.
    Linalg(Linalg<T>),
    /// Counts per bin.
    Histogram(Histogram<T>),
    /// Places of what is not zero.
    NonZero(NonZero<T>),
}

impl<T> Op<T> {
    /// Its name.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Nop => OpKind::Nop,
            Op::Copy { .. } => OpKind::Copy,
            Op::Fill { .. } => OpKind::Fill,
            Op::Iota { .. } => OpKind::Iota,
            Op::Map { .. } => OpKind::Map,
            Op::Reduce { .. } => OpKind::Reduce,
            Op::Softmax { .. } => OpKind::Softmax,
            Op::Norm(_) => OpKind::Norm,
            Op::MatMul(_) => OpKind::MatMul,
            Op::Attention(_) => OpKind::Attention,
            Op::Conv(_) => OpKind::Conv,
            Op::Pool(_) => OpKind::Pool,
            Op::Resize(_) => OpKind::Resize,
            Op::Gather(_) => OpKind::Gather,
            Op::Scatter(_) => OpKind::Scatter,
            Op::Scan(_) => OpKind::Scan,
            Op::Sort(_) => OpKind::Sort,
            Op::Random(_) => OpKind::Random,
            Op::Rnn(_) => OpKind::Rnn,
            Op::Linalg(_) => OpKind::Linalg,
            Op::Histogram(_) => OpKind::Histogram,
            Op::NonZero(_) => OpKind::NonZero,
        }
    }

    /// The same op over other operands; `f` is told each operand's name and how it is touched, and reads
    /// come before writes.
    #[inline(always)]
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Op<U>, E> {
        use Access::{Read, Write};
        Ok(match self {
            Op::Nop => Op::Nop,
            Op::Copy { src, dst } => Op::Copy {
                src: f("src", Read, src)?,
                dst: f("dst", Write, dst)?,
            },
            Op::Fill { dst, value } => Op::Fill {
                dst: f("dst", Write, dst)?,
                value: *value,
            },
            Op::Iota { dst, start, step } => Op::Iota {
                dst: f("dst", Write, dst)?,
                start: *start,
                step: *step,
            },
            Op::Map {
                expr,
                inputs,
                outputs,
            } => {
                // Collecting would move each operand several times.
                let mut reads = Vec::with_capacity(inputs.len());
                for input in inputs {
                    reads.push(f("input", Read, input)?);
                }
                let mut writes = Vec::with_capacity(outputs.len());
                for output in outputs {
                    writes.push(f("output", Write, output)?);
                }
                Op::Map {
                    expr: expr.clone(),
                    inputs: reads,
                    outputs: writes,
                }
            }
            Op::Reduce {
                kind,
                src,
                dst,
                axes,
            } => Op::Reduce {
                kind: *kind,
                src: f("src", Read, src)?,
                dst: f("dst", Write, dst)?,
                axes: *axes,
            },
            Op::Softmax {
                src,
                dst,
                axis,
                log,
            } => Op::Softmax {
                src: f("src", Read, src)?,
                dst: f("dst", Write, dst)?,
                axis: *axis,
                log: *log,
            },
            Op::Norm(op) => Op::Norm(Norm {
                kind: op.kind,
                src: f("src", Read, &op.src)?,
                added: op
                    .added
                    .as_ref()
                    .map(|added| f("added", Read, added))
                    .transpose()?,
                scale: op
                    .scale
                    .as_ref()
                    .map(|scale| f("scale", Read, scale))
                    .transpose()?,
                bias: op
                    .bias
                    .as_ref()
                    .map(|bias| f("bias", Read, bias))
                    .transpose()?,
                dst: f("dst", Write, &op.dst)?,
                axis: op.axis,
                epsilon: op.epsilon,
            }),
            Op::MatMul(op) => Op::MatMul(MatMul {
                a: f("a", Read, &op.a)?,
                b: f("b", Read, &op.b)?,
                bias: op
                    .bias
                    .as_ref()
                    .map(|bias| f("bias", Read, bias))
                    .transpose()?,
                out: f("out", Write, &op.out)?,
                activation: op.activation,
                alpha: op.alpha,
            }),
            Op::Attention(op) => Op::Attention(Box::new(op.try_map(&mut f)?)),
            Op::Conv(op) => Op::Conv(Box::new(op.try_map(&mut f)?)),
            Op::Pool(op) => Op::Pool(op.try_map(&mut f)?),
            Op::Resize(op) => Op::Resize(op.try_map(&mut f)?),
            Op::Gather(op) => Op::Gather(op.try_map(&mut f)?),
            Op::Scatter(op) => Op::Scatter(op.try_map(&mut f)?),
            Op::Scan(op) => Op::Scan(op.try_map(&mut f)?),
            Op::Sort(op) => Op::Sort(op.try_map(&mut f)?),
            Op::Random(op) => Op::Random(op.try_map(&mut f)?),
            Op::Rnn(op) => Op::Rnn(Box::new(op.try_map(&mut f)?)),
            Op::Linalg(op) => Op::Linalg(op.try_map(&mut f)?),
            Op::Histogram(op) => Op::Histogram(op.try_map(&mut f)?),
            Op::NonZero(op) => Op::NonZero(op.try_map(&mut f)?),
        })
    }
}
