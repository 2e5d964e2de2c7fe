//! What a trace found out.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use streampool_device::{DType, Op, Span};
use streampool_tensor::Tensor;

use crate::graph::ValueId;
use crate::nodes::Value;

/// The ops of a trace, over memory that does not exist.
pub struct Listing {
    /// What is to be done, in order.
    pub steps: Vec<ListedOp>,
    /// What there is before the first step. Memory that is not here is written by some step before it is read.
    pub sources: FxHashMap<Memory, Source>,
    /// The values that were wanted.
    pub outputs: Vec<(ValueId, Outcome)>,
}

/// What a wanted value came to be.
pub enum Outcome {
    /// It depends on no input.
    Known(Value),
    /// It is made.
    Tensor(Made),
    /// A sequence, some of which is made.
    Sequence(Vec<Made>),
}

/// A tensor that fills its memory, which is no other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Where it is made.
    pub memory: Memory,
    /// What it is.
    pub kind: TensorKind,
}

/// What a tensor is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorKind {
    /// Its element type.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
}

impl TensorKind {
    /// That of a tensor.
    pub fn of(tensor: &Tensor) -> TensorKind {
        TensorKind {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        }
    }

    /// The size of its values in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }
}

impl Listing {
    /// Whether any of its ops is a convolution.
    pub fn has_conv(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(*step.op, Op::Conv(_)))
    }
}

/// Nodes of a graph: most ops are for one.
pub type Nodes = SmallVec<[usize; 2]>;

/// One op.
#[derive(Debug, Clone)]
pub struct ListedOp {
    /// What is done. An op takes a thousand bytes, which lists would move about.
    pub op: Box<Op>,
    /// For which nodes of the graph: one, or several that were joined.
    pub nodes: Nodes,
}

impl ListedOp {
    /// An op for one node.
    pub fn new(op: Op, node: usize) -> ListedOp {
        ListedOp {
            op: Box::new(op),
            nodes: smallvec![node],
        }
    }
}

/// One buffer of a trace. No two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Memory {
    handle: u64,
    offset: usize,
}

/// What memory holds before the first step.
#[derive(Clone)]
pub enum Source {
    /// The input of this place.
    Input(usize),
    /// What this tensor, which is known, has in its memory; if these are pictures, with the channels of each place side by side.
    Constant(Tensor, Option<Picture>),
    /// Bytes that an operator made while it was traced.
    Bytes(std::sync::Arc<[u8]>),
}

/// Memory of pictures, or of weights: `[any, channels, places]`, or one place after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Picture {
    /// How many channels each has.
    pub channels: usize,
    /// How many places each channel has.
    pub places: usize,
}

impl Memory {
    /// The handle of its spans.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// The buffer that `span` is all of.
    pub fn of(span: Span) -> Memory {
        Memory {
            handle: span.handle,
            offset: span.offset,
        }
    }
}
