//! The element types that an expression computes with.

use streampool_device::DType;

/// What a block buffer holds. Halves are computed as `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    F32,
    F64,
    I8,
    U8,
    I32,
    I64,
    Bool,
}

/// A float type that is stored but not computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Half {
    F16,
    BF16,
}

impl Lane {
    pub(super) const ALL: [Lane; 7] = [
        Lane::F32,
        Lane::F64,
        Lane::I8,
        Lane::U8,
        Lane::I32,
        Lane::I64,
        Lane::Bool,
    ];

    /// The lane that values of `dtype` are computed in.
    pub(super) fn of(dtype: DType) -> Lane {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Lane::F32,
            DType::F64 => Lane::F64,
            DType::I8 => Lane::I8,
            DType::U8 => Lane::U8,
            DType::I32 => Lane::I32,
            DType::I64 => Lane::I64,
            DType::Bool => Lane::Bool,
        }
    }

    /// Bytes of one element.
    pub(super) fn size(self) -> usize {
        match self {
            Lane::I8 | Lane::U8 | Lane::Bool => 1,
            Lane::F32 | Lane::I32 => 4,
            Lane::F64 | Lane::I64 => 8,
        }
    }
}

impl Half {
    /// The half that values of `dtype` are stored as, if it is one.
    pub(super) fn of(dtype: DType) -> Option<Half> {
        match dtype {
            DType::F16 => Some(Half::F16),
            DType::BF16 => Some(Half::BF16),
            _ => None,
        }
    }
}
