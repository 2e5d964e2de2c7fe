//! The element types that an expression computes with.

use streampool_device::DType;

/// What a block buffer holds. Halves are computed as `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    F32,
    F64,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    Bool,
}

/// A float type that is stored but not computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Half {
    F16,
    BF16,
}

impl Lane {
    /// The lane that values of `dtype` are computed in.
    pub(super) fn of(dtype: DType) -> Lane {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Lane::F32,
            DType::F64 => Lane::F64,
            DType::I8 => Lane::I8,
            DType::U8 => Lane::U8,
            DType::I16 => Lane::I16,
            DType::U16 => Lane::U16,
            DType::I32 => Lane::I32,
            DType::U32 => Lane::U32,
            DType::I64 => Lane::I64,
            DType::U64 => Lane::U64,
            DType::Bool => Lane::Bool,
        }
    }

    /// Bytes of one element.
    pub(super) fn size(self) -> usize {
        match self {
            Lane::I8 | Lane::U8 | Lane::Bool => 1,
            Lane::I16 | Lane::U16 => 2,
            Lane::F32 | Lane::I32 | Lane::U32 => 4,
            Lane::F64 | Lane::I64 | Lane::U64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Lane::F32 | Lane::F64)
    }

    pub(super) fn is_unsigned(self) -> bool {
        matches!(self, Lane::U8 | Lane::U16 | Lane::U32 | Lane::U64)
    }

    /// For an integer the unsigned one of its size, in which the same bits come of all that does not ask for
    /// the sign; any other lane itself.
    pub(super) fn unsigned(self) -> Lane {
        match self {
            Lane::I8 => Lane::U8,
            Lane::I16 => Lane::U16,
            Lane::I32 => Lane::U32,
            Lane::I64 => Lane::U64,
            other => other,
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
