//! Who may talk to the server: keys, limits of tenants, TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use streampool_serve::listen::{self, Address, Listener};
use streampool_serve::tls::{Files, Tls};
use streampool_serve::{Defaults, Keys, Limits, Options, Repository, Server, grpc, http};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::common::{Running, folder, plus, request, response, slow, write};

const GOOD: &str =
    r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;

fn keyed(folder: &Path, text: &str) -> (Running, PathBuf) {
    let path = folder.join("keys.json");
    std::fs::write(&path, text).unwrap();
    let keys = Keys::load(&path).unwrap();
    let limits = Limits {
        control: true,
        ..Limits::default()
    };
    let running = Running::keyed(folder, limits, Defaults::default(), Some(keys));
    (running, path)
}

#[test]
fn a_request_needs_a_key_that_is_known() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let text = r#"{"ann": {"keys": ["anns-key"], "control": true}, "bob": {"keys": ["bobs-key"]}}"#;
    let (running, path) = keyed(&folder, text);
    let infer = |headers: &[(&str, &str)]| {
        running.send("POST", "/v2/models/a/infer", headers, GOOD.as_bytes())
    };
    for headers in [
        &[][..],
        &[("authorization", "Bearer other-key")],
        &[("authorization", "Basic anns-key")],
        &[("x-tenant", "ann")],
    ] {
        let refused = infer(headers);
        assert_eq!(refused.status, 401, "{refused:?}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    for path in ["/v2/models/a", "/metrics", "/events", "/v2/models/a/config"] {
        assert_eq!(running.get(path).status, 401, "{path}");
    }
    for path in ["/v2/health/live", "/v2/health/ready", "/", "/openapi.json"] {
        assert_eq!(running.get(path).status, 200, "{path}");
    }
    assert_eq!(infer(&[("authorization", "Bearer anns-key")]).status, 200);
    assert_eq!(
        infer(&[("x-api-key", "bobs-key"), ("x-tenant", "ann")]).status,
        200
    );

    let load = "/v2/repository/models/a/load";
    assert_eq!(
        running
            .send("POST", load, &[("x-api-key", "bobs-key")], b"")
            .status,
        403
    );
    assert_eq!(
        running
            .send("POST", load, &[("x-api-key", "anns-key")], b"")
            .status,
        200
    );
    let metrics = running
        .send("GET", "/metrics", &[("x-api-key", "bobs-key")], b"")
        .text();
    for line in [
        r#"streampool_tenant_requests{tenant="ann",outcome="SUCCESS"} 1"#,
        r#"streampool_tenant_requests{tenant="bob",outcome="SUCCESS"} 1"#,
        r#"streampool_tenant_waits{tenant="bob"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }

    // A file that is wrong changes nothing; one that is right does at once.
    let keys = running.server.keys().unwrap();
    std::fs::write(&path, "{").unwrap();
    assert!(keys.reload().is_err());
    assert_eq!(infer(&[("x-api-key", "bobs-key")]).status, 200);
    std::fs::write(&path, r#"{"bob": {"keys": ["new-bobs-key"]}}"#).unwrap();
    keys.reload().unwrap();
    assert_eq!(infer(&[("x-api-key", "bobs-key")]).status, 401);
    assert_eq!(infer(&[("x-api-key", "new-bobs-key")]).status, 200);
}

#[tokio::test]
async fn a_call_needs_a_key_but_not_for_health() {
    let folder = folder();
    let path = folder.join("keys.json");
    std::fs::write(&path, r#"{"ann": {"keys": ["anns-key"]}}"#).unwrap();
    let repository = Repository::new(
        &folder,
        streampool::host_pool().unwrap(),
        Defaults::default(),
    );
    let keys = Keys::load(&path).unwrap();
    let options = Options {
        keys: Some(keys),
        ..Options::default()
    };
    let server = Server::with(repository, Limits::default(), options);
    let router = TowerToHyperService::new(grpc::router(server));
    let call = async |method: &str, key: &str| {
        let request = Request::post(method).header("content-type", "application/grpc");
        let request = request.header("authorization", format!("Bearer {key}"));
        let answer = router.call(request.body(Body::from(vec![0; 5])).unwrap());
        let answer = answer.await.unwrap();
        answer
            .headers()
            .get("grpc-status")
            .map(|status| status.to_str().unwrap().to_owned())
    };
    let metadata = "/inference.GRPCInferenceService/ServerMetadata";
    assert_eq!(call(metadata, "none").await.as_deref(), Some("16"));
    assert_ne!(call(metadata, "anns-key").await.as_deref(), Some("16"));
    assert_ne!(
        call("/grpc.health.v1.Health/Check", "none")
            .await
            .as_deref(),
        Some("16")
    );
}

#[test]
fn a_tenant_has_no_more_requests_in_progress_than_it_may() {
    let folder = folder();
    write(&folder, "slow.onnx", slow());
    let text =
        r#"{"ann": {"keys": ["anns-key"], "max_requests": 1}, "bob": {"keys": ["bobs-key"]}}"#;
    let (running, _) = keyed(&folder, text);
    let rows = vec![0.5f32; 64 * 512];
    let body =
        json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [64, 512], "data": rows}]});
    let body = body.to_string();
    let send = |key: &str| {
        let headers = [("x-api-key", key)];
        running.send("POST", "/v2/models/slow/infer", &headers, body.as_bytes())
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| send("anns-key"))).collect();
        assert_eq!(send("bobs-key").status, 200);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let refused: Vec<_> = all.iter().filter(|answer| answer.status == 429).collect();
    let answered = all.iter().filter(|answer| answer.status == 200).count();
    assert!(
        answered >= 1 && answered + refused.len() == 8,
        "{answered} answered"
    );
    assert!(!refused.is_empty(), "eight at once, and one is allowed");
    assert_eq!(refused[0].header("retry-after"), Some("1"));
    // Its place is free again.
    assert_eq!(send("anns-key").status, 200);
    let metrics = running
        .send("GET", "/metrics", &[("x-api-key", "bobs-key")], b"")
        .text();
    let line = format!(
        r#"streampool_rejects{{model="slow",version="1",reason="tenant_limit"}} {}"#,
        refused.len()
    );
    assert!(metrics.contains(&line), "{line}\n{metrics}");
}

