//! What clients can change while the server runs: the log, what is traced, and regions of shared memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::named::Named;
use super::{body, reply};
use crate::error::{Error, Result};
use crate::log::Value;
use crate::server::Server;
use crate::settings::{change_traces, traces};
use crate::shared_memory::Status;
use crate::tenants::Who;

type Shared = State<Arc<Server>>;

/// The body of a request, as JSON. An empty one is an empty object.
async fn read<T: DeserializeOwned>(server: &Server, request: Request) -> Result<T> {
    let (head, body) = request.into_parts();
    let body = body::read(&head.headers, body, server.limits()).await?;
    let body = if body.is_empty() { &b"{}"[..] } else { &body };
    serde_json::from_slice(body)
        .map_err(|error| Error::invalid(format!("the body is not as expected: {error}")))
}

/// `GET /v2/logging`.
pub async fn log(State(server): Shared) -> Response {
    reply::result(log_json(&server))
}

/// `POST /v2/logging`.
pub async fn set_log(State(server): Shared, request: Request) -> Response {
    let who = Who::of(&request);
    let answer = async {
        server.check_control(&who)?;
        let given: BTreeMap<String, Json> = read(&server, request).await?;
        let value = |(name, value): (String, Json)| {
            let value = match value {
                Json::Bool(on) => Value::Flag(on),
                Json::String(text) => Value::Text(text),
                number => Value::Number(number.as_u64().ok_or_else(|| {
                    Error::invalid(format!("{name}: {number} is no value of a setting"))
                })?),
            };
            Ok((name, value))
        };
        let changes = given.into_iter().map(value).collect::<Result<Vec<_>>>()?;
        server.log()?.change(&changes)?;
        log_json(&server)
    };
    reply::result(answer.await)
}

fn log_json(server: &Server) -> Result<Json> {
    let told = server.log()?.told().into_iter().map(|(name, value)| {
        let value = match value {
            Value::Flag(on) => on.into(),
            Value::Number(number) => number.into(),
            Value::Text(text) => text.into(),
        };
        (name.to_owned(), value)
    });
    Ok(Json::Object(told.collect()))
}

/// `GET /v2/trace/setting`.
pub async fn trace(State(server): Shared) -> Response {
    reply::result(trace_json(&server, None))
}

/// `GET /v2/models/NAME/trace/setting`.
pub async fn trace_of_model(State(server): Shared, Path(named): Path<Named>) -> Response {
    reply::result(trace_json(&server, Some(&named.name)))
}

/// `POST /v2/trace/setting`.
pub async fn set_trace(State(server): Shared, request: Request) -> Response {
    reply::result(set(&server, None, request).await)
}

/// `POST /v2/models/NAME/trace/setting`.
pub async fn set_trace_of_model(
    State(server): Shared,
    Path(named): Path<Named>,
    request: Request,
) -> Response {
    reply::result(set(&server, Some(&named.name), request).await)
}

async fn set(server: &Server, model: Option<&str>, request: Request) -> Result<Json> {
    server.check_control(&Who::of(&request))?;
    let given: BTreeMap<String, Json> = read(server, request).await?;
    let change = |(name, value): (String, Json)| {
        let wrong = || Error::invalid(format!("{name}: expected a text, a list of texts, or null"));
        let text = |value: &Json| match value {
            Json::String(text) => Ok(text.clone()),
            Json::Number(number) => Ok(number.to_string()),
            _ => Err(wrong()),
        };
        let values = match &value {
            Json::Null => Vec::new(),
            Json::Array(values) => values.iter().map(text).collect::<Result<_>>()?,
            value => vec![text(value)?],
        };
        Ok((name, values))
    };
    let changes = given.into_iter().map(change).collect::<Result<Vec<_>>>()?;
    change_traces(server, model, &changes)?;
    trace_json(server, model)
}

fn trace_json(server: &Server, model: Option<&str>) -> Result<Json> {
    let told = traces(server, model)?.into_iter().map(|(name, values)| {
        let value = match (name, &values[..]) {
            ("trace_level", _) => json!(values),
            (_, [value]) => json!(value),
            _ => json!(values),
        };
        (name.to_owned(), value)
    });
    Ok(Json::Object(told.collect()))
}

/// A region, if the path names one.
#[derive(Deserialize)]
pub struct Region {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Registered {
    key: String,
    #[serde(default)]
    offset: u64,
    byte_size: u64,
}

/// `POST /v2/systemsharedmemory/region/NAME/register`.
pub async fn register(
    State(server): Shared,
    Path(Region { name }): Path<Region>,
    request: Request,
) -> Response {
    let who = Who::of(&request);
    let answer = async {
        let given: Registered = read(&server, request).await?;
        let region = Status {
            name,
            key: given.key,
            offset: given.offset,
            size: given.byte_size,
        };
        server.regions().register(&who.tenant, region)
    };
    reply::done(answer.await)
}

/// `POST /v2/systemsharedmemory[/region/NAME]/unregister`.
pub async fn unregister(
    State(server): Shared,
    Path(Region { name }): Path<Region>,
    request: Request,
) -> Response {
    let who = Who::of(&request);
    server.regions().unregister(&who.tenant, &name);
    reply::done(Ok(()))
}

/// `GET /v2/systemsharedmemory[/region/NAME]/status`.
pub async fn status(
    State(server): Shared,
    Path(Region { name }): Path<Region>,
    request: Request,
) -> Response {
    let who = Who::of(&request);
    let told = server.regions().status(&who.tenant, &name);
    reply::result(told.map(|all| all.iter().map(Status::json).collect::<Vec<_>>()))
}

/// `GET /v2/cudasharedmemory/…`: there are none. Clients ask before they end.
pub async fn no_regions() -> Response {
    reply::json(&Json::Array(Vec::new()))
}

/// `POST /v2/cudasharedmemory/…/unregister`: there are none.
pub async fn nothing_to_unregister() -> Response {
    reply::json(&Json::Object(Map::new()))
}

/// `POST /v2/cudasharedmemory/region/NAME/register`.
pub async fn no_cuda() -> Response {
    reply::error(&Error::Unsupported(
        "shared memory of CUDA is not supported, use system shared memory".to_owned(),
    ))
}
