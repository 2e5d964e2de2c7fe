//! Categories to numbers, and back.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs};
use super::common::{floats, ints};
use crate::error::{NodeError, alike};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "OneHotEncoder" => one_hot,
        "LabelEncoder" => label_encoder,
        "CategoryMapper" => mapper,
        "DictVectorizer" => dictionary,
        _ => return None,
    })
}

/// A column for each category.
fn one_hot(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.to_dtype(DType::I64)?;
    let Some(categories) = either(call, ["cats_int64s", "cats_strings"])? else {
        return Err(NodeError::malformed(
            "attribute cats_int64s",
            "left out",
            "the categories",
        ));
    };
    let same = x
        .unsqueeze(-1)?
        .eq(&ints(call, categories, &[categories.len()])?)?;
    if !call.flag_or("zeros", true)? {
        let none = same
            .any(&[-1], false)?
            .logical_not()?
            .to_dtype(DType::I64)?;
        if none.pool() == call.known_pool() && none.sum(&[], false)?.item::<i64>()? > 0 {
            return Err(NodeError::malformed(
                "a value",
                "of no category",
                "one of the categories",
            ));
        }
    }
    Ok(vec![same.to_dtype(DType::F32)?])
}

fn either<'a>(call: &Call<'a>, names: [&str; 2]) -> Result<Option<&'a [i64]>, NodeError> {
    for name in names {
        if let Some(found) = call.attr_ints(name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The value of each key of a vocabulary; of a key that is not given zero.
fn dictionary(call: &Call<'_>) -> Outputs {
    let (values, keys) = (call.input(0)?, call.input(1)?);
    let Some(vocabulary) = either(call, ["int64_vocabulary", "string_vocabulary"])? else {
        let what = "attribute string_vocabulary";
        return Err(NodeError::malformed(what, "left out", "the keys"));
    };
    alike("values", values.elem_count(), keys.elem_count())?;
    let known = ints(call, vocabulary, &[vocabulary.len(), 1])?;
    let is_own = known.eq(&keys.to_dtype(DType::I64)?.unsqueeze(0)?)?;
    let found = is_own.where_cond(values, 0.0)?.sum(&[1], false)?;
    Ok(vec![found.to_dtype(values.dtype())?.unsqueeze(0)?])
}

/// Strings to integers, or integers to strings.
fn mapper(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let pairs = (
        call.attr_ints("cats_int64s")?,
        call.attr_ints("cats_strings")?,
    );
    let (Some(numbers), Some(strings)) = pairs else {
        return Err(NodeError::malformed(
            "attribute cats_strings",
            "left out",
            "the categories",
        ));
    };
    alike("cats_strings", strings.len(), numbers.len())?;
    let back = call.int_or("gives_strings", 0)? != 0;
    let (keys, values, default) = match back {
        true => (numbers, strings, call.int_or("default_string", -1)?),
        false => (strings, numbers, call.int_or("default_int64", -1)?),
    };
    let keys = ints(call, keys, &[keys.len()])?;
    let values = ints(call, values, &[values.len()])?;
    let default = call.constant(default, DType::I64)?;
    Ok(vec![looked_up(x, &keys, &values, &default)?])
}

/// The value of the first key that is equal, or the default.
fn looked_up(
    x: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    default: &Tensor,
) -> Result<Tensor, NodeError> {
    let count = keys.elem_count();
    let x = x.to_dtype(keys.dtype())?;
    if count == 0 {
        return Ok(default.broadcast_to(x.shape())?);
    }
    let mut same = x.unsqueeze(-1)?.eq(keys)?;
    if keys.dtype().is_float() {
        // NaN is a key like others here.
        let both = x.is_nan()?.unsqueeze(-1)?.logical_and(&keys.is_nan()?)?;
        same = same.logical_or(&both)?;
    }
    let place = same.to_dtype(DType::I32)?.argmax(-1, false)?;
    let found = same.any(&[-1], false)?;
    Ok(found.where_cond(&values.take(&place)?, default)?)
}

/// A value for each key.
fn label_encoder(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    if let Some(classes) = call.attr_ints("classes_strings")? {
        // The first version: strings and their places.
        let places: Vec<i64> = (0i64..).zip(classes).map(|(place, _)| place).collect();
        let back = call.int_or("gives_strings", 0)? != 0;
        let (keys, values, default) = match back {
            true => (&places[..], classes, call.int_or("default_string", -1)?),
            false => (classes, &places[..], call.int_or("default_int64", -1)?),
        };
        let keys = ints(call, keys, &[keys.len()])?;
        let values = ints(call, values, &[values.len()])?;
        let default = call.constant(default, DType::I64)?;
        return Ok(vec![looked_up(x, &keys, &values, &default)?]);
    }
    let list = |what: &str| -> Result<Tensor, NodeError> {
        if let Some(found) = call.attr_tensor(&format!("{what}_tensor"))? {
            return call.lift(&found.reshape(&[-1])?);
        }
        for kind in ["strings", "int64s"] {
            if let Some(found) = call.attr_ints(&format!("{what}_{kind}"))? {
                return ints(call, found, &[found.len()]);
            }
        }
        match call.attr_floats(&format!("{what}_floats"))? {
            Some(found) => floats(call, found, &[found.len()]),
            None => Err(NodeError::malformed(
                format_args!("attribute {what}"),
                "left out",
                "a list",
            )),
        }
    };
    let (keys, values) = (list("keys")?, list("values")?);
    alike("values", values.elem_count(), keys.elem_count())?;
    let default = match call.attr_tensor("default_tensor")? {
        Some(default) => call.lift(&default.reshape::<usize>(&[])?.to_dtype(values.dtype())?)?,
        None if values.dtype().is_float() => {
            call.constant(call.float_or("default_float", -0.0)?, values.dtype())?
        }
        None if call.has("values_strings") => {
            call.constant(call.int_or("default_string", -1)?, DType::I64)?
        }
        None => call.constant(call.int_or("default_int64", -1)?, values.dtype())?,
    };
    Ok(vec![looked_up(x, &keys, &values, &default)?])
}
