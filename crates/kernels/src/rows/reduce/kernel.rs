//! Reductions: what the text of a kernel depends on.

use streampool_device::{DType, ReduceKind};

use crate::rows::team::Team;

/// A kernel that reduces rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reduction {
    pub(in crate::rows) kind: ReduceKind,
    /// The type of the source's elements.
    pub(in crate::rows) dtype: DType,
    pub(super) stage: Stage,
    pub(in crate::rows) team: Team,
    /// Elements that a thread takes at once: of its row or, in columns, of as many rows.
    pub(in crate::rows) pack: u8,
    /// Classes of the dimensions that are kept and of those that are reduced.
    pub(in crate::rows) kept: u8,
    pub(in crate::rows) inner: u8,
    /// Whether what is reduced counts several times: sums and products along broadcast axes.
    pub(in crate::rows) repeated: bool,
}

/// What is read and what is written. Long rows are divided into parts, which another launch combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// Elements, to results.
    Whole,
    /// Elements, to what is known of each part of a row.
    First,
    /// What is known of the parts, to results.
    Last,
}

/// Threads of each group.
pub(super) const THREADS: usize = 256;

/// Whether `kind` finds where an element is.
pub(super) fn finds_index(kind: ReduceKind) -> bool {
    matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
}

/// Bytes of what elements of `dtype` are combined in.
pub(super) fn value_size(kind: ReduceKind, dtype: DType) -> usize {
    match value_type(kind, dtype) {
        "f64" | "i64" | "u64" => 8,
        _ => 4,
    }
}

/// What elements of `dtype` are combined in. Sums and products wrap, which signed integers do not.
pub(super) fn value_type(kind: ReduceKind, dtype: DType) -> &'static str {
    let wraps = matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "f32",
        DType::F64 => "f64",
        DType::Bool => "u32",
        DType::U64 => "u64",
        DType::I64 if wraps => "u64",
        DType::I64 => "i64",
        DType::U32 => "u32",
        _ if wraps => "u32",
        _ => "i32",
    }
}
