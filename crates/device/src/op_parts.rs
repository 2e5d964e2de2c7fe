//! What ops are told beside their operands: which axes, how to combine, what to apply.

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

/// How elements are combined by [`Op::Reduce`](crate::Op::Reduce).
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

/// Which normalisation [`Norm`](crate::Norm) applies.
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
    /// `x min(max(x/6 + 1/2, 0), 1)`.
    HardSwish,
}

/// How an op touches an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads it.
    Read,
    /// It writes it, wholly; what was there before is not read.
    Write,
}
