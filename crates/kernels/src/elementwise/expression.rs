//! Fused expressions as text.

use std::fmt::Write;

use streampool_device::{Binary, Compare, DType, Expr, Node, Scalar, Unary};

use super::constant::computed;
use super::fused::{Fused, constant_name};
use crate::text::{cast, compute_type, load, storage_type, store};

/// The function `evaluate`, from the constants that are parameters and stored inputs to stored outputs.
///
/// Halves are computed as `f32` and rounded to their type after every function that may leave it, so that
/// it does not matter what an expression is fused from.
pub(super) fn evaluate(fused: &Fused) -> String {
    let expr = fused.expr();
    let constants = fused.types().enumerate();
    let mut parameters: Vec<String> = constants
        .map(|(index, ty)| format!("{ty} {}", constant_name(index)))
        .collect();
    let mut constants = (0..parameters.len()).map(constant_name);
    let inputs = expr.inputs().iter().enumerate();
    parameters.extend(inputs.map(|(input, &dtype)| format!("{} x{input}", storage_type(dtype))));
    let outputs = expr.outputs().iter().enumerate();
    parameters.extend(
        outputs.map(|(output, &value)| {
            format!("PRIVATE {}& y{output}", storage_type(expr.dtype(value)))
        }),
    );
    let mut text = format!("FUNCTION void evaluate({}) {{\n", parameters.join(", "));
    for (index, &(node, dtype)) in expr.nodes().iter().enumerate() {
        let value = value(expr, node, dtype, &mut constants);
        let _ = writeln!(
            text,
            "    const {} v{index} = {value};",
            compute_type(dtype)
        );
    }
    for (output, &value) in expr.outputs().iter().enumerate() {
        let stored = store(expr.dtype(value), &format!("v{}", value.index()));
        let _ = writeln!(text, "    y{output} = {stored};");
    }
    text + "}\n"
}

/// The value of a node. Of its constants, those that are parameters come first.
fn value(
    expr: &Expr,
    node: Node,
    dtype: DType,
    parameters: &mut impl Iterator<Item = String>,
) -> String {
    let name = |value: streampool_device::Value| format!("v{}", value.index());
    match node {
        Node::Input(input) => load(dtype, &format!("x{input}")),
        Node::Const(value) => parameters.next().unwrap_or_else(|| constant(value, dtype)),
        Node::Unary(function, x) => {
            let exact = stays_in_type(function);
            rounded(dtype, exact, unary(function, expr.dtype(x), &name(x)))
        }
        Node::Binary(function, x, y) => {
            let exact = matches!(function, Binary::Min | Binary::Max);
            rounded(dtype, exact, binary(function, dtype, &name(x), &name(y)))
        }
        Node::Compare(comparison, x, y) => {
            format!("{} {} {}", name(x), operator(comparison), name(y))
        }
        Node::Select(condition, x, y) => {
            format!("{} ? {} : {}", name(condition), name(x), name(y))
        }
        Node::Cast(x) => cast(expr.dtype(x), dtype, &name(x)),
    }
}

fn constant(value: Scalar, dtype: DType) -> String {
    let bits = computed(value, dtype);
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => format!("bits_f32({bits:#x}u)"),
        DType::F64 => format!("bits_f64({bits:#x})"),
        DType::Bool => (bits != 0).to_string(),
        whole => format!("{}({bits:#x})", whole.name()),
    }
}

/// Whether the result of a half is exactly a half.
fn stays_in_type(function: Unary) -> bool {
    use Unary::{Abs, Ceil, Floor, IsInf, IsNan, Neg, Relu, Round, Sign, Trunc};
    matches!(
        function,
        Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | IsNan | IsInf
    )
}

fn rounded(dtype: DType, exact: bool, value: String) -> String {
    match dtype {
        DType::F16 | DType::BF16 if !exact => load(dtype, &store(dtype, &value)),
        _ => value,
    }
}

