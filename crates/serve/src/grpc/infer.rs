//! `ModelInfer`: tensors as raw bytes or as lists of numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use streampool::{Array, DType};
use tonic::metadata::MetadataMap;

use super::messages::{
    Choice, Contents, InferRequest, InferResponse, OutputTensor, Parameter, Parameters,
};
use crate::aside::aside;
use crate::error::{Error, Result};
use crate::figures::Watch;
use crate::model::{Model, Place, Terms, deadline, shared};
use crate::outputs::{self, Output, Wanted};
use crate::server::Server;
use crate::shared_memory::Window;
use crate::strings;
use crate::tenants::Who;

/// Answers an inference. If the future is dropped, the request is withdrawn.
pub async fn infer(
    server: &Arc<Server>,
    who: &Who,
    terms: Terms,
    request: InferRequest,
) -> Result<InferResponse> {
    let version = Some(&request.model_version[..]);
    let model = server.repository().find(&request.model_name, version)?;
    let watch = server.begin(&model, who);
    let answer = answer(server, &model, &watch, who, terms, request).await;
    server.finish(&model, watch, &answer);
    answer
}

async fn answer(
    server: &Server,
    model: &Model,
    watch: &Watch,
    who: &Who,
    mut terms: Terms,
    request: InferRequest,
) -> Result<InferResponse> {
    let _permit = server.enter(who)?;
    terms.tenant = who.tenant.clone();
    terms.span = watch.span();
    let begun = Instant::now();
    parameters(&request.parameters, &mut terms)?;
    let given = aside(request.encoded_len(), || {
        inputs(server, model, who, &request)
    })?;
    let given = model.in_order(given)?;
    let wanted = match request.outputs.is_empty() {
        true => outputs::all(model, true),
        false => {
            let asked = request.outputs.iter();
            let wanted = asked.map(|asked| {
                Ok(Wanted {
                    name: asked.name.clone(),
                    binary: true,
                    classes: usize::try_from(number(&asked.parameters, "classification")?)
                        .unwrap_or(usize::MAX),
                    window: window(server, who, &asked.parameters)?,
                })
            });
            wanted.collect::<Result<_>>()?
        }
    };
    outputs::check(model, &wanted)?;
    let id = request.id;
    drop(request.raw_input_contents);
    watch.input(begun.elapsed());
    let arrays = model.run(given, &terms).await?;
    let begun = Instant::now();
    let outputs = outputs::choose(model, arrays, wanted)?;
    let bytes = outputs.iter().map(|output| output.values.byte_count());
    let response = aside(bytes.sum(), || written(model, id, outputs))?;
    watch.output(begun.elapsed());
    Ok(response)
}

fn written(model: &Model, id: String, outputs: Vec<Output>) -> Result<InferResponse> {
    let mut response = InferResponse {
        model_name: model.name().to_owned(),
        model_version: model.version().to_string(),
        id,
        ..InferResponse::default()
    };
    for output in outputs {
        let mut raw = Vec::new();
        let parameters = match output.leave()? {
            None => {
                output.values.append_to(&mut raw);
                Parameters::new()
            }
            // Its place among raw contents stays empty.
            Some((region, offset, size)) => [
                ("shared_memory_region", Choice::String(region.to_owned())),
                ("shared_memory_offset", Choice::Int64(offset as i64)),
                ("shared_memory_byte_size", Choice::Int64(size as i64)),
            ]
            .map(|(name, choice)| {
                let choice = Some(choice);
                (name.to_owned(), Parameter { choice })
            })
            .into(),
        };
        response.raw_output_contents.push(raw.into());
        response.outputs.push(OutputTensor {
            name: output.name,
            datatype: output.datatype.to_owned(),
            shape: output.shape.iter().map(|&size| size as i64).collect(),
            parameters,
        });
    }
    Ok(response)
}

/// What the headers of a call say: its deadline.
pub fn terms(metadata: &MetadataMap) -> Result<Terms> {
    let text = |name: &str| metadata.get(name).and_then(|value| value.to_str().ok());
    let timeout = text("grpc-timeout").map(|timeout| {
        let time = duration(timeout);
        time.ok_or_else(|| Error::invalid(format!("grpc-timeout {timeout:?} is not a time")))
    });
    let timeout = timeout.transpose()?;
    Ok(Terms {
        deadline: timeout.and_then(|time| Instant::now().checked_add(time)),
        ..Terms::default()
    })
}

/// A time as gRPC writes it: at most eight digits, and a unit.
fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| plain)?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

fn number(parameters: &Parameters, name: &str) -> Result<u64> {
    let wrong = || {
        Error::invalid(format!(
            "the parameter {name} is not a whole number, 0 or more"
        ))
    };
    let choice = parameters.get(name).and_then(|given| given.choice.as_ref());
    match choice {
        None => Ok(0),
        Some(Choice::Int64(value)) => u64::try_from(*value).map_err(|_| wrong()),
        Some(Choice::Uint64(value)) => Ok(*value),
        Some(_) => Err(wrong()),
    }
}

