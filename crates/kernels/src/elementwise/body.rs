//! What is computed for each element.

use streampool_device::{DType, Scalar};

use super::expression;
use super::fused::Fused;
use crate::Params;
use crate::text::{Dialect, Field, bits_type, load, storage_type, store, store_as};

/// What a kernel computes for each element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Body {
    /// The bits of an element of this many bytes.
    Move(usize),
    /// An element of the first type, as the second.
    Convert(DType, DType),
    /// The same bits, of this many bytes.
    Fill(usize),
    /// `start + index * step`.
    Iota(DType),
    /// An expression.
    Map(Fused),
}

impl Body {
    /// What copies elements of one type to another.
    pub(super) fn copy(from: DType, to: DType) -> Body {
        // Bytes of a `bool` may be other than 0 and 1 when they are read.
        if from == to && from != DType::Bool {
            return Body::Move(from.size());
        }
        Body::Convert(from, to)
    }

    /// The types of the operands in memory: first those that are read, then those that are written.
    pub(super) fn operands(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        match self {
            Body::Move(size) => (vec![bits_type(*size)], vec![bits_type(*size)]),
            Body::Convert(from, to) => (vec![storage_type(*from)], vec![storage_type(*to)]),
            Body::Fill(size) => (vec![], vec![bits_type(*size)]),
            Body::Iota(dtype) => (vec![], vec![storage_type(*dtype)]),
            Body::Map(fused) => {
                let expr = fused.expr();
                let outputs = expr.outputs().iter().map(|&output| expr.dtype(output));
                (
                    expr.inputs().iter().copied().map(storage_type).collect(),
                    outputs.map(storage_type).collect(),
                )
            }
        }
    }

    /// Roughly how many functions there are.
    pub(super) fn work(&self) -> usize {
        match self {
            Body::Map(fused) => fused.expr().nodes().len(),
            _ => 1,
        }
    }

    /// Whether `dialect` has the types it needs.
    pub(super) fn exists_in(&self, dialect: Dialect) -> bool {
        let double = |dtype: &DType| *dtype == DType::F64;
        dialect == Dialect::Cuda
            || match self {
                Body::Move(_) | Body::Fill(_) => true,
                Body::Convert(from, to) => !double(from) && !double(to),
                Body::Iota(dtype) => !double(dtype),
                Body::Map(fused) => {
                    let mut nodes = fused.expr().nodes().iter();
                    !nodes.any(|(_, dtype)| double(dtype))
                }
            }
    }

    /// The fields of the kernel's own parameters.
    pub(super) fn fields(&self) -> Vec<Field> {
        let fields: &[(&'static str, &str)] = match self {
            Body::Fill(8) => &[("i64", "value")],
            Body::Fill(_) => &[("u32", "value")],
            Body::Iota(dtype) if dtype.is_float() => &[
                ("i64", "start"),
                ("i64", "step"),
                ("f32", "start_high"),
                ("f32", "start_low"),
                ("f32", "step_high"),
                ("f32", "step_low"),
            ],
            Body::Iota(_) => &[("i64", "start"), ("i64", "step")],
            Body::Map(fused) => return fused.fields(),
            Body::Move(_) | Body::Convert(..) => &[],
        };
        fields
            .iter()
            .map(|&(ty, name)| Field::new(ty, name))
            .collect()
    }

    /// What `evaluate` is called with before the elements that it reads; `element` is the number of the
    /// element.
    pub(super) fn arguments(&self, dialect: Dialect, element: &str) -> Vec<String> {
        match self {
            Body::Fill(size) => vec![format!("{}(p.value)", bits_type(*size))],
            Body::Iota(dtype) if dtype.is_float() && dialect == Dialect::Metal => {
                let names = ["start_high", "start_low", "step_high", "step_low"];
                let mut arguments: Vec<String> = names.map(|name| format!("p.{name}")).into();
                arguments.push(format!("u64({element})"));
                arguments
            }
            Body::Iota(_) => vec![
                "u64(p.start)".to_owned(),
                "u64(p.step)".to_owned(),
                format!("u64({element})"),
            ],
            Body::Map(fused) => fused.arguments(),
            Body::Move(_) | Body::Convert(..) => vec![],
        }
    }

    /// The function `evaluate`.
    pub(super) fn function(&self, dialect: Dialect) -> String {
        match self {
            Body::Move(size) => {
                let ty = bits_type(*size);
                format!("FUNCTION void evaluate({ty} x0, PRIVATE {ty}& y0) {{ y0 = x0; }}\n")
            }
            Body::Fill(size) => {
                let ty = bits_type(*size);
                format!("FUNCTION void evaluate({ty} value, PRIVATE {ty}& y0) {{ y0 = value; }}\n")
            }
            Body::Convert(from, to) => format!(
                "FUNCTION void evaluate({} x0, PRIVATE {}& y0) {{ y0 = {}; }}\n",
                storage_type(*from),
                storage_type(*to),
                store_as(*from, *to, &load(*from, "x0")),
            ),
            Body::Iota(dtype) => iota(*dtype, dialect),
            Body::Map(fused) => expression::evaluate(fused),
        }
    }
}

fn iota(dtype: DType, dialect: Dialect) -> String {
    let (parameters, value) = match (dtype.is_float(), dialect) {
        (false, _) => (
            "u64 start, u64 step, u64 index",
            format!("{}(start + index * step)", dtype.name()),
        ),
        // An f32 holds indices up to 2²⁴ only.
        (true, Dialect::Cuda) => {
            let value = "bits_f64(start) + m_mul(f64(index), bits_f64(step))";
            (
                "u64 start, u64 step, u64 index",
                store_as(DType::F64, dtype, &format!("({value})")),
            )
        }
        (true, Dialect::Metal) => (
            "f32 start, f32 start_low, f32 step, f32 step_low, u64 index",
            store(dtype, "line(start, start_low, step, step_low, index)"),
        ),
    };
    let ty = storage_type(dtype);
    format!("FUNCTION void evaluate({parameters}, PRIVATE {ty}& y0) {{ y0 = {value}; }}\n")
}

/// The parameters of [`Body::Iota`].
pub(super) fn iota_params(dtype: DType, start: Scalar, step: Scalar) -> Params {
    if !dtype.is_float() {
        let whole = |value| super::constant::computed(value, DType::I64) as i64;
        return Params::new().i64(whole(start)).i64(whole(step));
    }
    let (start, step) = (start.to_f64(), step.to_f64());
    let mut params = Params::new()
        .i64(start.to_bits() as i64)
        .i64(step.to_bits() as i64);
    for value in [start, step] {
        let high = value as f32;
        let low = if high.is_finite() {
            value - f64::from(high)
        } else {
            0.0
        };
        params = params.f32(high).f32(low as f32);
    }
    params
}
