//! The protocol over HTTP: a router for any `axum` application.

mod blocking;
mod body;
mod dashboard;
mod infer;
mod named;
mod reply;
mod settings;
#[cfg(feature = "text")]
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use crate::error::Error;
use crate::metrics;
use crate::server::{EXTENSIONS, NAME, Server};
use crate::statistics;
use crate::tenants::Who;
use blocking::blocking;
use named::Named;

/// Routes of the protocol, and `/metrics`.
pub fn router(server: Arc<Server>) -> Router {
    let router = Router::new()
        .route("/v2", get(about))
        .route("/v2/", get(about))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/stats", get(all_statistics))
        .route("/v2/models/{name}", get(metadata))
        .route("/v2/models/{name}/versions/{version}", get(metadata))
        .route("/v2/models/{name}/ready", get(model_ready))
        .route(
            "/v2/models/{name}/versions/{version}/ready",
            get(model_ready),
        )
        .route("/v2/models/{name}/config", get(config))
        .route("/v2/models/{name}/versions/{version}/config", get(config))
        .route("/v2/models/{name}/stats", get(model_statistics))
        .route(
            "/v2/models/{name}/versions/{version}/stats",
            get(model_statistics),
        )
        .route("/v2/models/{name}/infer", post(infer::infer))
        .route(
            "/v2/models/{name}/versions/{version}/infer",
            post(infer::infer),
        )
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{name}/load", post(load))
        .route("/v2/repository/models/{name}/unload", post(unload))
        .route("/v2/logging", get(settings::log))
        .route("/v2/logging", post(settings::set_log))
        .route("/v2/trace/setting", get(settings::trace))
        .route("/v2/trace/setting", post(settings::set_trace))
        .route(
            "/v2/models/{name}/trace/setting",
            get(settings::trace_of_model),
        )
        .route(
            "/v2/models/{name}/trace/setting",
            post(settings::set_trace_of_model),
        )
        .route("/v2/systemsharedmemory/status", get(settings::status))
        .route(
            "/v2/systemsharedmemory/unregister",
            post(settings::unregister),
        )
        .route(
            "/v2/systemsharedmemory/region/{name}/status",
            get(settings::status),
        )
        .route(
            "/v2/systemsharedmemory/region/{name}/register",
            post(settings::register),
        )
        .route(
            "/v2/systemsharedmemory/region/{name}/unregister",
            post(settings::unregister),
        )
        .route("/v2/cudasharedmemory/status", get(settings::no_regions))
        .route(
            "/v2/cudasharedmemory/unregister",
            post(settings::nothing_to_unregister),
        )
        .route(
            "/v2/cudasharedmemory/region/{name}/status",
            get(settings::no_regions),
        )
        .route(
            "/v2/cudasharedmemory/region/{name}/register",
            post(settings::no_cuda),
        )
        .route(
            "/v2/cudasharedmemory/region/{name}/unregister",
            post(settings::nothing_to_unregister),
        )
        .route("/metrics", get(figures))
        .route("/openapi.json", get(openapi))
        .route("/", get(dashboard::page))
        .route("/events", get(dashboard::events));
    #[cfg(feature = "text")]
    let router = router
        .route("/v1/models", get(text::models))
        .route("/v1/embeddings", post(text::embeddings))
        .route("/embed", post(text::embed))
        .route("/rerank", post(text::rerank))
        .route("/predict", post(text::predict));
    router
        .layer(middleware::from_fn_with_state(server.clone(), check_key))
        .with_state(server)
}

/// Refuses requests without a key, if the server has keys. Health is for those who have none, and the page asks for one.
async fn check_key(State(server): Shared, mut request: Request, next: Next) -> Response {
    let open = ["/v2/health/live", "/v2/health/ready", "/", "/openapi.json"];
    match server.admit(&mut request, &open) {
        Ok(()) => next.run(request).await,
        Err(error) => reply::error(&error),
    }
}

type Shared = State<Arc<Server>>;

async fn about() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    reply::json(&json!({"name": NAME, "version": version, "extensions": EXTENSIONS}))
}

async fn live() -> StatusCode {
    StatusCode::OK
}

async fn ready(State(server): Shared) -> StatusCode {
    match server.is_ready() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn model_ready(State(server): Shared, Path(model): Path<Named>) -> StatusCode {
    match server
        .repository()
        .find(&model.name, model.version.as_deref())
    {
        Ok(_) => StatusCode::OK,
        // As Triton does.
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

async fn metadata(State(server): Shared, Path(named): Path<Named>) -> Response {
    let model = server
        .repository()
        .find(&named.name, named.version.as_deref());
    reply::result(model.map(|model| model.metadata(&server.repository().versions(&named.name))))
}

async fn config(State(server): Shared, Path(named): Path<Named>) -> Response {
    let model = server
        .repository()
        .find(&named.name, named.version.as_deref());
    reply::result(model.map(|model| model.config()))
}

async fn all_statistics(State(server): Shared) -> Response {
    reply::json(&statistics::of(server.repository().loaded().iter()))
}

async fn model_statistics(State(server): Shared, Path(named): Path<Named>) -> Response {
    let model = server
        .repository()
        .find(&named.name, named.version.as_deref());
    reply::result(model.map(|model| statistics::of([&model])))
}

async fn figures(State(server): Shared) -> Response {
    reply::text("text/plain; version=0.0.4", metrics::text(&server))
}

async fn openapi() -> Response {
    reply::text("application/json", include_str!("openapi.json").to_owned())
}

async fn index(State(server): Shared, headers: HeaderMap, request: Request) -> Response {
    #[derive(Deserialize, Default)]
    struct Options {
        #[serde(default)]
        ready: bool,
    }
    let answer = async {
        let body = body::read(&headers, request.into_body(), server.limits()).await?;
        let options = match body.is_empty() {
            true => Options::default(),
            false => serde_json::from_slice(&body)
                .map_err(|error| Error::invalid(format!("the body is not as expected: {error}")))?,
        };
        let server = server.clone();
        blocking(move || Ok(server.repository().index(options.ready))).await
    };
    reply::result(answer.await)
}

async fn load(
    State(server): Shared,
    Path(named): Path<Named>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let who = Who::of(&request);
    let answer = async {
        server.check_control(&who)?;
        let body = body::read(&headers, request.into_body(), server.limits()).await?;
        let fields: BTreeMap<String, serde_json::Value> = match body.is_empty() {
            true => BTreeMap::new(),
            false => serde_json::from_slice(&body)
                .map_err(|error| Error::invalid(format!("the body is not as expected: {error}")))?,
        };
        let given = fields.get("parameters").and_then(|given| given.as_object());
        if given.is_some_and(|given| !given.is_empty()) {
            return Err(Error::invalid(
                "a model cannot be loaded with a configuration or files of the request",
            ));
        }
        let server = server.clone();
        blocking(move || server.repository().load(&named.name)).await
    };
    reply::done(answer.await)
}

async fn unload(State(server): Shared, Path(named): Path<Named>, request: Request) -> Response {
    let who = Who::of(&request);
    let answer = async {
        server.check_control(&who)?;
        let server = server.clone();
        blocking(move || server.repository().unload(&named.name)).await
    };
    reply::done(answer.await)
}