fn unary(function: Unary, dtype: DType, x: &str) -> String {
    let name = match function {
        Unary::Not if dtype == DType::Bool => return format!("!{x}"),
        Unary::Not => return format!("{}(~{x})", dtype.name()),
        Unary::Neg if dtype.is_float() => return format!("-{x}"),
        Unary::Recip => return format!("{}(1) / {x}", compute_type(dtype)),
        Unary::Neg => "int_neg",
        Unary::Abs if dtype.is_float() => "m_abs",
        Unary::Abs => "int_abs",
        Unary::Sign if dtype.is_float() => "m_sign",
        Unary::Sign => "int_sign",
        Unary::Relu if dtype.is_float() => "act_relu",
        Unary::Relu => "int_relu",
        Unary::Exp => "m_exp",
        Unary::Log => "m_log",
        Unary::Log1p => "m_log1p",
        Unary::Expm1 => "m_expm1",
        Unary::Sqrt => "m_sqrt",
        Unary::Rsqrt => "m_rsqrt",
        Unary::Sin => "m_sin",
        Unary::Cos => "m_cos",
        Unary::Tan => "m_tan",
        Unary::Asin => "m_asin",
        Unary::Acos => "m_acos",
        Unary::Atan => "m_atan",
        Unary::Sinh => "m_sinh",
        Unary::Cosh => "m_cosh",
        Unary::Tanh => "m_tanh",
        Unary::Asinh => "m_asinh",
        Unary::Acosh => "m_acosh",
        Unary::Atanh => "m_atanh",
        Unary::Erf => "m_erf",
        Unary::Sigmoid => "act_sigmoid",
        Unary::Silu => "act_silu",
        Unary::Gelu => "act_gelu",
        Unary::GeluTanh => "act_gelu_tanh",
        Unary::Softplus => "act_softplus",
        Unary::Floor => "m_floor",
        Unary::Ceil => "m_ceil",
        Unary::Round => "m_round",
        Unary::Trunc => "m_trunc",
        Unary::IsNan => "m_isnan",
        Unary::IsInf => "m_isinf",
    };
    format!("{name}({x})")
}

fn binary(function: Binary, dtype: DType, x: &str, y: &str) -> String {
    let float = dtype.is_float();
    let name = match function {
        // Not `m_mul`, but for products: nothing else is fused with what comes after.
        Binary::Add if float => return format!("{x} + {y}"),
        Binary::Sub if float => return format!("{x} - {y}"),
        Binary::Div if float => return format!("{x} / {y}"),
        Binary::And if dtype == DType::Bool => return format!("{x} && {y}"),
        Binary::Or if dtype == DType::Bool => return format!("{x} || {y}"),
        Binary::Xor if dtype == DType::Bool => return format!("{x} != {y}"),
        Binary::And => return format!("{}({x} & {y})", dtype.name()),
        Binary::Or => return format!("{}({x} | {y})", dtype.name()),
        Binary::Xor => return format!("{}({x} ^ {y})", dtype.name()),
        Binary::Add => "int_add",
        Binary::Sub => "int_sub",
        Binary::Mul if float => "m_mul",
        Binary::Mul => "int_mul",
        Binary::Div => "int_div",
        Binary::Rem if float => "m_rem",
        Binary::Rem => "int_rem",
        Binary::Pow if float => "m_pow",
        Binary::Pow => "int_pow",
        Binary::Min if float => "m_min",
        Binary::Min => "int_min",
        Binary::Max if float => "m_max",
        Binary::Max => "int_max",
        Binary::Atan2 => "m_atan2",
        Binary::Shl => "int_shl",
        Binary::Shr => "int_shr",
    };
    format!("{name}({x}, {y})")
}

fn operator(comparison: Compare) -> &'static str {
    match comparison {
        Compare::Eq => "==",
        Compare::Ne => "!=",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn fused(expr: streampool_device::Result<Expr>) -> Fused {
        Fused::new(&Arc::new(expr.unwrap()))
    }

    #[test]
    fn halves_round_after_each_function_that_may_leave_their_type() {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F16).unwrap();
        let two = expr.constant(2.0, DType::F16).unwrap();
        let twice = expr.binary(Binary::Mul, x, two).unwrap();
        let negated = expr.unary(Unary::Neg, twice).unwrap();
        let text = evaluate(&fused(expr.finish(&[negated])));
        assert_eq!(
            text,
            "FUNCTION void evaluate(f32 c0, u16 x0, PRIVATE u16& y0) {\n    \
             const f32 v0 = load_f16(x0);\n    \
             const f32 v1 = c0;\n    \
             const f32 v2 = load_f16(store_f16(m_mul(v0, v1)));\n    \
             const f32 v3 = -v2;\n    \
             y0 = store_f16(v3);\n}\n"
        );
    }

    #[test]
    fn integers_wrap_and_truth_values_are_logical() {
        let text = |function, dtype| evaluate(&fused(Expr::binary(function, dtype)));
        assert!(text(Binary::Add, DType::I32).contains("int_add(v0, v1)"));
        assert!(text(Binary::Xor, DType::Bool).contains("y0 = u8((v2) ? 1 : 0)"));
        let not = evaluate(&fused(Expr::unary(Unary::Not, DType::U8)));
        assert!(not.contains("const u8 v1 = u8(~v0)"));
    }
}
