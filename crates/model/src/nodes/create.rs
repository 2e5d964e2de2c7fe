//! Tensors made of nothing, or of a shape.

use streampool_tensor::{DType, Generator, Scalar, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs, size};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Constant" => constant,
        "ConstantOfShape" => constant_of_shape,
        "Range" => range,
        "EyeLike" => eye_like,
        "Bernoulli" => bernoulli,
        "RandomUniform" | "RandomUniformLike" => random_uniform,
        "RandomNormal" | "RandomNormalLike" => random_normal,
        "Dropout" => dropout,
        _ => return None,
    })
}

fn constant(node: &Node<'_>) -> Outputs {
    let pool = node.pool();
    let made = if let Some(value) = node.attr_tensor("value")? {
        value.tensor(pool)?
    } else if let Some(value) = node.attr_float("value_float")? {
        Tensor::scalar(pool, value as f32)?
    } else if let Some(values) = node.attr_floats("value_floats")? {
        Tensor::from_slice(pool, values, &[values.len()])?
    } else if let Some(value) = node.attr_int("value_int")? {
        Tensor::scalar(pool, value)?
    } else if let Some(values) = node.attr_ints("value_ints")? {
        Tensor::from_slice(pool, values, &[values.len()])?
    } else {
        return Err(Fault::unsupported("a constant that is no tensor"));
    };
    Ok(vec![made])
}

fn constant_of_shape(node: &Node<'_>) -> Outputs {
    let mut shape = Vec::new();
    for value in node.ints(0)? {
        shape.push(size("a size", value)?);
    }
    let made = match node.attr_tensor("value")? {
        Some(value) => value
            .tensor(node.pool())?
            .reshape::<usize>(&[])?
            .broadcast_to(&shape)?,
        None => Tensor::zeros(node.pool(), &shape, DType::F32)?,
    };
    Ok(vec![made])
}

fn range(node: &Node<'_>) -> Outputs {
    let dtype = node.input(0)?.dtype();
    let number = |place: usize| -> Result<Scalar, Fault> {
        let value = node.input(place)?;
        Ok(match dtype.is_float() {
            true => value.to_dtype(DType::F64)?.item::<f64>()?.into(),
            false => value.to_dtype(DType::I64)?.item::<i64>()?.into(),
        })
    };
    Ok(vec![Tensor::arange(
        node.pool(),
        number(0)?,
        number(1)?,
        number(2)?,
        dtype,
    )?])
}

fn eye_like(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let dtype = node.attr_dtype("dtype")?.unwrap_or(x.dtype());
    let diagonal = node.int_or("k", 0)?;
    let ones = Tensor::ones(node.pool(), x.shape(), dtype)?;
    Ok(vec![ones.tril(diagonal)?.triu(diagonal)?])
}

/// The sequence that a node's seed names; without one it is always the same.
fn generator(node: &Node<'_>) -> Result<Generator, Fault> {
    let seed = node.attr_float("seed")?.unwrap_or(0.0);
    Ok(Generator::new(seed.to_bits()))
}

/// The shape and the type of random numbers.
fn wanted(node: &Node<'_>) -> Result<(Vec<usize>, DType), Fault> {
    let like = node.optional(0);
    let shape = match like {
        Some(like) => like.shape().to_vec(),
        None => node.sizes("shape")?,
    };
    let dtype = node.attr_dtype("dtype")?.or(like.map(Tensor::dtype));
    Ok((shape, dtype.unwrap_or(DType::F32)))
}

fn bernoulli(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let dtype = node.attr_dtype("dtype")?.unwrap_or(x.dtype());
    Ok(vec![generator(node)?.bernoulli_of(x)?.to_dtype(dtype)?])
}

fn random_uniform(node: &Node<'_>) -> Outputs {
    let (low, high) = (node.float_or("low", 0.0)?, node.float_or("high", 1.0)?);
    let (shape, dtype) = wanted(node)?;
    Ok(vec![generator(node)?.uniform(
        node.pool(),
        &shape,
        low,
        high,
        dtype,
    )?])
}

fn random_normal(node: &Node<'_>) -> Outputs {
    let (mean, deviation) = (node.float_or("mean", 0.0)?, node.float_or("scale", 1.0)?);
    let (shape, dtype) = wanted(node)?;
    Ok(vec![generator(node)?.normal(
        node.pool(),
        &shape,
        mean,
        deviation,
        dtype,
    )?])
}

/// Nothing is dropped, save in training.
fn dropout(node: &Node<'_>) -> Outputs {
    let x = node.input(0)?;
    let all = Tensor::ones(node.pool(), x.shape(), DType::Bool)?;
    let training = match node.optional(2) {
        Some(training) => training.to_dtype(DType::Bool)?.item::<bool>()?,
        None => false,
    };
    let ratio = node.optional_float(1)?.unwrap_or(0.5);
    if !training || ratio == 0.0 {
        return Ok(vec![x.clone(), all]);
    }
    let seed = node.int_or("seed", 0)? as u64;
    let kept = Generator::new(seed).bernoulli(node.pool(), x.shape(), 1.0 - ratio, DType::Bool)?;
    let scaled = x.mul(&kept.to_dtype(x.dtype())?)?.div(1.0 - ratio)?;
    Ok(vec![scaled, kept])
}
