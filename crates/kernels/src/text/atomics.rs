//! Changes of memory that several threads make at once, as each dialect has them.

use super::Dialect;

/// The memory that is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Device,
    Group,
}

/// The functions `swap_if` and `add_at`: of words of 32 bits everywhere, of 64 bits and of floats in CUDA only.
pub(crate) const fn atomics(dialect: Dialect, changed: Changed) -> &'static str {
    match (dialect, changed) {
        (Dialect::Cuda, _) => include_str!("atomics/cuda.h"),
        (Dialect::Metal, Changed::Device) => {
            concat!("#define CHANGED device\n", include_str!("atomics/metal.h"))
        }
        (Dialect::Metal, Changed::Group) => concat!(
            "#define CHANGED threadgroup\n",
            include_str!("atomics/metal.h")
        ),
    }
}
