//! The names that kernel text is written in, as each dialect has them.

use super::Dialect;

pub(super) const fn of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => concat!(
            include_str!("prelude/cuda.h"),
            include_str!("prelude/common.h")
        ),
        Dialect::Metal => concat!(
            include_str!("prelude/metal.h"),
            include_str!("prelude/common.h")
        ),
    }
}

/// The names for matrices in the registers of a warp, which few kernels need.
pub(crate) const fn tiles(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => concat!(
            include_str!("prelude/tiles_cuda.h"),
            include_str!("prelude/tiles.h")
        ),
        Dialect::Metal => concat!(
            include_str!("prelude/tiles_metal.h"),
            include_str!("prelude/tiles.h")
        ),
    }
}
