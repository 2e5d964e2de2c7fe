//! What the server adds to a call of a queue, in process: `cargo run --release -p streampool-serve --example overhead`.

use std::time::{Duration, Instant};

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use streampool::model::onnx::writer::Graph;
use streampool::prelude::*;
use streampool_serve::{Defaults, Limits, Repository, Server, http};

const CALLS: u32 = 50_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("streampool-overhead-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let model = Graph::new()
        .input("x", DType::F32, "batch 16")
        .node("Identity x = y", &[])
        .output("y", DType::F32, "batch 16")
        .model(&[("", 18)]);
    std::fs::write(folder.join("identity.onnx"), &model)?;
    let pool = streampool::host_pool()?;
    let session = Session::load(&pool, folder.join("identity.onnx"))?;
    let queue = BatchQueue::for_session(&session, BatchQueue::builder())?;
    let repository = Repository::new(&folder, pool, Defaults::default());
    assert!(repository.load_all()?.is_empty());
    let router = TowerToHyperService::new(http::router(Server::new(repository, Limits::default())));

    let header = br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,16],"parameters":{"binary_data_size":64}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}"#;
    let body = bytes::Bytes::from([&header[..], &[0; 64]].concat());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let row = Array::new(&[0.0f32; 16], &[1, 16])?;
        let request = || {
            axum::http::Request::post("/v2/models/identity/infer")
                .header("inference-header-content-length", header.len())
                .body(Body::from(body.clone()))
        };
        let (mut bare, mut served) = (Vec::new(), Vec::new());
        // Turn by turn, so that both see the same machine.
        for _ in 0..CALLS {
            let begun = Instant::now();
            queue.run_or_submit(row.clone())?.await?;
            bare.push(begun.elapsed());
            let request = request()?;
            let begun = Instant::now();
            let answer = router.call(request).await?;
            assert_eq!(answer.status(), 200);
            answer.into_body().collect().await?;
            served.push(begun.elapsed());
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let (bare, served) = (median(&mut bare), median(&mut served));
        println!(
            "queue {bare:?}, server {served:?}, added {:?}",
            served.saturating_sub(bare)
        );
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
