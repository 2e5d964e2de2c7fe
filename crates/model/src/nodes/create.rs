//! Tensors made of nothing, or of a shape.

use streampool_tensor::{DType, Generator, Pool, Tensor};

use super::call::{Call, Operator, Outputs, scalar};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Constant" => constant,
        "ConstantOfShape" => constant_of_shape,
        "Range" => range,
        "EyeLike" => eye_like,
        "Bernoulli" => bernoulli,
        "Multinomial" => multinomial,
        "RandomUniform" | "RandomUniformLike" => random_uniform,
        "RandomNormal" | "RandomNormalLike" => random_normal,
        "Dropout" => dropout,
        _ => return None,
    })
}

fn constant(call: &Call<'_>) -> Outputs {
    let pool = call.pool();
    let kinds = [
        "value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
        "sparse_value",
    ];
    let given = kinds.iter().filter(|kind| call.has(kind)).count();
    if given != 1 {
        return Err(NodeError::malformed(
            "the number of values",
            given,
            "one of them",
        ));
    }
    let made = if let Some(value) = call.attr_tensor("value")? {
        value.clone()
    } else if let Some(value) = call.attr_float("value_float")? {
        Tensor::scalar(pool, value as f32)?
    } else if let Some(values) = call.attr_floats("value_floats")? {
        Tensor::from_slice(pool, values, &[values.len()])?
    } else if let Some(value) = call.attr_int("value_int")? {
        Tensor::scalar(pool, value)?
    } else if let Some(values) = call.attr_ints("value_ints")? {
        Tensor::from_slice(pool, values, &[values.len()])?
    } else {
        return Err(NodeError::unsupported("a constant that is no tensor"));
    };
    Ok(vec![made])
}

fn constant_of_shape(call: &Call<'_>) -> Outputs {
    let shape = call.input_sizes(0)?;
    let made = match call.attr_tensor("value")? {
        Some(value) => {
            let number = Tensor::full(call.pool(), &[], scalar(value)?, value.dtype())?;
            number.broadcast_to(&shape)?
        }
        None => Tensor::zeros(call.pool(), &shape, DType::F32)?,
    };
    Ok(vec![made])
}

fn range(call: &Call<'_>) -> Outputs {
    let dtype = call.given(0)?.dtype();
    let number = |place: usize| scalar(call.given(place)?);
    Ok(vec![Tensor::arange(
        call.pool(),
        number(0)?,
        number(1)?,
        number(2)?,
        dtype,
    )?])
}

fn eye_like(call: &Call<'_>) -> Outputs {
    let x = call.given(0)?;
    let dtype = call.attr_dtype("dtype")?.unwrap_or(x.dtype());
    let diagonal = call.int_or("k", 0)?;
    let ones = Tensor::ones(call.known_pool(), x.shape(), dtype)?;
    Ok(vec![ones.tril(diagonal)?.triu(diagonal)?])
}

/// The sequence that a node's seed names, and where its numbers are made; without a seed it is the node's own in this run.
fn generator<'a>(call: &Call<'a>) -> Result<(Generator, &'a Pool), NodeError> {
    match call.attr_float("seed")? {
        Some(seed) => Ok((call.sequence(Some(seed.to_bits())), call.pool())),
        None => call.fresh_sequence(),
    }
}

/// The shape and the type of random numbers.
fn wanted(call: &Call<'_>) -> Result<(Vec<usize>, DType), NodeError> {
    let like = match call.has_input(0) {
        true => Some(call.given(0)?),
        false => None,
    };
    let shape = match like {
        Some(like) => like.shape().to_vec(),
        None => call.sizes("shape")?,
    };
    let dtype = call.attr_dtype("dtype")?.or(like.map(Tensor::dtype));
    Ok((shape, dtype.unwrap_or(DType::F32)))
}

fn bernoulli(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let dtype = call.attr_dtype("dtype")?.unwrap_or(x.dtype());
    let (mut generator, pool) = generator(call)?;
    let x = call.in_pool(x, pool)?;
    Ok(vec![generator.bernoulli_of(&x)?.to_dtype(dtype)?])
}

/// Classes as likely as the logarithms of their weights say.
fn multinomial(call: &Call<'_>) -> Outputs {
    let dtype = call.attr_dtype("dtype")?.unwrap_or(DType::I32);
    let count = call.size_or("sample_size", 1)?;
    let (mut generator, pool) = generator(call)?;
    let weights = call.in_pool(call.input(0)?, pool)?.softmax(-1)?;
    let drawn = generator.multinomial(&weights, count, true)?;
    Ok(vec![drawn.to_dtype(dtype)?])
}

fn random_uniform(call: &Call<'_>) -> Outputs {
    let (low, high) = (call.float_or("low", 0.0)?, call.float_or("high", 1.0)?);
    let (shape, dtype) = wanted(call)?;
    let (mut generator, pool) = generator(call)?;
    Ok(vec![generator.uniform(pool, &shape, low, high, dtype)?])
}

fn random_normal(call: &Call<'_>) -> Outputs {
    let (mean, deviation) = (call.float_or("mean", 0.0)?, call.float_or("scale", 1.0)?);
    let (shape, dtype) = wanted(call)?;
    let (mut generator, pool) = generator(call)?;
    let drawn = generator.normal(pool, &shape, mean, deviation, dtype)?;
    Ok(vec![drawn])
}

/// Nothing is dropped, save in training.
fn dropout(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let training = match call.has_input(2) {
        true => call.given(2)?.to_dtype(DType::Bool)?.item::<bool>()?,
        false => false,
    };
    let ratio = match training {
        true => call.optional_float(1)?.unwrap_or(0.5),
        false => 0.0,
    };
    if ratio == 0.0 {
        let mut outputs = vec![x.clone()];
        if call.wants(1) {
            // Before version 10 what is kept is told in the type of the numbers.
            let dtype = if call.opset() < 10 {
                x.dtype()
            } else {
                DType::Bool
            };
            outputs.push(Tensor::ones(call.pool(), x.shape(), dtype)?);
        }
        return Ok(outputs);
    }
    let (mut generator, pool) = match call.attr_int("seed")? {
        Some(seed) => (call.sequence(Some(seed as u64)), call.pool()),
        None => call.fresh_sequence()?,
    };
    let x = call.in_pool(x, pool)?;
    let kept = generator.bernoulli(pool, x.shape(), 1.0 - ratio, DType::Bool)?;
    let scaled = x.mul(&kept.to_dtype(x.dtype())?)?.div(1.0 - ratio)?;
    Ok(vec![scaled, kept])
}
