//! Products and convolutions, with what comes before and after them.

use streampool_tensor::{Activation, ConvOptions, Tensor};

use super::super::call::{Call, Operator, Outputs};
use super::super::conv::convolved_with;
use super::super::product::gemm_product;
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "FusedMatMul" | "TransposeMatMul" => matmul,
        "FusedGemm" => gemm,
        "FusedConv" => conv,
        _ => return None,
    })
}

fn matmul(call: &Call<'_>) -> Outputs {
    let turned = |place, batch: &str, last: &str| -> Result<Tensor, NodeError> {
        let mut matrix = call.input(place)?.clone();
        let rank = matrix.rank() as isize;
        if call.flag_or(batch, false)? && rank > 2 {
            // The first axis comes before the last.
            let order: Vec<isize> = (1..rank - 1).chain([0, rank - 1]).collect();
            matrix = matrix.permute(&order)?;
        }
        match call.flag_or(last, false)? && rank > 1 {
            true => Ok(matrix.transpose(-2, -1)?),
            false => Ok(matrix),
        }
    };
    let (a, b) = (
        turned(0, "transBatchA", "transA")?,
        turned(1, "transBatchB", "transB")?,
    );
    let alpha = call.float_or("alpha", 1.0)?;
    Ok(vec![a.matmul_with(&b, None, Activation::None, alpha)?])
}

fn gemm(call: &Call<'_>) -> Outputs {
    let parameter = |name| call.attr_float(name);
    let parameters = [
        parameter("activation_alpha")?,
        parameter("activation_beta")?,
    ];
    Ok(vec![activated(call, gemm_product(call)?, parameters)?])
}

fn conv(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let listed = call.attr_floats("activation_params")?.unwrap_or_default();
    let parameter = |place: usize| listed.get(place).map(|&value| f64::from(value));
    let added = call.optional(3)?;
    let own = match (call.string_or("activation", "")?, added) {
        ("Relu", None) => Activation::Relu,
        ("Sigmoid", None) => Activation::Sigmoid,
        ("Tanh", None) => Activation::Tanh,
        ("HardSwish", None) => Activation::HardSwish,
        _ => Activation::None,
    };
    let options = ConvOptions {
        bias,
        activation: own,
        ..ConvOptions::default()
    };
    let y = convolved_with(call, x, weight, &options)?;
    if own != Activation::None {
        return Ok(vec![y]);
    }
    let y = match added {
        Some(added) => y.add(added)?,
        None => y,
    };
    Ok(vec![activated(call, y, [parameter(0), parameter(1)])?])
}

/// The activation that a node names, with its parameters as far as they are given.
fn activated(
    call: &Call<'_>,
    y: Tensor,
    [alpha, beta]: [Option<f64>; 2],
) -> Result<Tensor, NodeError> {
    Ok(match call.string_or("activation", "")? {
        "" => y,
        "Relu" => y.relu()?,
        "Sigmoid" => y.sigmoid()?,
        "Tanh" => y.tanh()?,
        "Softplus" => y.softplus()?,
        "Softsign" => y.softsign()?,
        "HardSwish" => y.hard_swish()?,
        "LeakyRelu" => y.leaky_relu(alpha.unwrap_or(0.01))?,
        "Elu" => y.elu(alpha.unwrap_or(1.0))?,
        "ThresholdedRelu" => y.thresholded_relu(alpha.unwrap_or(1.0))?,
        "HardSigmoid" => y.hard_sigmoid(alpha.unwrap_or(0.2), beta.unwrap_or(0.5))?,
        "Clip" => y.clamp(
            alpha.unwrap_or(f64::NEG_INFINITY),
            beta.unwrap_or(f64::INFINITY),
        )?,
        other => return Err(call.unknown("activation", other)),
    })
}
