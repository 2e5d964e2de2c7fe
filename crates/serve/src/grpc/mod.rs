//! The protocol over gRPC: `inference.GRPCInferenceService` as Triton has it, and `grpc.health.v1`.

mod glue;
mod health;
mod infer;
mod messages;
mod reflection;
mod schema;
mod settings;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::routing::post;
use prost::Message;
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::error::Result;
use crate::model::Model;
use crate::port::Port;
use crate::server::{EXTENSIONS, NAME, Server};
use crate::statistics::{computing, total};
use crate::tenants::Who;
use glue::{Answers, status};
use messages::*;

/// How many requests of one stream are in progress.
const PER_STREAM: usize = 64;

/// Methods of the protocol. HTTP/2 is needed.
pub fn router(server: Arc<Server>) -> Router {
    let mut router = Router::new();
    macro_rules! methods {
        ($($name:literal => $answer:expr,)*) => {$(
            router = router.route(
                concat!("/inference.GRPCInferenceService/", $name),
                post(|State(server): State<Arc<Server>>, request: Request<Body>| unary(server, request, $answer)),
            );
        )*};
    }
    methods! {
        "ServerLive" => |_, _, _: Empty| Ok(Yes { yes: true }),
        "ServerReady" => |server, _, _: Empty| Ok(Yes { yes: server.is_ready() }),
        "ModelReady" => |server, _, named: Named| Ok(Yes { yes: find(server, &named).is_ok() }),
        "ServerMetadata" => |_, _, _: Empty| Ok(about()),
        "ModelMetadata" => metadata,
        "ModelConfig" => config,
        "ModelStatistics" => statistics,
        "RepositoryIndex" => index,
        "RepositoryModelLoad" => load,
        "RepositoryModelUnload" => unload,
        "LogSettings" => settings::log,
        "TraceSetting" => settings::trace,
        "SystemSharedMemoryStatus" => settings::status,
        "SystemSharedMemoryRegister" => settings::register,
        "SystemSharedMemoryUnregister" => settings::unregister,
        "CudaSharedMemoryStatus" => settings::no_regions,
        "CudaSharedMemoryUnregister" => settings::nothing_to_unregister,
    }
    router
        .route(
            "/inference.GRPCInferenceService/ModelInfer",
            post(model_infer),
        )
        .route(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            post(stream_infer),
        )
        .route("/grpc.health.v1.Health/Check", post(health::check))
        .route("/grpc.health.v1.Health/Watch", post(health::watch))
        .route(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            post(reflection::reflect),
        )
        .route(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            post(reflection::reflect),
        )
        .fallback(no_method)
        .layer(middleware::from_fn_with_state(server.clone(), check_key))
        .with_state(server)
}

/// Refuses calls without a key, if the server has keys. Health is for those who have none.
async fn check_key(
    State(server): State<Arc<Server>>,
    mut request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let open = [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.GRPCInferenceService/ServerReady",
    ];
    match server.admit(&mut request, &open) {
        Ok(()) => next.run(request).await,
        Err(error) if is_call(&request) => status(&error).into_http(),
        Err(_) => not_found(),
    }
}

