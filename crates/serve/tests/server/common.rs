//! A server of models that the tests write, on a port of this machine, and a client that says what it is told to say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use streampool::model::onnx::writer::Graph;
use streampool::{Array, DType, DeviceSet};
use streampool_serve::listen::{self, Address, Listener};
use streampool_serve::{Defaults, Keys, Limits, Options, Repository, Server, grpc, http};
use tokio::sync::watch;

/// A folder of its own for each test.
pub fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("models-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes the file of a model.
pub fn write(folder: &Path, path: &str, graph: Graph) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, graph.model(&[("", 18)])).unwrap();
}

/// y = x, in rows of any type.
pub fn identity(dtype: DType, row: &str) -> Graph {
    let sizes = format!("batch {row}");
    Graph::new()
        .input("x", dtype, &sizes)
        .node("Identity x = y", &[])
        .output("y", dtype, &sizes)
}

/// y = x + c in rows of four.
pub fn plus(c: f32) -> Graph {
    Graph::new()
        .input("x", DType::F32, "batch 4")
        .constant("c", &Array::new(&[c], &[1]).unwrap())
        .node("Add x c = y", &[])
        .output("y", DType::F32, "batch 4")
}

/// y = a x of square matrices, many times: it takes some time.
pub fn slow() -> Graph {
    let weight = Array::new(&vec![0.001f32; 512 * 512], &[512, 512]).unwrap();
    let mut graph = Graph::new()
        .input("x", DType::F32, "batch 512")
        .constant("w", &weight);
    let mut last = "x".to_owned();
    for round in 0..100 {
        graph = graph.node(&format!("MatMul {last} w = h{round}"), &[]);
        last = format!("h{round}");
    }
    graph
        .node(&format!("Identity {last} = y"), &[])
        .output("y", DType::F32, "batch 512")
}

/// A server that runs until this is dropped.
pub struct Running {
    pub server: Arc<Server>,
    pub at: SocketAddr,
    stop: watch::Sender<bool>,
    ended: Option<std::thread::JoinHandle<bool>>,
}

impl Running {
    /// Serves the models of a folder.
    pub fn of(folder: &Path, limits: Limits, defaults: Defaults) -> Running {
        Running::keyed(folder, limits, defaults, None)
    }

    /// Serves them to those who have a key.
    pub fn keyed(folder: &Path, limits: Limits, defaults: Defaults, keys: Option<Keys>) -> Running {
        let pool = streampool::host_pool().unwrap();
        let options = Options {
            keys,
            ..Options::default()
        };
        Running::on(pool, folder, limits, defaults, options)
    }

    /// Serves them on these devices.
    pub fn on(
        devices: impl Into<DeviceSet>,
        folder: &Path,
        limits: Limits,
        defaults: Defaults,
        options: Options,
    ) -> Running {
        let repository = Repository::new(folder, devices, defaults);
        let failures = repository.load_all().unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        let server = Server::with(repository, limits, options);
        server.set_ready(true);
        let (stop, stopped) = watch::channel(false);
        let (tell, told) = std::sync::mpsc::channel();
        let serving = server.clone();
        let ended = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let address = Address::Tcp("127.0.0.1:0".to_owned());
                let listener = Listener::bind(&address).await.unwrap();
                tell.send(listener.address()).unwrap();
                let limits = serving.limits().clone();
                let router = http::router(serving.clone()).merge(grpc::router(serving));
                listen::serve(listener, router, limits, stopped).await
            })
        });
        Running {
            server,
            at: told.recv().unwrap().parse().unwrap(),
            stop,
            ended: Some(ended),
        }
    }

    pub fn with(folder: &Path) -> Running {
        Running::of(folder, Limits::default(), Defaults::default())
    }

    /// Tells the server to end; it does when requests in progress are answered.
    pub fn stop(&self) {
        self.stop.send(true).unwrap();
    }

    /// Waits for its end. Returns whether all requests were answered.
    pub fn ended(mut self) -> bool {
        self.ended.take().unwrap().join().unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &str) -> Response {
        self.send("POST", path, &[], body.as_bytes())
    }

    pub fn infer(&self, model: &str, body: &str) -> Response {
        self.post(&format!("/v2/models/{model}/infer"), body)
    }

    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let mut stream = self.connect();
        stream
            .write_all(&request(method, path, headers, body))
            .unwrap();
        response(&mut stream).expect("an answer")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(ended) = self.ended.take() {
            let _ = ended.join();
        }
    }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &value[..])
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads a response; nothing, if the server closes the connection before one.
pub fn response(stream: &mut TcpStream) -> Option<Response> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    let length = response
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    response.body = vec![0; length];
    stream.read_exact(&mut response.body).ok()?;
    Some(response)
}
