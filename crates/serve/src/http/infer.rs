//! `POST …/infer`: tensors as JSON, as bytes behind the JSON, or one tensor as bytes alone.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use streampool::Array;

use super::body::{self, Encoding};
use super::named::Named;
use super::reply;
use crate::aside::aside;
use crate::error::{Error, Result};
use crate::figures::Watch;
use crate::json_data;
use crate::model::{Model, Place, Terms, deadline, shared};
use crate::outputs::{self, Output, Values, Wanted};
use crate::server::Server;
use crate::shared_memory::Window;
use crate::tenants::Who;

/// How many bytes of a body are JSON; tensors follow.
const HEADER_LENGTH: &str = "inference-header-content-length";
/// When the answer is of no use any more, in milliseconds from the arrival of the request.
const TIMEOUT: &str = "x-request-timeout-ms";

/// Answers an inference.
pub async fn infer(
    State(server): State<Arc<Server>>,
    Path(named): Path<Named>,
    request: Request,
) -> Response {
    let model = match server
        .repository()
        .find(&named.name, named.version.as_deref())
    {
        Ok(model) => model,
        Err(error) => return reply::error(&error),
    };
    let who = Who::of(&request);
    // If the client goes away, all of this is dropped, and the request withdrawn.
    let watch = server.begin(&model, &who);
    let answer = answer(&server, &model, &watch, who, request).await;
    server.finish(&model, watch, &answer);
    answer.unwrap_or_else(|error| reply::error(&error))
}

async fn answer(
    server: &Server,
    model: &Model,
    watch: &Watch,
    who: Who,
    request: Request,
) -> Result<Response> {
    let (head, body) = request.into_parts();
    let _permit = match server.enter(&who) {
        Ok(permit) => permit,
        Err(refused) => {
            body::skip(&head.headers, body).await;
            return Err(refused);
        }
    };
    let body = body::read(&head.headers, body, server.limits()).await?;
    let begun = Instant::now();
    let read = || call(server, model, &head.headers, who, &body);
    let mut call = aside(body.len(), read)?;
    call.terms.span = watch.span();
    outputs::check(model, &call.wanted)?;
    drop(body);
    watch.input(begun.elapsed());
    let arrays = model.run(call.inputs, &call.terms).await?;
    let begun = Instant::now();
    let outputs = outputs::choose(model, arrays, call.wanted)?;
    let bytes = outputs.iter().map(|output| output.values.byte_count());
    let encoding = Encoding::wanted(&head.headers);
    let write = || written(model, call.id.as_deref(), &outputs, encoding);
    let response = aside(bytes.sum(), write)?;
    watch.output(begun.elapsed());
    Ok(response)
}

/// A request that was read.
struct Call {
    id: Option<String>,
    inputs: Vec<Array>,
    wanted: Vec<Wanted>,
    terms: Terms,
}

type Parameters = Map<String, Json>;

#[derive(Deserialize)]
struct Header<'a> {
    id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    inputs: Vec<Tensor<'a>>,
    #[serde(default)]
    outputs: Vec<Asked>,
}

#[derive(Deserialize)]
struct Tensor<'a> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Asked {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

fn number(headers: &HeaderMap, name: &str) -> Result<Option<usize>> {
    let number = headers.get(name).map(|value| {
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Error::invalid(format!("the header {name} is not a number")))
    });
    number.transpose()
}

/// What the headers of a request say: its deadline; and whose it is.
pub fn terms(headers: &HeaderMap, who: &Who) -> Result<Terms> {
    let millis = number(headers, TIMEOUT)?.unwrap_or(0);
    let micros = u64::try_from(millis)
        .unwrap_or(u64::MAX)
        .saturating_mul(1000);
    Ok(Terms {
        tenant: who.tenant.clone(),
        deadline: deadline(micros),
        ..Terms::default()
    })
}

