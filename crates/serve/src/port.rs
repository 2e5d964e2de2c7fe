//! An input or output of a model, as clients know it.

use streampool::DType;

/// An input or output.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
    /// Its sizes, -1 for an open one.
    pub shape: Vec<i64>,
}
