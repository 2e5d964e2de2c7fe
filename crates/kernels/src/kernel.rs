//! The kernels that there are, and which of them execute an op.

use smallvec::SmallVec;
use streampool_device::{Conv, MatMul, Op};

use crate::attention::{self, Attention};
use crate::conv::{self, Convolution};
use crate::dispatch::{self, Limits, Params};
use crate::elementwise::{self, Elementwise};
use crate::index::{self, Index};
use crate::linalg::{self, Linalg};
use crate::matmul::{self, Product};
use crate::pool::{self, Pooling};
use crate::random::{self, Random};
use crate::regions::{self, Looking};
use crate::resize::{self, Resizing};
use crate::rnn::{self, Rnn};
use crate::rows::{self, Rows};
use crate::scan::{self, Scan};
use crate::sort::{self, Sort};
use crate::tally::{self, Tally};
use crate::text::{Dialect, KernelText, Source};
use crate::trees::{self, Trees};

/// A kernel: equal ones have equal text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Does nothing.
    Nop,
    /// Each element by itself: copies, constants, sequences, fused expressions.
    Elementwise(Elementwise),
    /// Rows at a time: reductions, softmax, normalisation.
    Rows(Rows),
    /// Matrix products.
    Product(Product),
    /// Attention.
    Attention(Attention),
    /// Recurrent layers.
    Rnn(Rnn),
    /// Convolutions.
    Conv(Convolution),
    /// Pooling.
    Pool(Pooling),
    /// Interpolation to another size.
    Resize(Resizing),
    /// Regions of pictures.
    Regions(Looking),
    /// Elements picked and put by index.
    Index(Index),
    /// Running totals.
    Scan(Scan),
    /// Sorting and top-k.
    Sort(Sort),
    /// Counts, and places of what is not zero.
    Tally(Tally),
    /// Ensembles of trees.
    Trees(Trees),
    /// Random numbers.
    Random(Random),
    /// Factorisations and solves.
    Linalg(Linalg),
}

/// The launches that execute one op, in order.
pub type Plan = dispatch::Plan<Kernel>;

/// One launch of a kernel.
pub type Dispatch = dispatch::Dispatch<Kernel>;

/// A kernel of one kind is a kernel.
macro_rules! kinds {
    ($($kind:ident => $variant:ident,)*) => {$(
        impl From<$kind> for Kernel {
            #[inline]
            fn from(kernel: $kind) -> Kernel {
                Kernel::$variant(kernel)
            }
        }
    )*};
}

kinds! {
    Elementwise => Elementwise,
    Rows => Rows,
    Product => Product,
    Attention => Attention,
    Rnn => Rnn,
    Convolution => Conv,
    Pooling => Pool,
    Resizing => Resize,
    Looking => Regions,
    Index => Index,
    Scan => Scan,
    Sort => Sort,
    Tally => Tally,
    Trees => Trees,
    Random => Random,
    Linalg => Linalg,
}

impl Kernel {
    /// Its text in `dialect`; `None` where the dialect lacks a type that the kernel works on.
    pub fn source(&self, dialect: Dialect) -> Option<Source> {
        let text = match self {
            Kernel::Nop => Some(KernelText {
                entry: "nop",
                ..KernelText::default()
            }),
            Kernel::Elementwise(kernel) => kernel.text(dialect),
            Kernel::Rows(kernel) => kernel.text(dialect),
            Kernel::Product(kernel) => kernel.text(dialect),
            Kernel::Attention(kernel) => kernel.text(dialect),
            Kernel::Rnn(kernel) => kernel.text(dialect),
            Kernel::Conv(kernel) => kernel.text(dialect),
            Kernel::Pool(kernel) => kernel.text(dialect),
            Kernel::Resize(kernel) => kernel.text(dialect),
            Kernel::Regions(kernel) => kernel.text(dialect),
            Kernel::Index(kernel) => kernel.text(dialect),
            Kernel::Scan(kernel) => kernel.text(dialect),
            Kernel::Sort(kernel) => kernel.text(dialect),
            Kernel::Tally(kernel) => kernel.text(dialect),
            Kernel::Trees(kernel) => kernel.text(dialect),
            Kernel::Random(kernel) => kernel.text(dialect),
            Kernel::Linalg(kernel) => kernel.text(dialect),
        };
        Some(text?.render(dialect))
    }
}

/// The launches that execute `op`, which was [validated](Op::validate); `None` if there is no kernel for it, or none
/// for so many elements. A plan without launches is right for an op on no elements.
pub fn lower(op: &Op, limits: &Limits) -> Option<Plan> {
    plan(op, limits).filter(Plan::fits)
}

