//! Sequences of tensors, and values that may be missing.

use streampool_tensor::Tensor;
use streampool_tensor::room::copied;

use super::call::{Call, ValuesOperator, parts, resolve, size};
use super::value::{Value, Values};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<ValuesOperator> {
    Some(match op {
        "Identity" => |call| Ok(vec![call.value(0)?.clone()]),
        "Optional" => |call| {
            Ok(vec![
                call.optional_value(0).cloned().unwrap_or(Value::Nothing),
            ])
        },
        "OptionalHasElement" => has_element,
        "OptionalGetElement" => get_element,
        "SequenceEmpty" => |_| Ok(vec![Value::Sequence(Vec::new())]),
        "SequenceConstruct" => construct,
        "SequenceAt" => at,
        "SequenceErase" => erase,
        "SequenceInsert" => insert,
        "SequenceLength" => length,
        "SequenceMap" => map,
        "SplitToSequence" => split,
        "ConcatFromSequence" => concat,
        _ => return None,
    })
}

fn has_element(call: &Call<'_>) -> Values {
    let there = !matches!(call.optional_value(0), None | Some(Value::Nothing));
    Ok(vec![Tensor::scalar(call.known_pool(), there)?.into()])
}

fn get_element(call: &Call<'_>) -> Values {
    match call.value(0)? {
        Value::Nothing => Err(NodeError::malformed("the optional", "empty", "a value")),
        value => Ok(vec![value.clone()]),
    }
}

fn construct(call: &Call<'_>) -> Values {
    let tensors = (0..call.input_count()).map(|place| call.given(place).cloned());
    Ok(vec![Value::Sequence(tensors.collect::<Result<_, _>>()?)])
}

/// The sequence that an input has to be.
fn sequence<'c>(call: &'c Call<'_>, place: usize) -> Result<&'c [Tensor], NodeError> {
    match call.value(place)? {
        Value::Sequence(tensors) => Ok(tensors),
        Value::Tensor(_) => Err(NodeError::malformed(
            format_args!("input {place}"),
            "a tensor",
            "a sequence",
        )),
        Value::Nothing => Err(NodeError::malformed(
            format_args!("input {place}"),
            "an empty optional",
            "a sequence",
        )),
    }
}

/// The place that an input names, among `count`; one that is left out, `default`.
fn position(
    call: &Call<'_>,
    place: usize,
    count: usize,
    default: usize,
) -> Result<usize, NodeError> {
    match call.optional_int(place)? {
        Some(given) => resolve(given as isize, count),
        None => Ok(default),
    }
}

fn at(call: &Call<'_>) -> Values {
    let tensors = sequence(call, 0)?;
    let place = resolve(call.int(1)? as isize, tensors.len())?;
    Ok(vec![tensors[place].clone().into()])
}

fn erase(call: &Call<'_>) -> Values {
    let mut tensors = copied(sequence(call, 0)?)?;
    let last = tensors.len().checked_sub(1);
    let last =
        last.ok_or_else(|| NodeError::malformed("the sequence", "empty", "a tensor to erase"))?;
    tensors.remove(position(call, 1, tensors.len(), last)?);
    Ok(vec![Value::Sequence(tensors)])
}

fn insert(call: &Call<'_>) -> Values {
    let end = sequence(call, 0)?.len();
    parts(LENGTH, end + 1)?;
    let mut tensors = copied(sequence(call, 0)?)?;
    // Negative places count from the last tensor, as when one is picked, but the end is a place, too.
    let place = match call.optional_int(2)? {
        Some(given) if given < 0 => resolve(given as isize, end)?,
        Some(given) => resolve(given as isize, end + 1)?,
        None => end,
    };
    tensors.insert(place, call.given(1)?.clone());
    Ok(vec![Value::Sequence(tensors)])
}

fn length(call: &Call<'_>) -> Values {
    let count = sequence(call, 0)?.len() as i64;
    Ok(vec![Tensor::scalar(call.known_pool(), count)?.into()])
}

/// A graph for each tensor of the sequence, and what it makes in sequences.
fn map(call: &Call<'_>) -> Values {
    let body = call.attr_graph("body")?;
    let count = sequence(call, 0)?.len();
    let mut made = vec![Vec::new(); body.outputs.len()];
    for round in 0..count {
        let mut inputs = Vec::new();
        for place in 0..call.input_count() {
            inputs.push(match call.value(place)? {
                Value::Sequence(tensors) => {
                    let short = || {
                        let what = format_args!("the length of input {place}").to_string();
                        NodeError::malformed(what, tensors.len(), count)
                    };
                    Value::Tensor(tensors.get(round).ok_or_else(short)?.clone())
                }
                other => other.clone(),
            });
        }
        for (list, value) in made.iter_mut().zip(call.inner(body, inputs)?) {
            list.push(value.tensor()?.clone());
        }
    }
    Ok(made.into_iter().map(Value::Sequence).collect())
}

const LENGTH: &str = "the length of a sequence";

fn split(call: &Call<'_>) -> Values {
    let x = call.input(0)?;
    let axis = call.axis_or("axis", 0)?;
    let whole = x.dim(axis)?;
    let sizes = match call.optional_ints(1)? {
        None => vec![1; parts(LENGTH, whole)?],
        Some(sizes) if call.given(1)?.rank() == 1 => {
            let sizes = sizes.into_iter().map(|value| size("a size", value));
            sizes.collect::<Result<_, _>>()?
        }
        Some(sizes) => {
            let part = size("the size of a part", sizes.first().copied().unwrap_or(0))?.max(1);
            let count = parts(LENGTH, whole.div_ceil(part))?;
            let each = (0..count).map(|place| part.min(whole - place * part));
            each.collect::<Vec<usize>>()
        }
    };
    let mut parts = x.split_sizes(axis, &sizes)?;
    if !call.has_input(1) && !call.flag_or("keepdims", true)? {
        parts = parts
            .iter()
            .map(|part| part.squeeze(axis))
            .collect::<Result<_, _>>()?;
    }
    Ok(vec![Value::Sequence(parts)])
}

fn concat(call: &Call<'_>) -> Values {
    let tensors = call.together(sequence(call, 0)?)?;
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    if tensors.is_empty() {
        return Err(NodeError::malformed(
            "the sequence",
            "empty",
            "at least one tensor",
        ));
    }
    let axis = call.axis_or("axis", 0)?;
    let made = match call.flag_or("new_axis", false)? {
        true => Tensor::stack(&tensors, axis)?,
        false => Tensor::cat(&tensors, axis)?,
    };
    Ok(vec![made.into()])
}
