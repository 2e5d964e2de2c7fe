//! The closed list of primitive operations that every device executes.

use std::sync::Arc;

use crate::{
    Access, Activation, Attention, Axes, Conv, Expr, Gather, Histogram, Linalg, NonZero, NormKind,
    OpKind, Pool, Random, ReduceKind, Regions, Resize, Rnn, Scalar, Scan, Scatter, Sort, Trees,
    View,
};

/// `dst = norm(src + added) * scale + bias` over the dimensions from `axis` to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm<T = View> {
    /// Which normalisation.
    pub kind: NormKind,
    /// What is normalised.
    pub src: T,
    /// Added to it first, without rounding: the shape, type and strides of `src`.
    pub added: Option<T>,
    /// Where `src + added` goes, rounded, too: the shape, type and strides of `src`.
    pub sum: Option<T>,
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
    /// Regions of pictures at one size.
    Regions(Regions<T>),
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
    /// Ensembles of decision trees.
    Trees(Trees<T>),
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
            Op::Regions(_) => OpKind::Regions,
            Op::Gather(_) => OpKind::Gather,
            Op::Scatter(_) => OpKind::Scatter,
            Op::Scan(_) => OpKind::Scan,
            Op::Sort(_) => OpKind::Sort,
            Op::Random(_) => OpKind::Random,
            Op::Rnn(_) => OpKind::Rnn,
            Op::Linalg(_) => OpKind::Linalg,
            Op::Histogram(_) => OpKind::Histogram,
            Op::NonZero(_) => OpKind::NonZero,
            Op::Trees(_) => OpKind::Trees,
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
                sum: op
                    .sum
                    .as_ref()
                    .map(|sum| f("sum", Write, sum))
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
            Op::Regions(op) => Op::Regions(op.try_map(&mut f)?),
            Op::Gather(op) => Op::Gather(op.try_map(&mut f)?),
            Op::Scatter(op) => Op::Scatter(op.try_map(&mut f)?),
            Op::Scan(op) => Op::Scan(op.try_map(&mut f)?),
            Op::Sort(op) => Op::Sort(op.try_map(&mut f)?),
            Op::Random(op) => Op::Random(op.try_map(&mut f)?),
            Op::Rnn(op) => Op::Rnn(Box::new(op.try_map(&mut f)?)),
            Op::Linalg(op) => Op::Linalg(op.try_map(&mut f)?),
            Op::Histogram(op) => Op::Histogram(op.try_map(&mut f)?),
            Op::NonZero(op) => Op::NonZero(op.try_map(&mut f)?),
            Op::Trees(op) => Op::Trees(op.try_map(&mut f)?),
        })
    }
}
