//! `grpc.reflection`: which services there are, and what their messages look like.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use bytes::Bytes;
use prost::{Message, Oneof};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::glue::{self, Answer, Answers};
use super::schema::{self, Described, File};
use crate::server::Server;

#[derive(Clone, PartialEq, Message)]
pub struct ReflectionRequest {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
    pub question: Option<Question>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Question {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(message, tag = "5")]
    FileContainingExtension(ExtensionRequest),
    #[prost(string, tag = "6")]
    AllExtensionNumbers(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, Message)]
pub struct ExtensionRequest {
    #[prost(string, tag = "1")]
    pub containing_type: String,
    #[prost(int32, tag = "2")]
    pub extension_number: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReflectionResponse {
    #[prost(string, tag = "1")]
    pub valid_host: String,
    #[prost(message, optional, tag = "2")]
    pub original_request: Option<ReflectionRequest>,
    #[prost(oneof = "Told", tags = "4, 6, 7")]
    pub told: Option<Told>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Told {
    #[prost(message, tag = "4")]
    Files(FileResponse),
    #[prost(message, tag = "6")]
    Services(ServicesResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

#[derive(Clone, PartialEq, Message)]
pub struct FileResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServicesResponse {
    #[prost(message, repeated, tag = "1")]
    pub services: Vec<ServiceResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServiceResponse {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ErrorResponse {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// Answers questions, one after the other. Versions `v1` and `v1alpha` have the same messages.
pub async fn reflect(
    State(server): State<Arc<Server>>,
    request: Request<Body>,
) -> Response<tonic::body::Body> {
    let most = server.limits().max_body;
    let answer = move |request: tonic::Request<Streaming<ReflectionRequest>>| -> Answer<Answers<ReflectionResponse>> {
        let server = server.clone();
        Box::pin(async move {
            let (tell, told) = mpsc::channel(1);
            let mut questions = request.into_inner();
            tokio::spawn(async move {
                let files = schema::files();
                loop {
                    let question = tokio::select! {
                        question = questions.message() => question,
                        () = server.ended() => return,
                    };
                    let Ok(Some(question)) = question else { return };
                    if tell.send(Ok(respond(&files, question))).await.is_err() {
                        return;
                    }
                }
            });
            Ok(tonic::Response::new(ReceiverStream::new(told)))
        })
    };
    glue::streaming(most, request, glue::Stream(Box::new(answer))).await
}

fn respond(files: &[File], request: ReflectionRequest) -> ReflectionResponse {
    let told = match &request.question {
        Some(Question::ListServices(_)) => {
            let services = files.iter().flat_map(|file| {
                let package = &file.package;
                let each = file.services.iter();
                each.map(move |service| format!("{package}.{}", service.name))
            });
            Told::Services(ServicesResponse {
                services: services.map(|name| ServiceResponse { name }).collect(),
            })
        }
        Some(Question::FileByName(name)) => found(files.iter().find(|file| file.name == *name)),
        Some(Question::FileContainingSymbol(name)) => {
            found(files.iter().find(|file| declares(file, name)))
        }
        _ => found(None),
    };
    ReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        told: Some(told),
    }
}

fn found(file: Option<&File>) -> Told {
    match file {
        Some(file) => Told::Files(FileResponse {
            files: vec![file.encode_to_vec().into()],
        }),
        None => Told::Error(ErrorResponse {
            code: Code::NotFound as i32,
            message: "there is no such file or symbol".to_owned(),
        }),
    }
}

/// Whether a file declares a service, a method, a message or an enum.
fn declares(file: &File, symbol: &str) -> bool {
    let own = symbol.strip_prefix(&file.package);
    let Some(name) = own.and_then(|own| own.strip_prefix('.')) else {
        return false;
    };
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    let within = |message: &Described| {
        let nested = message.nested.iter().map(|of| &of.name);
        let mut names = nested.chain(message.enums.iter().map(|of| &of.name));
        rest.is_empty() || names.any(|name| name == rest)
    };
    let mut messages = file.messages.iter().filter(|of| of.name == first);
    let mut services = file.services.iter().filter(|of| of.name == first);
    messages.any(within)
        || services.any(|of| rest.is_empty() || of.methods.iter().any(|method| method.name == rest))
}
