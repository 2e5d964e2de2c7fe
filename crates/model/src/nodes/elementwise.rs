//! Functions of one element.

use streampool_tensor::Tensor;

use super::call::{Call, Operator, Outputs, TensorResult};
use super::floats::by_floats;
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Abs" => |call| unary(call, Tensor::abs),
        "Acos" => |call| unary(call, Tensor::acos),
        "Acosh" => |call| unary(call, Tensor::acosh),
        "Asin" => |call| unary(call, Tensor::asin),
        "Asinh" => |call| unary(call, Tensor::asinh),
        "Atan" => |call| unary(call, Tensor::atan),
        "Atanh" => |call| unary(call, Tensor::atanh),
        "BitwiseNot" => |call| unary(call, Tensor::bitwise_not),
        "Ceil" => |call| unary(call, Tensor::ceil),
        "Cos" => |call| unary(call, Tensor::cos),
        "Cosh" => |call| unary(call, Tensor::cosh),
        "Erf" => |call| unary(call, Tensor::erf),
        "Exp" => |call| unary(call, Tensor::exp),
        "Floor" => |call| unary(call, Tensor::floor),
        "HardSwish" => |call| unary(call, Tensor::hard_swish),
        "IsNaN" => |call| unary(call, Tensor::is_nan),
        "Log" => |call| unary(call, Tensor::log),
        "Mish" => |call| unary(call, Tensor::mish),
        "Neg" => |call| unary(call, Tensor::neg),
        "Not" => |call| unary(call, Tensor::logical_not),
        "Reciprocal" => |call| unary(call, Tensor::reciprocal),
        "Relu" => |call| unary(call, Tensor::relu),
        "Round" => |call| unary(call, Tensor::round),
        "Sigmoid" => |call| unary(call, Tensor::sigmoid),
        "Sign" => |call| unary(call, Tensor::sign),
        "Sin" => |call| unary(call, Tensor::sin),
        "Sinh" => |call| unary(call, Tensor::sinh),
        "Softplus" => |call| unary(call, Tensor::softplus),
        "Softsign" => |call| unary(call, Tensor::softsign),
        "Sqrt" => |call| unary(call, Tensor::sqrt),
        "Tan" => |call| unary(call, Tensor::tan),
        "Tanh" => |call| unary(call, Tensor::tanh),
        "Celu" => |call| one(call, "alpha", 1.0, |x, alpha| x.celu(alpha)),
        "Elu" => |call| one(call, "alpha", 1.0, |x, alpha| x.elu(alpha)),
        "LeakyRelu" => |call| one(call, "alpha", 0.01, |x, alpha| x.leaky_relu(alpha)),
        "Swish" => |call| one(call, "alpha", 1.0, |x, alpha| x.swish(alpha)),
        "ThresholdedRelu" => |call| {
            check_number(call, "alpha")?;
            one(call, "alpha", 1.0, |x, alpha| {
                number_or_zero(x, &x.thresholded_relu(alpha)?)
            })
        },
        "HardSigmoid" => hard_sigmoid,
        "ParametricSoftplus" => parametric_softplus,
        "ScaledTanh" => scaled_tanh,
        "Selu" => selu,
        "Shrink" => shrink,
        "Gelu" => gelu,
        "IsInf" => is_inf,
        _ => return None,
    })
}

fn unary(call: &Call<'_>, function: impl Fn(&Tensor) -> TensorResult) -> Outputs {
    Ok(vec![function(call.input(0)?)?])
}

/// A function with one parameter.
fn one(
    call: &Call<'_>,
    name: &str,
    default: f64,
    function: impl Fn(&Tensor, f64) -> TensorResult,
) -> Outputs {
    Ok(vec![function(
        call.input(0)?,
        call.float_or(name, default)?,
    )?])
}

fn hard_sigmoid(call: &Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 0.2)?, call.float_or("beta", 0.5)?);
    unary(call, |x| x.hard_sigmoid(alpha, beta))
}

/// An operator of early versions.
fn parametric_softplus(call: &Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    unary(call, |x| x.mul(beta)?.softplus()?.mul(alpha))
}

/// An operator of early versions.
fn scaled_tanh(call: &Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    unary(call, |x| x.mul(beta)?.tanh()?.mul(alpha))
}

fn selu(call: &Call<'_>) -> Outputs {
    let alpha = call.float_or("alpha", 1.673_263_242_354_377_2)?;
    let gamma = call.float_or("gamma", 1.050_700_987_355_480_5)?;
    unary(call, |x| x.selu(alpha, gamma))
}

fn shrink(call: &Call<'_>) -> Outputs {
    check_number(call, "lambd")?;
    let (bias, lambda) = (call.float_or("bias", 0.0)?, call.float_or("lambd", 0.5)?);
    unary(call, |x| {
        by_floats(x, |x| number_or_zero(x, &x.shrink(bias, lambda)?))
    })
}

/// Refuses a bound that no number is above or below.
fn check_number(call: &Call<'_>, name: &str) -> Result<(), NodeError> {
    match call.attr_float(name)? {
        Some(bound) if bound.is_nan() => {
            let what = format_args!("attribute {name}");
            Err(NodeError::malformed(what, bound, "a number"))
        }
        _ => Ok(()),
    }
}

/// `y`, but zero where `x` is no number: it meets no condition.
fn number_or_zero(x: &Tensor, y: &Tensor) -> TensorResult {
    x.is_nan()?.where_cond(0.0, y)
}

fn gelu(call: &Call<'_>) -> Outputs {
    match call.string_or("approximate", "none")? {
        "none" => unary(call, Tensor::gelu),
        "tanh" => unary(call, Tensor::gelu_tanh),
        other => Err(call.unknown("approximate", other)),
    }
}

fn is_inf(call: &Call<'_>) -> Outputs {
    let positive = call.flag_or("detect_positive", true)?;
    match (positive, call.flag_or("detect_negative", true)?) {
        (true, true) => unary(call, Tensor::is_inf),
        (true, false) => unary(call, Tensor::is_pos_inf),
        (false, true) => unary(call, Tensor::is_neg_inf),
        (false, false) => unary(call, |x| x.is_inf()?.logical_and(false)),
    }
}
