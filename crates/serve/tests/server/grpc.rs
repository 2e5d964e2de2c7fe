//! The protocol over gRPC, call by call. NVIDIA's clients say the rest: `ci/serve.sh`.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use streampool_serve::{Defaults, Limits, Repository, Server, grpc};
use tonic::codec::CompressionEncoding;
use tonic_prost::ProstCodec;

use super::common::{folder, plus, write};

type Router = TowerToHyperService<axum::Router>;

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len())
        .ok()
        .filter(|length| *length < 128);
    [&[number << 3 | 2, length.expect("a short field")], bytes].concat()
}

fn input(datatype: &str, shape: &[u8]) -> Vec<u8> {
    let input = [
        field(1, b"x"),
        field(2, datatype.as_bytes()),
        field(3, shape),
    ]
    .concat();
    field(5, &input)
}

fn raw(values: [f32; 4]) -> Vec<u8> {
    field(7, &values.map(f32::to_le_bytes).concat())
}

fn good() -> Vec<u8> {
    [
        field(1, b"a"),
        input("FP32", &[1, 4]),
        raw([1.0, 2.0, 3.0, 4.0]),
    ]
    .concat()
}

fn router() -> Router {
    TowerToHyperService::new(router_of(Limits::default().max_body))
}

fn router_of(max_body: usize) -> axum::Router {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let repository = Repository::new(
        &folder,
        streampool::host_pool().unwrap(),
        Defaults::default(),
    );
    assert!(repository.load_all().unwrap().is_empty());
    let limits = Limits {
        max_body,
        ..Limits::default()
    };
    grpc::router(Server::new(repository, limits))
}

/// The status of a call, its text, and the message that came.
async fn call(
    router: &Router,
    method: &str,
    headers: &[(&str, &str)],
    message: &[u8],
) -> (u32, String, Vec<u8>) {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], &length[..], message].concat();
    let mut request = Request::post(method).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = router
        .call(request.body(Body::from(body)).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let find = |name: &str| {
        let value = head.headers.get(name).or_else(|| trailers.get(name));
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let status = find("grpc-status").expect("a status").parse().unwrap();
    let message = body.to_bytes().get(5..).unwrap_or_default().to_vec();
    (status, find("grpc-message").unwrap_or_default(), message)
}

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

#[tokio::test]
async fn what_clients_get_has_the_status_that_they_expect() {
    let router = router();
    let (status, text, message) = call(&router, INFER, &[], &good()).await;
    assert_eq!(status, 0, "{text}");
    let expected = [2.0f32, 3.0, 4.0, 5.0].map(f32::to_le_bytes).concat();
    assert!(message.ends_with(&expected), "{message:?}");
    let wrong = [field(1, b"a"), input("FP64", &[1, 4]), raw([0.0; 4])].concat();
    assert_eq!(call(&router, INFER, &[], &wrong).await.0, 3);
    let unknown = [field(1, b"b"), input("FP32", &[1, 4]), raw([0.0; 4])].concat();
    assert_eq!(call(&router, INFER, &[], &unknown).await.0, 5);
    assert_eq!(
        call(&router, INFER, &[("grpc-timeout", "1n")], &good())
            .await
            .0,
        4
    );
    assert_eq!(
        call(&router, INFER, &[("grpc-timeout", "soon")], &good())
            .await
            .0,
        3
    );
    assert_eq!(
        call(&router, "/inference.GRPCInferenceService/None", &[], &[])
            .await
            .0,
        12
    );
    let (status, _, message) = call(&router, "/grpc.health.v1.Health/Check", &[], &[]).await;
    assert_eq!((status, &message[..]), (0, &[8, 2][..]), "it is not ready");
    let load = field(2, b"a");
    assert_eq!(
        call(
            &router,
            "/inference.GRPCInferenceService/RepositoryModelLoad",
            &[],
            &load
        )
        .await
        .0,
        3
    );
}

/// Messages made from a good one: a message that cannot be read is INTERNAL, as everywhere in gRPC, and nothing else is.
#[tokio::test]
async fn no_message_is_too_strange() {
    let cases = std::env::var("SERVE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let cases: usize = cases.unwrap_or(3000);
    let router = router();
    let mut random = fastrand::Rng::with_seed(35);
    let (mut good_ones, mut refused) = (0, 0);
    for _ in 0..cases {
        let mut message = good();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..=message.len());
            match random.u8(0..4) {
                0 => message.truncate(at),
                1 => message.insert(at, random.u8(..)),
                2 if at < message.len() => message[at] = random.u8(..),
                _ => {
                    let copy = message[at..message.len().min(at + 20)].to_vec();
                    message.splice(at..at, copy);
                }
            }
        }
        let (status, text, _) = call(&router, INFER, &[], &message).await;
        match status {
            0 => good_ones += 1,
            3 | 5 => refused += 1,
            13 if text.contains("decode") => refused += 1,
            _ => panic!("{status} {text} for {message:?}"),
        }
    }
    assert!(
        good_ones > cases / 20 && refused > cases / 20,
        "{good_ones} {refused}"
    );
}

#[derive(Clone, PartialEq, prost::Message)]
struct Infer {
    #[prost(string, tag = "1")]
    model: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<Input>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    raw: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Input {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Inferred {
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw: Vec<Vec<u8>>,
}

/// By the client that tonic has.
#[tokio::test]
async fn messages_go_both_ways_in_zstd() {
    let path = axum::http::uri::PathAndQuery::from_static(INFER);
    let bytes = |value: f32| [value; 4000].map(f32::to_le_bytes).concat();
    let message = || Infer {
        model: "a".to_owned(),
        inputs: vec![Input {
            name: "x".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1000, 4],
        }],
        raw: vec![bytes(1.0)],
    };
    let client = || tonic::client::Grpc::new(router_of(100_000));
    let mut packing = client()
        .send_compressed(CompressionEncoding::Zstd)
        .accept_compressed(CompressionEncoding::Zstd);
    for (client, encoding) in [(&mut packing, Some("zstd")), (&mut client(), None)] {
        client.ready().await.unwrap();
        let codec = ProstCodec::<Infer, Inferred>::default();
        let request = tonic::Request::new(message());
        let answer = client.unary(request, path.clone(), codec).await.unwrap();
        let sent = answer.metadata().get("grpc-encoding");
        assert_eq!(sent.map(|sent| sent.to_str().unwrap()), encoding);
        assert_eq!(answer.into_inner().raw, [bytes(2.0)]);
    }
    // What would be more than a message may have is not unpacked.
    let mut large = message();
    large.raw = vec![vec![0; 1 << 20]];
    let codec = ProstCodec::<Infer, Inferred>::default();
    let answer = packing.unary(tonic::Request::new(large), path, codec).await;
    assert_eq!(answer.unwrap_err().code(), tonic::Code::ResourceExhausted);
}