fn parameters(given: &Parameters, terms: &mut Terms) -> Result<()> {
    terms.timeout = deadline(number(given, "timeout")?);
    terms.priority = number(given, "priority")?;
    for name in ["sequence_id", "sequence_start", "sequence_end"] {
        let choice = given.get(name).and_then(|given| given.choice.as_ref());
        let unset = match choice {
            None | Some(Choice::Bool(false) | Choice::Int64(0) | Choice::Uint64(0)) => true,
            Some(Choice::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        if !unset {
            return Err(Error::invalid("sequences of requests are not supported"));
        }
    }
    Ok(())
}

/// Where in shared memory a tensor is, if it is there.
fn window(server: &Server, who: &Who, parameters: &Parameters) -> Result<Option<Window>> {
    let region = parameters.get("shared_memory_region");
    let region = match region.and_then(|region| region.choice.as_ref()) {
        None => return Ok(None),
        Some(Choice::String(region)) => region,
        Some(_) => return Err(Error::invalid("shared_memory_region is not a name")),
    };
    let size = number(parameters, "shared_memory_byte_size")?;
    let offset = number(parameters, "shared_memory_offset")?;
    let window = server.regions().window(&who.tenant, region, offset, size);
    window.map(Some)
}

fn inputs(
    server: &Server,
    model: &Model,
    who: &Who,
    request: &InferRequest,
) -> Result<Vec<(usize, Array)>> {
    let windows = request.inputs.iter();
    let windows = windows.map(|input| window(server, who, &input.parameters));
    let windows = windows.collect::<Result<Vec<_>>>()?;
    // Those in shared memory have no raw contents.
    let expected = windows.iter().filter(|window| window.is_none()).count();
    let raw = &request.raw_input_contents;
    if !raw.is_empty() && raw.len() != expected {
        return Err(Error::invalid(format!(
            "{} raw_input_contents for {expected} inputs",
            raw.len()
        )));
    }
    let mut raw = raw.iter();
    let own = raw.as_slice().iter().map(Bytes::len).sum();
    let mut room = server.limits().max_body.saturating_sub(own);
    let mut given = Vec::new();
    for (input, window) in request.inputs.iter().zip(windows) {
        let name = &input.name;
        let place = model.place(name, &input.datatype, &input.shape)?;
        if let Some(window) = window {
            if input.contents.is_some() {
                return Err(Error::invalid(format!(
                    "input '{name}' has both contents and shared memory"
                )));
            }
            given.push((place.index, shared(name, &place, &window, &mut room)?));
            continue;
        }
        let array = match (raw.next(), &input.contents) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(format!(
                    "input '{name}' has both contents and raw_input_contents"
                )));
            }
            (Some(raw), None) => place.array(name, raw)?,
            (None, Some(contents)) if place.strings => {
                let each = contents.strings.iter().map(|string| &string[..]);
                strings::of(name, &place.shape, each)?
            }
            (None, Some(contents)) => place.array(name, &list(name, &place, contents)?)?,
            (None, None) => place.array(name, &[])?,
        };
        given.push((place.index, array));
    }
    Ok(given)
}

/// The bytes of listed numbers.
fn list(name: &str, place: &Place, contents: &Contents) -> Result<Vec<u8>> {
    fn narrow<T: Copy, U: TryFrom<T>, const N: usize>(
        name: &str,
        values: &[T],
        bytes: impl Fn(U) -> [u8; N],
    ) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for &value in values {
            let value = U::try_from(value).map_err(|_| {
                Error::invalid(format!(
                    "input '{name}' has a value that its datatype cannot hold"
                ))
            })?;
            all.extend_from_slice(&bytes(value));
        }
        Ok(all)
    }
    match place.dtype {
        DType::Bool => Ok(contents
            .bools
            .iter()
            .map(|&value| u8::from(value))
            .collect()),
        DType::I8 => narrow(name, &contents.ints, i8::to_ne_bytes),
        DType::I16 => narrow(name, &contents.ints, i16::to_ne_bytes),
        DType::I32 => narrow(name, &contents.ints, i32::to_ne_bytes),
        DType::I64 => narrow(name, &contents.int64s, i64::to_ne_bytes),
        DType::U8 => narrow(name, &contents.uints, u8::to_ne_bytes),
        DType::U16 => narrow(name, &contents.uints, u16::to_ne_bytes),
        DType::U32 => narrow(name, &contents.uints, u32::to_ne_bytes),
        DType::U64 => narrow(name, &contents.uint64s, u64::to_ne_bytes),
        DType::F32 => narrow(name, &contents.fp32s, f32::to_ne_bytes),
        DType::F64 => narrow(name, &contents.fp64s, f64::to_ne_bytes),
        DType::F16 | DType::BF16 => Err(Error::invalid(format!(
            "input '{name}': {} needs raw_input_contents",
            crate::datatype::name(place.dtype)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_grpc_are_read() {
        assert_eq!(duration("100m"), Some(Duration::from_millis(100)));
        assert_eq!(
            duration("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        for wrong in ["", "m", "1", "123456789n", "-1S", "1é", "1x", "+1S"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
