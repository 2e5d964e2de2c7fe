//! What the fuzz targets of the server do with their bytes. `crates/cli/tests/fuzzed.rs` does the same with the corpus.

use std::path::PathBuf;
use std::sync::LazyLock;

use axum::Router;
use axum::body::{self, Body};
use axum::http::{Method, Request, StatusCode};
use streampool::Pool;
use streampool_serve::{Defaults, Keys, Limits, Repository, Server, http as protocol};
use streampool_simulate::Cost;
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

/// `y = x + 1`, rows of four numbers.
const MODEL: &[u8] = include_bytes!("../served.onnx");

/// The process's own folder, with the model `m`.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("streampool-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("m/1")).expect("a folder");
    std::fs::write(folder.join("m/1/model.onnx"), MODEL).expect("a model");
    folder
});

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
});

static POOL: LazyLock<Pool> = LazyLock::new(|| streampool::host_pool().expect("a pool"));

fn repository() -> Repository {
    Repository::new(FOLDER.clone(), POOL.clone(), Defaults::default())
}

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let repository = repository();
    repository.load_all().expect("the model");
    let limits = Limits {
        max_body: 1 << 20,
        ..Limits::default()
    };
    let server = Server::new(repository, limits);
    server.set_ready(true);
    protocol::router(server)
});

/// A request: its method and path in the first line, then headers, an empty line, and the body.
pub fn http(bytes: &[u8]) {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, after) = rest.split_at(end);
        rest = &after[1..];
        Some(line)
    };
    let Some(Some((method, path))) =
        line().map(|line| std::str::from_utf8(line).ok()?.split_once(' '))
    else {
        return;
    };
    let Ok(method) = Method::from_bytes(method.as_bytes()) else {
        return;
    };
    let mut request = Request::builder().method(method).uri(path);
    while let Some(header) = line().filter(|line| !line.is_empty()) {
        let Some(colon) = header.iter().position(|byte| *byte == b':') else {
            return;
        };
        request = request.header(&header[..colon], &header[colon + 1..]);
    }
    let Ok(request) = request.body(Body::from(rest.to_vec())) else {
        return;
    };
    RUNTIME.block_on(async {
        let Ok(reply) = ROUTER.clone().call(request).await;
        assert_ne!(reply.status(), StatusCode::INTERNAL_SERVER_ERROR);
        body::to_bytes(reply.into_body(), usize::MAX)
            .await
            .expect("the whole answer");
    });
}

/// The configuration of a model.
pub fn config(bytes: &[u8]) {
    std::fs::write(FOLDER.join("m/config.pbtxt"), bytes).expect("a file");
    let _runtime = RUNTIME.enter();
    let _ = repository().load_all();
}

/// A report of how long batches take, and a file of tenants' keys.
pub fn reports(bytes: &[u8]) {
    let path = FOLDER.join("keys.json");
    std::fs::write(&path, bytes).expect("a file");
    let _ = Keys::load(&path);
    if let Ok(cost) = std::str::from_utf8(bytes)
        .map_err(drop)
        .and_then(|text| Cost::from_bench(text, 2).map_err(drop))
    {
        for rows in [1, 7, 1000, usize::MAX] {
            assert!(cost.seconds(rows) > 0.0);
        }
    }
}
