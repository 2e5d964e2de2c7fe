//! The kinds of ops, by which messages, faults and traces name them.

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
    /// Regions of pictures at one size.
    Regions,
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
    /// Ensembles of decision trees.
    Trees,
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
            OpKind::Regions => "regions",
            OpKind::Gather => "gather",
            OpKind::Scatter => "scatter",
            OpKind::Scan => "scan",
            OpKind::Sort => "sort",
            OpKind::Random => "random",
            OpKind::Rnn => "rnn",
            OpKind::Linalg => "linalg",
            OpKind::Histogram => "histogram",
            OpKind::NonZero => "nonzero",
            OpKind::Trees => "trees",
        }
    }
}

impl std::fmt::Display for OpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