fn call(
    server: &Server,
    model: &Model,
    headers: &HeaderMap,
    who: Who,
    body: &[u8],
) -> Result<Call> {
    let length = number(headers, HEADER_LENGTH)?;
    let mut terms = terms(headers, &who)?;
    if length == Some(0) {
        return raw(model, body, terms);
    }
    let (header, mut rest) = match length {
        None => (body, &[][..]),
        Some(length) => body.split_at_checked(length).ok_or_else(|| {
            Error::invalid(format!(
                "the header has {length} bytes by {HEADER_LENGTH}, and the body has {}",
                body.len()
            ))
        })?,
    };
    let header: Header<'_> = serde_json::from_slice(header)
        .map_err(|error| Error::invalid(format!("failed to parse the request JSON: {error}")))?;
    parameters(&header.parameters, &mut terms)?;
    let mut given = Vec::new();
    let mut room = server.limits().max_body.saturating_sub(body.len());
    for tensor in &header.inputs {
        let place = model.place(&tensor.name, &tensor.datatype, &tensor.shape)?;
        let index = place.index;
        let array = match window(server, &who, &tensor.parameters)? {
            Some(window) if tensor.data.is_none() => {
                shared(&tensor.name, &place, &window, &mut room)?
            }
            Some(_) => {
                let name = &tensor.name;
                return Err(Error::invalid(format!(
                    "input '{name}' has both data and shared memory"
                )));
            }
            None => read(tensor, place, &mut rest)?,
        };
        given.push((index, array));
    }
    if !rest.is_empty() {
        let count = rest.len();
        return Err(Error::invalid(format!(
            "{count} bytes of the body belong to no input"
        )));
    }
    let binary = flag(&header.parameters, "binary_data_output")?.unwrap_or(false);
    let wanted = match header.outputs.is_empty() {
        true => outputs::all(model, binary),
        false => header
            .outputs
            .iter()
            .map(|asked| wanted(server, &who, asked, binary))
            .collect::<Result<_>>()?,
    };
    Ok(Call {
        id: header.id,
        inputs: model.in_order(given)?,
        wanted,
        terms,
    })
}

/// A body that is the one input of a model, without any JSON.
fn raw(model: &Model, body: &[u8], terms: Terms) -> Result<Call> {
    let [port] = model.inputs() else {
        return Err(Error::invalid(format!(
            "a raw request needs a model with one input, and model '{}' has {}",
            model.name(),
            model.inputs().len()
        )));
    };
    if port.strings {
        return Err(Error::invalid("a raw request cannot be of strings"));
    }
    let mut shape = port.shape.clone();
    if model.max_batch_size() > 0
        && let Some(rows) = shape.first_mut()
    {
        *rows = 1;
    }
    let open: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] < 0).collect();
    let mut known = shape.iter().filter(|&&size| size >= 0);
    let known = known.try_fold(port.dtype.size() as i64, |all, &size| all.checked_mul(size));
    match (&open[..], known) {
        ([], _) => {}
        (&[axis], Some(known)) if known > 0 => shape[axis] = body.len() as i64 / known,
        _ => {
            return Err(Error::invalid(
                "a raw request needs an input with at most one open size",
            ));
        }
    }
    let place = model.place(&port.name, port.datatype(), &shape)?;
    let index = place.index;
    let array = place.array(&port.name, body)?;
    Ok(Call {
        id: None,
        inputs: model.in_order(vec![(index, array)])?,
        wanted: outputs::all(model, true),
        terms,
    })
}

/// Reads a tensor, whose bytes may be next in the rest of the body.
fn read(tensor: &Tensor<'_>, place: Place, rest: &mut &[u8]) -> Result<Array> {
    let name = &tensor.name;
    match (tensor.parameters.get("binary_data_size"), tensor.data) {
        (Some(size), None) => {
            let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
            let own = size.and_then(|size| rest.split_at_checked(size));
            let (own, others) = own.ok_or_else(|| {
                Error::invalid(format!(
                    "input '{name}': binary_data_size is not a number of bytes that the body has"
                ))
            })?;
            *rest = others;
            place.array(name, own)
        }
        (None, Some(data)) if place.strings => json_data::read_strings(name, &place.shape, data),
        (None, Some(data)) => json_data::read(name, place.dtype, &place.shape, data),
        (Some(_), Some(_)) => Err(Error::invalid(format!(
            "input '{name}' has both data and binary_data_size"
        ))),
        (None, None) => Err(Error::invalid(format!("input '{name}' has no data"))),
    }
}

/// Where in shared memory a tensor is, if it is there.
fn window(server: &Server, who: &Who, parameters: &Parameters) -> Result<Option<Window>> {
    let region = match parameters.get("shared_memory_region") {
        None => return Ok(None),
        Some(Json::String(region)) => region,
        Some(_) => return Err(Error::invalid("shared_memory_region is not a name")),
    };
    let size = count(parameters, "shared_memory_byte_size")?;
    let size = size.ok_or_else(|| Error::invalid("shared_memory_byte_size is missing"))?;
    let offset = count(parameters, "shared_memory_offset")?.unwrap_or(0);
    let window = server.regions().window(&who.tenant, region, offset, size);
    window.map(Some)
}

