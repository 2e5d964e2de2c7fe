//! What makes a function a method of a gRPC service.

use std::future::Future;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{Request, Response};
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::server::{Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error::Error;

/// A future of an answer.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;

/// Answers that come one after the other.
pub type Answers<T> = ReceiverStream<Result<T, Status>>;

/// A function from a request to an answer.
type Function<R, T> = Box<dyn FnMut(tonic::Request<R>) -> Answer<T> + Send>;

/// A call with one request.
pub struct Unary<R, T>(pub Function<R, T>);

impl<R, T> UnaryService<R> for Unary<R, T> {
    type Response = T;
    type Future = Answer<T>;

    fn call(&mut self, request: tonic::Request<R>) -> Answer<T> {
        (self.0)(request)
    }
}

/// A call with one request, and many answers.
pub struct Many<R, T>(pub Function<R, Answers<T>>);

impl<R, T: Send + 'static> ServerStreamingService<R> for Many<R, T> {
    type Response = T;
    type ResponseStream = Answers<T>;
    type Future = Answer<Answers<T>>;

    fn call(&mut self, request: tonic::Request<R>) -> Answer<Answers<T>> {
        (self.0)(request)
    }
}

/// A call with many requests.
pub struct Stream<R, T>(pub Function<Streaming<R>, Answers<T>>);

impl<R, T: Send + 'static> StreamingService<R> for Stream<R, T> {
    type Response = T;
    type ResponseStream = Answers<T>;
    type Future = Answer<Answers<T>>;

    fn call(&mut self, request: tonic::Request<Streaming<R>>) -> Answer<Answers<T>> {
        (self.0)(request)
    }
}

fn grpc<R, T>(most: usize) -> Grpc<ProstCodec<T, R>>
where
    R: Message + Default + 'static,
    T: Message + Default + 'static,
{
    let grpc = Grpc::new(ProstCodec::default())
        .max_decoding_message_size(most)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    #[cfg(feature = "zstd")]
    let grpc = grpc
        .accept_compressed(CompressionEncoding::Zstd)
        .send_compressed(CompressionEncoding::Zstd);
    grpc
}

/// Answers a call with one request. Messages have at most so many bytes, also after they were decompressed.
pub async fn unary<R, T>(
    most: usize,
    request: Request<Body>,
    answer: Unary<R, T>,
) -> Response<tonic::body::Body>
where
    R: Message + Default + 'static,
    T: Message + Default + 'static,
{
    grpc(most).unary(answer, request).await
}

/// Answers a call with one request by many answers.
pub async fn many<R, T>(
    most: usize,
    request: Request<Body>,
    answer: Many<R, T>,
) -> Response<tonic::body::Body>
where
    R: Message + Default + 'static,
    T: Message + Default + 'static,
{
    grpc(most).server_streaming(answer, request).await
}

/// Answers a call with many requests.
pub async fn streaming<R, T>(
    most: usize,
    request: Request<Body>,
    answer: Stream<R, T>,
) -> Response<tonic::body::Body>
where
    R: Message + Default + 'static,
    T: Message + Default + 'static,
{
    grpc(most).streaming(answer, request).await
}

/// What gRPC calls an error.
pub fn status(error: &Error) -> Status {
    let code = match error {
        Error::UnknownModel(_) | Error::UnknownVersion(..) | Error::UnknownRegion(_) => {
            Code::NotFound
        }
        Error::Invalid(_) => Code::InvalidArgument,
        Error::TooLarge { .. } | Error::TenantLimit { .. } => Code::ResourceExhausted,
        Error::Unauthenticated => Code::Unauthenticated,
        Error::Forbidden(_) => Code::PermissionDenied,
        Error::Full { .. } | Error::TooManyRequests(_) | Error::ShuttingDown => Code::Unavailable,
        Error::Deadline | Error::SlowBody(_) => Code::DeadlineExceeded,
        Error::Unsupported(_) => Code::Unimplemented,
        Error::Internal(_) => Code::Internal,
    };
    Status::new(code, error.to_string())
}
