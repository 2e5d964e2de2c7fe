//! `grpc.health.v1`: whether the server is ready, once or whenever that changes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::glue::{self, Answer, Answers};
use super::messages::{HealthRequest, HealthResponse};
use crate::server::Server;

/// The names that clients ask for.
const SERVICES: [&str; 2] = ["", "inference.GRPCInferenceService"];

fn response(ready: bool) -> HealthResponse {
    let status = if ready { 1 } else { 2 };
    HealthResponse { status }
}

/// Says how it is.
pub async fn check(
    State(server): State<Arc<Server>>,
    request: Request<Body>,
) -> Response<tonic::body::Body> {
    let most = server.limits().max_body;
    let answer = move |request: tonic::Request<HealthRequest>| -> Answer<HealthResponse> {
        let ready = server.is_ready();
        Box::pin(async move {
            let service = &request.get_ref().service[..];
            match SERVICES.contains(&service) {
                true => Ok(tonic::Response::new(response(ready))),
                false => Err(Status::not_found(format!(
                    "there is no service {service:?}"
                ))),
            }
        })
    };
    glue::unary(most, request, glue::Unary(Box::new(answer))).await
}

/// Says how it is, and says it again whenever it changes. It ends with the server.
pub async fn watch(
    State(server): State<Arc<Server>>,
    request: Request<Body>,
) -> Response<tonic::body::Body> {
    let most = server.limits().max_body;
    let answer = move |request: tonic::Request<HealthRequest>| -> Answer<Answers<HealthResponse>> {
        let server = server.clone();
        Box::pin(async move {
            let (tell, told) = mpsc::channel(1);
            let known = SERVICES.contains(&&request.get_ref().service[..]);
            tokio::spawn(async move {
                if !known {
                    // By the protocol: the service may come later.
                    let unknown = HealthResponse { status: 3 };
                    let _ = tell.send(Ok(unknown)).await;
                    return server.ended().await;
                }
                let mut before = None;
                loop {
                    let ready = tokio::select! {
                        ready = server.ready_after(before) => ready,
                        () = tell.closed() => None,
                    };
                    let Some(ready) = ready else { return };
                    before = Some(ready);
                    if tell.send(Ok(response(ready))).await.is_err() {
                        return;
                    }
                }
            });
            Ok(tonic::Response::new(ReceiverStream::new(told)))
        })
    };
    glue::many(most, request, glue::Many(Box::new(answer))).await
}
