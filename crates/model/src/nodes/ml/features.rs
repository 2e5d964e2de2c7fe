//! What is done to features before a model sees them.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs};
use super::common::{attr_floats, float_rows, floats, ints, rows};
use crate::error::{NodeError, alike};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "Scaler" => scaler,
        "Normalizer" => normalizer,
        "Imputer" => imputer,
        "Binarizer" => |call| {
            let x = call.input(0)?;
            let above = x.gt(call.float_or("threshold", 0.0)?)?;
            Ok(vec![above.to_dtype(x.dtype())?])
        },
        "FeatureVectorizer" => vectorizer,
        "ArrayFeatureExtractor" => extractor,
        "ZipMap" => |call| Ok(vec![call.input(0)?.clone()]),
        _ => return None,
    })
}

/// `(x - offset) * scale`, by columns.
fn scaler(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.to_dtype(DType::F32)?;
    let columns = x.shape().last().copied().unwrap_or(1);
    let by_column = |name: &str| {
        let values = attr_floats(call, name)?;
        if values.len() != 1 {
            alike(name, values.len(), columns)?;
        }
        floats(call, values, &[values.len()])
    };
    Ok(vec![
        x.sub(&by_column("offset")?)?.mul(&by_column("scale")?)?,
    ])
}

/// Rows of length one, as the norm has it.
fn normalizer(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.to_dtype(DType::F32)?;
    let rows = if x.rank() == 1 {
        x.unsqueeze(0)?
    } else {
        x.clone()
    };
    let length = match call.string_or("norm", "MAX")? {
        "MAX" => rows.max(&[1], true)?,
        "L1" => rows.abs()?.sum(&[1], true)?,
        "L2" => {
            // The signs of what is squared come back, as ONNX Runtime has it.
            rows.sum_square(&[1], true)?.sqrt()?
        }
        other => return Err(call.unknown("norm", other)),
    };
    // A row of zeros stays one.
    let length = length.masked_fill(&length.eq(0.0)?, 1.0)?;
    Ok(vec![rows.div(&length)?.reshape(x.shape())?])
}

/// Other values for those that stand for what is missing.
fn imputer(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let columns = x.shape().last().copied().unwrap_or(1);
    let (missing, values) = if x.dtype().is_float() {
        let values = attr_floats(call, "imputed_value_floats")?;
        let replaced = call.float_or("replaced_value_float", 0.0)?;
        let missing = if replaced.is_nan() {
            x.is_nan()?
        } else {
            x.eq(replaced)?
        };
        (missing, floats(call, values, &[values.len()])?)
    } else {
        let left_out =
            || NodeError::malformed("attribute imputed_value_int64s", "left out", "integers");
        let values = call
            .attr_ints("imputed_value_int64s")?
            .ok_or_else(left_out)?;
        let missing = x.eq(call.int_or("replaced_value_int64", 0)?)?;
        (missing, ints(call, values, &[values.len()])?)
    };
    if values.elem_count() != 1 {
        alike("imputed_value", values.elem_count(), columns)?;
    }
    Ok(vec![missing.where_cond(&values.to_dtype(x.dtype())?, x)?])
}

/// Columns side by side, as `f32`.
fn vectorizer(call: &Call<'_>) -> Outputs {
    let widths = call.sizes("inputdimensions")?;
    let mut columns = Vec::new();
    for place in 0..call.input_count() {
        let x = float_rows(call, place)?;
        let has = x.dim(1)?;
        let wanted = widths.get(place).copied().unwrap_or(has);
        columns.push(match wanted <= has {
            true => x.narrow(1, 0, wanted)?,
            false => x.pad(
                &[(0, 0), (0, (wanted - has) as isize)],
                streampool_tensor::Padding::Constant(0.0.into()),
            )?,
        });
    }
    if columns.is_empty() {
        return Err(NodeError::malformed("the inputs", "none", "at least one"));
    }
    Ok(vec![Tensor::cat(&columns.iter().collect::<Vec<_>>(), 1)?])
}

/// Chosen places along the last axis; a list is one row.
fn extractor(call: &Call<'_>) -> Outputs {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let places = places.reshape(&[-1])?;
    let x = if x.rank() == 1 {
        rows(call, 0)?
    } else {
        x.clone()
    };
    Ok(vec![x.index_select(-1, &places)?])
}