fn is_call(request: &Request<Body>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// What is no call is not found.
async fn no_method(request: Request<Body>) -> Response<Body> {
    match is_call(&request) {
        true => Status::unimplemented("the server has no such method").into_http(),
        false => not_found(),
    }
}

fn not_found() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Answers a call by a function that may take long.
async fn unary<R, T>(
    server: Arc<Server>,
    request: Request<Body>,
    answer: fn(&Server, &Who, R) -> Result<T>,
) -> Response<tonic::body::Body>
where
    R: Message + Default + 'static,
    T: Message + Default + 'static,
{
    let most = server.limits().max_body;
    let who = Who::of(&request);
    let answer = move |request: tonic::Request<R>| -> glue::Answer<T> {
        let (server, who) = (server.clone(), who.clone());
        Box::pin(async move {
            let answer = move || answer(&server, &who, request.into_inner());
            let answered = tokio::task::spawn_blocking(answer).await;
            let answered = answered.map_err(|error| Status::internal(error.to_string()))?;
            answered
                .map(tonic::Response::new)
                .map_err(|error| status(&error))
        })
    };
    glue::unary(most, request, glue::Unary(Box::new(answer))).await
}

async fn model_infer(
    State(server): State<Arc<Server>>,
    request: Request<Body>,
) -> Response<tonic::body::Body> {
    let most = server.limits().max_body;
    let who = Who::of(&request);
    let answer = move |request: tonic::Request<InferRequest>| -> glue::Answer<InferResponse> {
        let (server, who) = (server.clone(), who.clone());
        Box::pin(async move {
            let answer = async {
                let terms = infer::terms(request.metadata())?;
                infer::infer(&server, &who, terms, request.into_inner()).await
            };
            let answer = answer.await;
            answer
                .map(tonic::Response::new)
                .map_err(|error| status(&error))
        })
    };
    glue::unary(most, request, glue::Unary(Box::new(answer))).await
}

async fn stream_infer(
    State(server): State<Arc<Server>>,
    request: Request<Body>,
) -> Response<tonic::body::Body> {
    let most = server.limits().max_body;
    let who = Who::of(&request);
    let answer = move |request: tonic::Request<Streaming<InferRequest>>| -> glue::Answer<Answers<StreamResponse>> {
        let (server, who) = (server.clone(), who.clone());
        Box::pin(async move { Ok(tonic::Response::new(stream(server, who, request.into_inner()))) })
    };
    glue::streaming(most, request, glue::Stream(Box::new(answer))).await
}

/// A task that ends with this.
struct Ending<T>(JoinHandle<T>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers the requests of a stream, several at a time, in their order. When the client goes away all of them are withdrawn.
fn stream(
    server: Arc<Server>,
    who: Who,
    mut requests: Streaming<InferRequest>,
) -> Answers<StreamResponse> {
    let (begin, mut begun) = mpsc::channel::<Ending<StreamResponse>>(PER_STREAM);
    let (tell, told) = mpsc::channel(1);
    let reader = tokio::spawn(async move {
        // A stream that fails has no more requests.
        while let Ok(Some(request)) = requests.message().await {
            let (server, who) = (server.clone(), who.clone());
            let task = tokio::spawn(async move {
                let (id, terms) = (request.id.clone(), Default::default());
                match infer::infer(&server, &who, terms, request).await {
                    Ok(response) => StreamResponse {
                        infer_response: Some(response),
                        ..StreamResponse::default()
                    },
                    Err(error) => StreamResponse {
                        error_message: error.to_string(),
                        infer_response: Some(InferResponse {
                            id,
                            ..InferResponse::default()
                        }),
                    },
                }
            });
            if begin.send(Ending(task)).await.is_err() {
                return;
            }
        }
    });
    let reader = Ending(reader);
    tokio::spawn(async move {
        let _reader = reader;
        loop {
            let next = tokio::select! {
                next = begun.recv() => next,
                () = tell.closed() => None,
            };
            let Some(mut task) = next else { return };
            let answer = tokio::select! {
                answer = &mut task.0 => answer,
                () = tell.closed() => return,
            };
            let answer = answer.map_err(|error| Status::internal(error.to_string()));
            if tell.send(answer).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(told)
}

fn find(server: &Server, named: &Named) -> Result<Arc<Model>> {
    server.repository().find(&named.name, Some(&named.version))
}

fn about() -> ServerMetadata {
    ServerMetadata {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    }
}

fn metadata(server: &Server, _: &Who, named: Named) -> Result<ModelMetadata> {
    let model = find(server, &named)?;
    let told = |ports: &[Port]| {
        let each = ports.iter().map(|port| TensorMetadata {
            name: port.name.clone(),
            datatype: port.datatype().to_owned(),
            shape: port.shape.clone(),
        });
        each.collect()
    };
    Ok(ModelMetadata {
        name: model.name().to_owned(),
        versions: server.repository().versions(model.name()),
        platform: "onnxruntime_onnx".to_owned(),
        inputs: told(model.inputs()),
        outputs: told(model.outputs()),
    })
}

fn config(server: &Server, _: &Who, named: Named) -> Result<ConfigResponse> {
    let model = find(server, &named)?;
    let batch = model.max_batch_size();
    let dims = |port: &Port| {
        port.shape
            .get(usize::from(batch > 0)..)
            .unwrap_or_default()
            .to_vec()
    };
    let inputs = model.inputs().iter().map(|port| ConfigInput {
        name: port.name.clone(),
        data_type: port.number(),
        dims: dims(port),
    });
    let outputs = model.outputs().iter().map(|port| ConfigOutput {
        name: port.name.clone(),
        data_type: port.number(),
        dims: dims(port),
    });
    Ok(ConfigResponse {
        config: Some(ModelConfig {
            name: model.name().to_owned(),
            platform: "onnxruntime_onnx".to_owned(),
            max_batch_size: i32::try_from(batch).unwrap_or(i32::MAX),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            backend: "onnxruntime".to_owned(),
        }),
    })
}

fn statistics(server: &Server, _: &Who, named: Named) -> Result<StatisticsResponse> {
    let models = match named.name.is_empty() {
        true => server.repository().loaded(),
        false => vec![find(server, &named)?],
    };
    let models = models.iter().map(|model| {
        let seen = model.figures().seen();
        let pair = |(count, ns)| Some(CountAndNanos { count, ns });
        let queues = &seen.queues;
        let [input, compute, output] = computing(&seen);
        ModelStatistics {
            name: model.name().to_owned(),
            version: model.version().to_string(),
            last_inference: seen.last,
            inference_count: total(&queues.batch_rows),
            execution_count: queues.batch_rows.count(),
            inference: Some(InferStatistics {
                success: pair(seen.success),
                fail: pair(seen.fail),
                queue: pair((queues.queue_time.count(), total(&queues.queue_time))),
                compute_input: pair(input),
                compute_infer: pair(compute),
                compute_output: pair(output),
            }),
        }
    });
    Ok(StatisticsResponse {
        models: models.collect(),
    })
}

fn index(server: &Server, _: &Who, request: IndexRequest) -> Result<IndexResponse> {
    let models = server.repository().index(request.ready);
    let text = |model: &Json, name: &str| model[name].as_str().unwrap_or_default().to_owned();
    let models = models.iter().map(|model| Indexed {
        name: text(model, "name"),
        version: text(model, "version"),
        state: text(model, "state"),
        reason: text(model, "reason"),
    });
    Ok(IndexResponse {
        models: models.collect(),
    })
}

fn load(server: &Server, who: &Who, request: ControlRequest) -> Result<Empty> {
    server.check_control(who)?;
    if !request.parameters.is_empty() {
        return Err(crate::error::Error::invalid(
            "a model cannot be loaded with a configuration or files of the request",
        ));
    }
    server.repository().load(&request.model_name)?;
    Ok(Empty {})
}

fn unload(server: &Server, who: &Who, request: ControlRequest) -> Result<Empty> {
    server.check_control(who)?;
    server.repository().unload(&request.model_name)?;
    Ok(Empty {})
}