fn flag(parameters: &Parameters, name: &str) -> Result<Option<bool>> {
    match parameters.get(name) {
        None => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(Error::invalid(format!(
            "the parameter {name} is not a boolean"
        ))),
    }
}

fn count(parameters: &Parameters, name: &str) -> Result<Option<u64>> {
    match parameters.get(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "the parameter {name} is not a whole number, 0 or more"
            ))
        }),
    }
}

fn parameters(given: &Parameters, terms: &mut Terms) -> Result<()> {
    if let Some(micros) = count(given, "timeout")? {
        terms.timeout = deadline(micros);
    }
    terms.priority = count(given, "priority")?.unwrap_or(0);
    for name in ["sequence_id", "sequence_start", "sequence_end"] {
        let unset = match given.get(name) {
            None | Some(Json::Null | Json::Bool(false)) => true,
            Some(Json::String(text)) => text.is_empty(),
            Some(value) => value.as_u64() == Some(0),
        };
        if !unset {
            return Err(Error::invalid("sequences of requests are not supported"));
        }
    }
    Ok(())
}

fn wanted(server: &Server, who: &Who, asked: &Asked, binary: bool) -> Result<Wanted> {
    let classes = count(&asked.parameters, "classification")?.unwrap_or(0);
    Ok(Wanted {
        name: asked.name.clone(),
        binary: flag(&asked.parameters, "binary_data")?.unwrap_or(binary),
        classes: usize::try_from(classes).unwrap_or(usize::MAX),
        window: window(server, who, &asked.parameters)?,
    })
}

/// The response: JSON, and the bytes of outputs that come so.
fn written(
    model: &Model,
    id: Option<&str>,
    outputs: &[Output],
    encoding: Encoding,
) -> Result<Response> {
    let internal = |error: serde_json::Error| Error::Internal(error.to_string());
    let mut body = Vec::new();
    let text = |body: &mut Vec<u8>, text: &str| serde_json::to_writer(body, text).map_err(internal);
    body.extend_from_slice(b"{");
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        body.extend_from_slice(b"\"id\":");
        text(&mut body, id)?;
        body.extend_from_slice(b",");
    }
    body.extend_from_slice(b"\"model_name\":");
    text(&mut body, model.name())?;
    body.extend_from_slice(
        format!(",\"model_version\":\"{}\",\"outputs\":[", model.version()).as_bytes(),
    );
    for (at, output) in outputs.iter().enumerate() {
        body.extend_from_slice(if at == 0 {
            b"{\"name\":"
        } else {
            b",{\"name\":"
        });
        text(&mut body, &output.name)?;
        let shape = &output.shape;
        body.extend_from_slice(
            format!(",\"datatype\":\"{}\",\"shape\":{shape:?},", output.datatype).as_bytes(),
        );
        if output.leave()?.is_some() {
            // As Triton does: old clients take any parameter for the size of what is behind the JSON.
            body.pop();
            body.extend_from_slice(b"}");
            continue;
        }
        match (&output.values, output.binary) {
            (values, true) => {
                let size = values.byte_count();
                body.extend_from_slice(
                    format!("\"parameters\":{{\"binary_data_size\":{size}}}}}").as_bytes(),
                );
            }
            (Values::Array(array), false) => {
                body.extend_from_slice(b"\"data\":");
                json_data::write(&output.name, array, &mut body)?;
                body.extend_from_slice(b"}");
            }
            (Values::Strings(strings), false) => {
                body.extend_from_slice(b"\"data\":");
                serde_json::to_writer(&mut body, strings).map_err(internal)?;
                body.extend_from_slice(b"}");
            }
        }
    }
    body.extend_from_slice(b"]}");
    let behind = |output: &&Output| output.binary && output.window.is_none();
    if !outputs.iter().any(|output| behind(&output)) {
        return Ok(body::response("application/json", body, encoding));
    }
    let length = body.len();
    for output in outputs.iter().filter(behind) {
        output.values.append_to(&mut body);
    }
    let mut response = body::response("application/octet-stream", body, encoding);
    let headers = response.headers_mut();
    headers.insert(HEADER_LENGTH, HeaderValue::from(length));
    Ok(response)
}
