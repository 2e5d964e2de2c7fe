//! The instructions that expressions are compiled to.

use streampool_device::{Binary, Compare, Unary};

use super::lane::{Half, Lane};

/// What one instruction does with each element of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Code {
    Unary(Unary, Lane),
    Binary(Binary, Lane),
    Compare(Compare, Lane),
    /// The second operand where the first, a `bool`, is true, else the third.
    Select(Lane),
    /// The product of two `f32`, rounded, and then the sum with a third.
    MulAdd,
    /// The difference of two `f32`, rounded, and then the product with a third.
    LessTimes,
    /// The nearest whole number of an `f32`, and then the sum with another, as bytes.
    Nearest(Lane),
    /// The larger of two `f32`, and then the smaller of that and a third.
    Between,
    /// An `f32` times a sixth of it and a half, but that between zero and one.
    HardSwish,
    Cast(Lane, Lane),
    /// The same value; a `bool` becomes 0 or 1.
    Move(Lane),
    /// A stored half to `f32`.
    Load(Half),
    /// `f32` to a stored half, to nearest even.
    Store(Half),
    /// `f32` to the nearest value of a half.
    Round(Half),
    /// `f64` to `f32`, rounded to odd: rounding that to a half is as good as rounding the `f64`.
    NarrowOdd,
    /// `i64` to `f64`, rounded to odd.
    WidenOdd,
    /// `u64` to `f64`, rounded to odd.
    WidenOddUnsigned,
}

impl Code {
    /// The sizes of the operands' elements, in order.
    pub(super) fn operands(self) -> impl Iterator<Item = usize> + Clone {
        let (sizes, count) = match self {
            Code::Unary(_, lane) | Code::Cast(lane, _) | Code::Move(lane) => {
                ([lane.size(), 0, 0], 1)
            }
            Code::Binary(_, lane) | Code::Compare(_, lane) => ([lane.size(), lane.size(), 0], 2),
            Code::Select(lane) => ([1, lane.size(), lane.size()], 3),
            Code::MulAdd | Code::LessTimes | Code::Between => ([4; 3], 3),
            Code::Nearest(_) => ([4, 4, 0], 2),
            Code::Load(_) => ([2, 0, 0], 1),
            Code::Store(_) | Code::Round(_) | Code::HardSwish => ([4, 0, 0], 1),
            Code::NarrowOdd | Code::WidenOdd | Code::WidenOddUnsigned => ([8, 0, 0], 1),
        };
        sizes.into_iter().take(count)
    }

    /// What the result is.
    pub(super) fn result(self) -> usize {
        match self {
            Code::Unary(Unary::IsNan | Unary::IsInf, _) | Code::Compare(..) => 1,
            Code::Unary(_, lane) | Code::Binary(_, lane) => lane.size(),
            Code::Select(lane) | Code::Cast(_, lane) | Code::Move(lane) | Code::Nearest(lane) => {
                lane.size()
            }
            Code::Load(_)
            | Code::Round(_)
            | Code::NarrowOdd
            | Code::MulAdd
            | Code::LessTimes
            | Code::Between
            | Code::HardSwish => 4,
            Code::Store(_) => 2,
            Code::WidenOdd | Code::WidenOddUnsigned => 8,
        }
    }

    /// The lane of the result, for everything but a stored half.
    pub(super) fn lane(self) -> Lane {
        match self {
            Code::Unary(Unary::IsNan | Unary::IsInf, _) | Code::Compare(..) => Lane::Bool,
            Code::Unary(_, lane) | Code::Binary(_, lane) => lane,
            Code::Select(lane) | Code::Cast(_, lane) | Code::Move(lane) | Code::Nearest(lane) => {
                lane
            }
            Code::Load(_)
            | Code::Store(_)
            | Code::Round(_)
            | Code::NarrowOdd
            | Code::MulAdd
            | Code::LessTimes
            | Code::Between
            | Code::HardSwish => Lane::F32,
            Code::WidenOdd | Code::WidenOddUnsigned => Lane::F64,
        }
    }

    /// Roughly how long one element takes, in picoseconds.
    pub(super) fn cost(self) -> usize {
        use Unary::{
            Abs, Ceil, Cos, Erf, Exp, Expm1, Floor, Gelu, GeluTanh, IsInf, IsNan, Log, Log1p, Neg,
            Not, Recip, Relu, Round, Rsqrt, Sigmoid, Sign, Silu, Sin, Softplus, Sqrt, Tan, Tanh,
            Trunc,
        };
        let wide = |lane: Lane| lane.size().max(2) * 25;
        match self {
            Code::Unary(
                Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | IsNan | IsInf | Not,
                lane,
            ) => wide(lane),
            Code::Unary(Sqrt | Rsqrt | Recip, lane) => 3 * wide(lane),
            Code::Unary(
                Exp | Log | Log1p | Expm1 | Sin | Cos | Tan | Tanh | Erf | Sigmoid | Silu | Gelu
                | GeluTanh | Softplus,
                Lane::F32,
            ) => 1_000,
            Code::Unary(..) => 15_000,
            Code::Binary(Binary::Pow | Binary::Rem | Binary::Atan2, _) => 15_000,
            Code::Binary(Binary::Div, lane) if !lane.is_float() => 5_000,
            Code::Binary(Binary::Div, lane) => 3 * wide(lane),
            Code::Binary(_, lane) | Code::Compare(_, lane) | Code::Select(lane) => wide(lane),
            Code::Cast(..) | Code::Load(_) | Code::Store(_) | Code::Round(_) | Code::Nearest(_) => {
                300
            }
            Code::Move(lane) => wide(lane),
            Code::MulAdd | Code::LessTimes | Code::Between | Code::HardSwish => wide(Lane::F32),
            Code::NarrowOdd | Code::WidenOdd | Code::WidenOddUnsigned => 600,
        }
    }

    /// The instruction that does the same to the same bits and that a loop exists for: where the sign of an
    /// integer does not matter there is one for the unsigned type only.
    pub(super) fn shared(self) -> Code {
        use Binary::{Add, And, Mul, Or, Shl, Sub, Xor};
        match self {
            Code::Unary(Unary::Abs | Unary::Relu, lane) if lane.is_unsigned() => Code::Move(lane),
            Code::Unary(function @ (Unary::Neg | Unary::Not), lane) => {
                Code::Unary(function, lane.unsigned())
            }
            Code::Binary(function @ (Add | Sub | Mul | And | Or | Xor | Shl), lane) => {
                Code::Binary(function, lane.unsigned())
            }
            Code::Compare(comparison @ (Compare::Eq | Compare::Ne), lane) => {
                Code::Compare(comparison, lane.unsigned())
            }
            Code::Cast(from, to) if !from.is_float() => {
                let (short, to) = (to.size() <= from.size(), to.unsigned());
                match from {
                    from if from.unsigned() == to => Code::Move(to),
                    from if short && !to.is_float() => Code::Cast(from.unsigned(), to),
                    from => Code::Cast(from, to),
                }
            }
            other => other,
        }
    }
}
