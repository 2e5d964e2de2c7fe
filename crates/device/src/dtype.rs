//! Element types: what a number in device memory is.

use half::{bf16, f16};

/// The type of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// 16-bit brain float.
    BF16,
    /// 64-bit IEEE float.
    F64,
    /// Signed byte.
    I8,
    /// Unsigned byte.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// One byte, 0 or 1; a device never writes another value.
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 13] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::Bool,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// The name used in messages and files, such as `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::Bool => "bool",
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// Whether this is an integer type; `bool` is not.
    pub const fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// Whether this is an integer type with a sign.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// Whether this is an integer type without a sign; `bool` is not.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is one of the device's element types.
pub trait Element:
    bytemuck::NoUninit + bytemuck::CheckedBitPattern + Send + Sync + std::fmt::Debug + sealed::Sealed
{
    /// The element type.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements!(f32 => F32, f16 => F16, bf16 => BF16, f64 => F64, bool => Bool);
elements!(i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64);

/// A constant of an op, converted to the element type it is used with.
///
/// Equality and hashing go by the bits of a float, so that a NaN equals itself and a constant can be a key.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// A float constant.
    Float(f64),
    /// An integer constant, which wraps to the type it is used with: a `u64` above [`i64::MAX`] is made by
    /// wrapping, too, as `Scalar::Int(value as i64)`.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as a float; integers round, truth values become 0 and 1.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The value as an integer; floats truncate and saturate, NaN becomes 0.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Float(value) => value as i64,
            Scalar::Int(value) => value,
            Scalar::Bool(value) => i64::from(value),
        }
    }

    /// The value as a truth value: whether it is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
            Scalar::Bool(value) => value,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Scalar::Float(value) => (0, value.to_bits()),
            Scalar::Int(value) => (1, value as u64),
            Scalar::Bool(value) => (2, u64::from(value)),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::Float(value)
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Scalar::Float(f64::from(value))
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Scalar::Int(i64::from(value))
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}
