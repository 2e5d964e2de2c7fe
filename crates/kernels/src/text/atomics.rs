//! Changes of memory that several threads make at once, as each dialect has them.

use super::Dialect;

/// The functions `swap_if` and `add_at`: of words of 32 bits everywhere, of 64 bits and of floats in CUDA only.
pub(crate) const fn atomics(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => include_str!("atomics/cuda.h"),
        Dialect::Metal => include_str!("atomics/metal.h"),
    }
}