#[test]
fn who_is_refused_while_the_body_is_on_its_way_hears_why() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let limits = Limits {
        max_requests: 0,
        ..Limits::default()
    };
    let running = Running::of(&folder, limits, Defaults::default());
    let mut stream = running.connect();
    let all = request("POST", "/v2/models/a/infer", &[], GOOD.as_bytes());
    let (head, body) = all.split_at(all.len() - GOOD.len());
    for _ in 0..2 {
        stream.write_all(head).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        stream.write_all(body).unwrap();
        let answer = response(&mut stream).expect("an answer, on a connection that stays");
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
}

fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/server/tls")
        .join(name)
}

/// What a server answers over TLS to a client that shows a certificate, or does not.
fn over_tls(at: &str, shows: bool) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(pem("root.pem")).unwrap())
        .unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match shows {
        false => config.with_no_client_auth(),
        true => {
            let own = CertificateDer::from_pem_file(pem("server.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
            config.with_client_auth_cert(vec![own], key).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap());
    let stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection.unwrap(), stream);
    stream.write_all(
        b"GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn connections_are_encrypted_and_clients_may_have_to_show_who_they_are() {
    let files = |clients: Option<&str>| Files {
        certificate: pem("server.pem"),
        key: pem("server.key"),
        clients: clients.map(pem),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let repository = Repository::new(
        folder(),
        streampool::host_pool().unwrap(),
        Defaults::default(),
    );
    let server = Server::new(repository, Limits::default());
    server.set_ready(true);
    let (stop, stopped) = watch::channel(false);
    let serve = |clients: Option<&str>| {
        let tls = Tls::load(files(clients)).unwrap();
        tls.reload().unwrap();
        let listener = runtime.block_on(Listener::bind(&Address::Tcp("127.0.0.1:0".to_owned())));
        let listener = listener.unwrap().with_tls(Some(Arc::new(tls)));
        let at = listener.address();
        let router = http::router(server.clone());
        runtime.spawn(listen::serve(
            listener,
            router,
            Limits::default(),
            stopped.clone(),
        ));
        at
    };
    let open = serve(None);
    assert!(over_tls(&open, false).unwrap().starts_with("HTTP/1.1 200"));
    // Who speaks no TLS gets nothing.
    let mut plain = TcpStream::connect(&open).unwrap();
    plain
        .write_all(b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");

    let closed = serve(Some("root.pem"));
    assert!(over_tls(&closed, true).unwrap().starts_with("HTTP/1.1 200"));
    assert!(over_tls(&closed, false).is_err());
    stop.send(true).unwrap();

    let wrong = |certificate: &str, key: &str| {
        let files = Files {
            certificate: pem(certificate),
            key: pem(key),
            clients: None,
        };
        Tls::load(files).err().expect("an error")
    };
    assert!(wrong("none.pem", "server.key").contains("none.pem"));
    assert!(wrong("server.key", "server.key").contains("no certificate"));
    assert!(wrong("root.pem", "server.key").contains("root.pem"));
}
