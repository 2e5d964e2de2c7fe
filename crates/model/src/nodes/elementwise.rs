//! Functions of one element.

use streampool_tensor::Tensor;

use super::Operator;
use crate::node::{Node, Outputs};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Abs" => |node| unary(node, Tensor::abs),
        "Acos" => |node| unary(node, Tensor::acos),
        "Acosh" => |node| unary(node, Tensor::acosh),
        "Asin" => |node| unary(node, Tensor::asin),
        "Asinh" => |node| unary(node, Tensor::asinh),
        "Atan" => |node| unary(node, Tensor::atan),
        "Atanh" => |node| unary(node, Tensor::atanh),
        "BitwiseNot" => |node| unary(node, Tensor::bitwise_not),
        "Ceil" => |node| unary(node, Tensor::ceil),
        "Cos" => |node| unary(node, Tensor::cos),
        "Cosh" => |node| unary(node, Tensor::cosh),
        "Erf" => |node| unary(node, Tensor::erf),
        "Exp" => |node| unary(node, Tensor::exp),
        "Floor" => |node| unary(node, Tensor::floor),
        "HardSwish" => |node| unary(node, Tensor::hard_swish),
        "IsNaN" => |node| unary(node, Tensor::is_nan),
        "Log" => |node| unary(node, Tensor::log),
        "Mish" => |node| unary(node, Tensor::mish),
        "Neg" => |node| unary(node, Tensor::neg),
        "Not" => |node| unary(node, Tensor::logical_not),
        "Reciprocal" => |node| unary(node, Tensor::reciprocal),
        "Relu" => |node| unary(node, Tensor::relu),
        "Round" => |node| unary(node, Tensor::round),
        "Sigmoid" => |node| unary(node, Tensor::sigmoid),
        "Sign" => |node| unary(node, Tensor::sign),
        "Sin" => |node| unary(node, Tensor::sin),
        "Sinh" => |node| unary(node, Tensor::sinh),
        "Softplus" => |node| unary(node, Tensor::softplus),
        "Softsign" => |node| unary(node, Tensor::softsign),
        "Sqrt" => |node| unary(node, Tensor::sqrt),
        "Tan" => |node| unary(node, Tensor::tan),
        "Tanh" => |node| unary(node, Tensor::tanh),
        "Celu" => |node| one(node, "alpha", 1.0, |x, alpha| x.celu(alpha)),
        "Elu" => |node| one(node, "alpha", 1.0, |x, alpha| x.elu(alpha)),
        "LeakyRelu" => |node| one(node, "alpha", 0.01, |x, alpha| x.leaky_relu(alpha)),
        "Swish" => |node| one(node, "alpha", 1.0, |x, alpha| x.swish(alpha)),
        "ThresholdedRelu" => |node| one(node, "alpha", 1.0, |x, alpha| x.thresholded_relu(alpha)),
        "HardSigmoid" => hard_sigmoid,
        "Selu" => selu,
        "Shrink" => shrink,
        "Gelu" => gelu,
        "IsInf" => is_inf,
        _ => return None,
    })
}

type Made = streampool_tensor::Result<Tensor>;

fn unary(node: &Node<'_>, function: impl Fn(&Tensor) -> Made) -> Outputs {
    Ok(vec![function(node.input(0)?)?])
}

/// A function with one parameter.
fn one(
    node: &Node<'_>,
    name: &str,
    default: f64,
    function: impl Fn(&Tensor, f64) -> Made,
) -> Outputs {
    Ok(vec![function(
        node.input(0)?,
        node.float_or(name, default)?,
    )?])
}

fn hard_sigmoid(node: &Node<'_>) -> Outputs {
    let (alpha, beta) = (node.float_or("alpha", 0.2)?, node.float_or("beta", 0.5)?);
    unary(node, |x| x.hard_sigmoid(alpha, beta))
}

fn selu(node: &Node<'_>) -> Outputs {
    let alpha = node.float_or("alpha", 1.673_263_242_354_377_2)?;
    let gamma = node.float_or("gamma", 1.050_700_987_355_480_5)?;
    unary(node, |x| x.selu(alpha, gamma))
}

fn shrink(node: &Node<'_>) -> Outputs {
    let (bias, lambda) = (node.float_or("bias", 0.0)?, node.float_or("lambd", 0.5)?);
    unary(node, |x| x.shrink(bias, lambda))
}

fn gelu(node: &Node<'_>) -> Outputs {
    match node.string_or("approximate", "none")? {
        "none" => unary(node, Tensor::gelu),
        "tanh" => unary(node, Tensor::gelu_tanh),
        other => Err(node.unknown("approximate", other)),
    }
}

fn is_inf(node: &Node<'_>) -> Outputs {
    let positive = node.flag_or("detect_positive", true)?;
    match (positive, node.flag_or("detect_negative", true)?) {
        (true, true) => unary(node, Tensor::is_inf),
        (true, false) => unary(node, Tensor::is_pos_inf),
        (false, true) => unary(node, Tensor::is_neg_inf),
        (false, false) => unary(node, |x| x.is_inf()?.logical_and(false)),
    }
}