/// The launches that execute `op`, which was [validated](Op::validate), on a GPU of Apple's whose simdgroups multiply
/// matrices; `None` if it is better left to the kernels that every GPU has.
pub fn lower_to_simdgroups(op: &Op, limits: &Limits) -> Option<Plan> {
    let plan = match op {
        Op::MatMul(product) => matmul::simdgroup_product(product, limits),
        Op::Attention(op) => attention::simdgroup_attention(op, limits),
        Op::Rnn(op) => rnn::simdgroup_rnn(op, limits),
        _ => None,
    };
    plan.filter(Plan::fits)
}

fn plan(op: &Op, limits: &Limits) -> Option<Plan> {
    match op {
        Op::Nop => Some(Plan::of(Dispatch {
            kernel: Kernel::Nop,
            groups: [1; 3],
            threads: 32,
            operands: SmallVec::new(),
            params: Params::new(),
        })),
        Op::Copy { src, dst } => Some(elementwise::copy(src, dst, limits)),
        Op::Fill { dst, value } => Some(elementwise::fill(dst, *value, limits)),
        Op::Iota { dst, start, step } => Some(elementwise::iota(dst, *start, *step, limits)),
        Op::Map {
            expr,
            inputs,
            outputs,
        } => elementwise::map(expr, inputs, outputs, limits),
        Op::Reduce {
            kind,
            src,
            dst,
            axes,
        } => Some(rows::reduce(*kind, src, dst, *axes, limits)),
        Op::Softmax {
            src,
            dst,
            axis,
            log,
        } => Some(rows::softmax(src, dst, *axis, *log, limits)),
        Op::Norm(norm) => Some(rows::norm(norm, limits)),
        Op::MatMul(product) => Some(matmul::matmul(product, limits)),
        Op::Attention(op) => attention::attention(op, limits),
        Op::Rnn(op) => rnn::rnn(op, limits),
        Op::Conv(op) => conv::conv(op, limits),
        Op::Pool(op) => pool::pool(op, limits),
        Op::Resize(op) => resize::resize(op),
        Op::Regions(op) => Some(regions::regions(op)),
        Op::Random(op) => Some(random::random(op)),
        Op::Linalg(op) => linalg::linalg(op, limits),
        Op::Gather(op) => Some(index::gather(op, limits)),
        Op::Scatter(op) => Some(index::scatter(op, limits)),
        Op::Scan(op) => Some(scan::scan(op, limits)),
        Op::Sort(op) => sort::sort(op, limits),
        Op::Histogram(op) => Some(tally::histogram(op, limits)),
        Op::NonZero(op) => Some(tally::nonzero(op, limits)),
        Op::Trees(op) => Some(trees::trees(op)),
    }
}

/// The launch that executes `op`, which was validated, where a kernel made for few rows is expected to be
/// faster than a vendor's library.
pub fn small_product(op: &MatMul, limits: &Limits) -> Option<Plan> {
    matmul::small_product(op, limits).filter(Plan::fits)
}

/// The launch that executes `op`, which was validated, on tensor cores that multiply TF32, `f16` and `bf16`; `None` if it is
/// of another type, not laid out for them, or expected to be faster by a vendor's library. That of `f32` is as exact as `f32` is.
pub fn tensor_core_product(op: &MatMul, limits: &Limits) -> Option<Plan> {
    matmul::tensor_core_product(op, limits).filter(Plan::fits)
}

/// As [`tensor_core_product`], on tensor cores that a warpgroup uses; for one of `many` streams, if that is another. The
/// bits are the same.
pub fn warpgroup_product(op: &MatMul, limits: &Limits, many: bool) -> Option<Plan> {
    matmul::warpgroup_product(op, limits, many).filter(Plan::fits)
}

/// The same of a convolution of `f32`.
pub fn warpgroup_conv(op: &Conv, limits: &Limits, many: bool) -> Option<Plan> {
    matmul::warpgroup_conv(op, limits, many).filter(Plan::fits)
}

/// The launch that takes the place of [`tensor_core_product`]'s while many streams share the GPU; `None` if that serves both.
/// It computes the same bits, in fewer and larger groups, which together fetch less: so a stream that is alone would wait longer.
pub fn product_of_many(op: &MatMul, limits: &Limits) -> Option<Plan> {
    matmul::product_of_many(op, limits).filter(Plan::fits)
}
