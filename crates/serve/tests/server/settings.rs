//! What clients change while the server runs, and what comes of it: the log, traces, shared memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use streampool::DType;
use streampool_serve::log::{Log, Shown};
use streampool_serve::traces::{Destination, Tracer};
use streampool_serve::{Defaults, Limits, Options};

use super::common::{Running, folder, identity, plus, slow, write};

const GOOD: &str =
    r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;

fn serving(options: Options, control: bool) -> Running {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    write(&folder, "b.onnx", plus(2.0));
    write(&folder, "slow.onnx", slow());
    write(&folder, "bytes.onnx", identity(DType::U8, "4"));
    let limits = Limits {
        control,
        ..Limits::default()
    };
    let defaults = Defaults {
        max_in_flight: Some(1),
        ..Defaults::default()
    };
    let pool = streampool::host_pool().unwrap();
    Running::on(pool, &folder, limits, defaults, options)
}

#[test]
fn the_log_is_changed_by_those_who_may() {
    let (tell, told) = channel();
    let shown = Shown {
        error: true,
        warning: true,
        info: true,
        debug: false,
    };
    let log = move || {
        let tell = tell.clone();
        Some(Log::new(shown, move |shown| {
            tell.send(shown).map_err(|error| error.to_string())
        }))
    };
    let options = || Options {
        log: log(),
        ..Options::default()
    };
    let closed = serving(options(), false);
    let refused = closed.post("/v2/logging", r#"{"log_info": false}"#);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("--control"), "{}", refused.text());
    let settings = closed.get("/v2/logging").json();
    assert_eq!(
        (&settings["log_info"], &settings["log_verbose_level"]),
        (&json!(true), &json!(0))
    );
    let open = serving(options(), true);
    let answer = open.post(
        "/v2/logging",
        r#"{"log_info": false, "log_verbose_level": 1}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let shown = told.try_recv().unwrap();
    assert!(shown.debug && shown.error && !shown.info);
    assert_eq!(open.get("/v2/logging").json()["log_info"], json!(false));
    let wrong = open.post("/v2/logging", r#"{"log_info": true, "log_file": "/tmp/x"}"#);
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert!(told.try_recv().is_err(), "all or none");
    let none = serving(Options::default(), true);
    assert_eq!(none.get("/v2/logging").status, 501);
}

/// The spans that come to a collector.
struct Collector {
    at: String,
    spans: Receiver<Value>,
}

impl Collector {
    fn new() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let (tell, spans) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    let line = line.trim_end();
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                stream
                    .get_mut()
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                    .unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
                for span in spans.as_array().unwrap() {
                    if tell.send(span.clone()).is_err() {
                        return;
                    }
                }
            }
        });
        Collector { at, spans }
    }

    /// The spans of so many requests, by name.
    fn take(&self, requests: usize) -> HashMap<String, Vec<Value>> {
        let mut all: HashMap<String, Vec<Value>> = HashMap::new();
        let count = |all: &HashMap<String, Vec<Value>>| {
            let infer = all.iter().filter(|(name, _)| name.starts_with("infer "));
            infer.map(|(_, spans)| spans.len()).sum::<usize>()
        };
        let mut wait = Duration::from_secs(20);
        while let Ok(span) = self.spans.recv_timeout(wait) {
            let name = span["name"].as_str().unwrap().to_owned();
            all.entry(name).or_default().push(span);
            if count(&all) == requests {
                // What is left of the last message: its thread may have to wait for a processor.
                wait = Duration::from_secs(2);
            }
        }
        assert_eq!(count(&all), requests, "{all:?}");
        all
    }
}

fn traced(to: &str, rate: u64) -> Running {
    let (tracer, exporter) = Tracer::new(to.parse::<Destination>().unwrap(), rate);
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime
            .enable_all()
            .build()
            .unwrap()
            .block_on(exporter.run());
    });
    let options = Options {
        tracer: Some(tracer),
        ..Options::default()
    };
    serving(options, true)
}

#[test]
fn a_trace_goes_from_the_client_to_the_batch() {
    let collector = Collector::new();
    let running = traced(&collector.at, 1_000_000);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let path = "/v2/models/a/infer";
    let ask = |body: &str| running.send("POST", path, &[("traceparent", parent)], body.as_bytes());
    assert_eq!(ask(GOOD).status, 200);
    assert_eq!(ask("{}").status, 400);
    // Without a `traceparent`, one of a million is traced.
    assert_eq!(running.infer("a", GOOD).status, 200);
    let spans = collector.take(2);
    let requests = &spans["infer a"];
    for request in requests {
        assert_eq!(request["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    }
    let (good, bad) = (&requests[0], &requests[1]);
    assert!(good.get("status").is_none());
    assert_eq!(bad["status"], json!({"code": 2, "message": "CLIENT"}));
    let [queue, run, batch] = ["queue", "run", "batch"].map(|name| &spans[name][0]);
    for child in [queue, run] {
        assert_eq!(child["parentSpanId"], good["spanId"]);
        assert_eq!(child["traceId"], good["traceId"]);
    }
    let link = |of: &Value| json!([{"traceId": of["traceId"], "spanId": of["spanId"]}]);
    assert_eq!(run["links"], link(batch));
    assert_eq!(batch["links"], link(good));
    assert_ne!(batch["traceId"], good["traceId"]);
    let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
    let (start, end) = ("startTimeUnixNano", "endTimeUnixNano");
    let order = [
        time(good, start),
        time(queue, start),
        time(queue, end),
        time(run, start),
        time(run, end),
        time(good, end),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(
        running
            .get("/metrics")
            .text()
            .contains("streampool_traces{outcome=\"sent\"} 2")
    );
}

#[test]
fn a_batch_is_told_once_and_linked_with_all_its_requests() {
    let collector = Collector::new();
    let running = traced(&collector.at, 1);
    let row = vec![1.0; 512];
    let body =
        json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 512], "data": row}]});
    let body = body.to_string();
    // On a busy machine they may come one by one.
    let together = (0..10).any(|_| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(running.infer("slow", &body).status, 200));
            }
        });
        let spans = collector.take(8);
        let ids = |spans: &[Value]| {
            let mut ids: Vec<String> = spans
                .iter()
                .map(|span| span["spanId"].to_string())
                .collect();
            ids.sort();
            ids
        };
        let links: Vec<Value> = spans["batch"]
            .iter()
            .flat_map(|batch| batch["links"].as_array().unwrap().clone())
            .collect();
        assert_eq!(
            ids(&links),
            ids(&spans["infer slow"]),
            "each is in one batch"
        );
        let most = spans["batch"]
            .iter()
            .map(|batch| batch["links"].as_array().unwrap().len());
        most.max() > Some(1)
    });
    assert!(together, "some went together");
}

#[test]
fn what_is_traced_is_changed_for_one_model_or_for_all() {
    let file: PathBuf = folder().join("traces.json");
    let running = traced(file.to_str().unwrap(), 1);
    let set = |path: &str, body: &str| running.post(path, body);
    let answer = set(
        "/v2/models/b/trace/setting",
        r#"{"trace_level": ["OFF"], "trace_rate": "7"}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["trace_level"], json!(["OFF"]));
    let all = running.get("/v2/trace/setting").json();
    assert_eq!(
        (&all["trace_level"], &all["trace_rate"]),
        (&json!(["TIMESTAMPS"]), &json!("1"))
    );
    assert_eq!(set("/v2/models/none/trace/setting", "{}").status, 404);
    let wrong = set("/v2/trace/setting", r#"{"trace_file": "/etc/passwd"}"#);
    assert!(wrong.text().contains("--traces"), "{}", wrong.text());
    assert_eq!(wrong.status, 400);
    assert_eq!(running.infer("b", GOOD).status, 200);
    assert_eq!(running.infer("a", GOOD).status, 200);
    let cleared = set(
        "/v2/models/b/trace/setting",
        r#"{"trace_level": null, "trace_rate": null}"#,
    );
    assert_eq!(cleared.json()["trace_rate"], "1");
    assert_eq!(running.infer("b", GOOD).status, 200);
    let tracer = running.server.tracer().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(tracer.flush());
    let text = std::fs::read_to_string(&file).unwrap();
    let count = |name: &str| text.matches(&format!("\"infer {name}\"")).count();
    assert_eq!((count("a"), count("b")), (1, 1));
    let off = serving(Options::default(), true);
    assert_eq!(
        off.get("/v2/trace/setting").json()["trace_level"],
        json!(["OFF"])
    );
    let refused = off.post("/v2/trace/setting", r#"{"trace_level": ["TIMESTAMPS"]}"#);
    assert!(refused.text().contains("--traces"), "{}", refused.text());
}

/// An object of shared memory that goes with this.
#[cfg(target_os = "linux")]
struct Object(String);

#[cfg(target_os = "linux")]
impl Object {
    fn new(name: &str, bytes: &[u8]) -> Object {
        let object = Object(format!("streampool-test-{}-{name}", std::process::id()));
        std::fs::write(object.path(), bytes).unwrap();
        object
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/dev/shm").join(&self.0)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Object {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn tensors_go_through_shared_memory_and_what_clients_do_to_it_is_an_error() {
    let object = Object::new("tensors", &[9; 4096]);
    let options = Options {
        shared_memory: Some("streampool-test-".to_owned()),
        ..Options::default()
    };
    let running = serving(options, false);
    let register = |name: &str, offset: usize, size: usize| {
        let path = format!("/v2/systemsharedmemory/region/{name}/register");
        let body = json!({"key": format!("/{}", object.0), "offset": offset, "byte_size": size});
        running.post(&path, &body.to_string()).status
    };
    assert_eq!(register("in", 0, 1024), 200);
    assert_eq!(register("out", 1024, 64), 200);
    assert_eq!(register("out", 1024, 64), 400, "it is there already");
    assert_eq!(register("long", 1024, 4096), 400);
    let told = running.get("/v2/systemsharedmemory/status").json();
    assert_eq!(told.as_array().unwrap().len(), 2);
    assert_eq!(told[1]["offset"], 1024);
    let ask = |input: Value, output: Value| {
        let body = json!({
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": input}],
            "outputs": [{"name": "y", "parameters": output}],
        });
        running.infer("a", &body.to_string())
    };
    let part = |region: &str, offset: u64, size: u64| json!({"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size});
    let floats = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
    let mut bytes = std::fs::read(object.path()).unwrap();
    bytes[8..24].copy_from_slice(&floats([1.0, 2.0, 3.0, 4.0]));
    std::fs::write(object.path(), &bytes).unwrap();
    let answer = ask(part("in", 8, 16), part("out", 4, 16));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let output = &answer.json()["outputs"][0];
    assert_eq!(output["shape"], json!([1, 4]));
    assert!(output.get("parameters").is_none());
    assert!(output.get("data").is_none());
    let now = std::fs::read(object.path()).unwrap();
    assert_eq!(now[1028..1044], floats([2.0, 3.0, 4.0, 5.0]));
    assert_eq!(
        (&now[..1028], &now[1044..]),
        (&bytes[..1028], &bytes[1044..])
    );
    // From memory to JSON.
    let answer = ask(part("in", 8, 16), json!({}));
    assert_eq!(
        answer.json()["outputs"][0]["data"],
        json!([2.0, 3.0, 4.0, 5.0])
    );
    for (input, output) in [
        (part("in", 8, 15), json!({})),
        (part("in", 1010, 16), json!({})),
        (part("in", u64::MAX, 16), json!({})),
        (part("in", 0, u64::MAX), json!({})),
        (json!({"shared_memory_region": "in"}), json!({})),
        (
            json!({"shared_memory_region": 7, "shared_memory_byte_size": 16}),
            json!({}),
        ),
        (part("in", 8, 16), part("out", 0, 15)),
        (part("in", 8, 16), part("out", 60, 16)),
    ] {
        let answer = ask(input.clone(), output.clone());
        assert_eq!(answer.status, 400, "{input} {output} {}", answer.text());
    }
    for (input, output) in [
        (part("none", 0, 16), json!({})),
        (part("in", 8, 16), part("none", 0, 16)),
    ] {
        assert_eq!(ask(input, output).status, 404);
    }
    // The client makes its object shorter: a mapping would be a signal that ends the process.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(object.path())
        .unwrap();
    file.set_len(10).unwrap();
    for (input, output) in [
        (part("in", 8, 16), json!({})),
        (part("in", 0, 16), part("out", 0, 16)),
    ] {
        let answer = ask(input, output);
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("shorter"), "{}", answer.text());
    }
    let gone = running.post("/v2/systemsharedmemory/unregister", "");
    assert_eq!(gone.status, 200);
    assert_eq!(
        running.get("/v2/systemsharedmemory/status").json(),
        json!([])
    );
    assert_eq!(
        running
            .get("/v2/systemsharedmemory/region/in/status")
            .status,
        404
    );
    assert_eq!(running.infer("a", GOOD).status, 200, "the server lives");
    let off = serving(Options::default(), false);
    let body = json!({"key": object.0, "byte_size": 1}).to_string();
    let refused = off.post("/v2/systemsharedmemory/region/r/register", &body);
    assert!(
        refused.text().contains("--shared-memory"),
        "{}",
        refused.text()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_in_shared_memory_count_as_the_body_does() {
    let object = Object::new("large", &vec![1; 2 << 20]);
    let folder = folder();
    write(&folder, "bytes.onnx", identity(DType::U8, "4"));
    let limits = Limits {
        max_body: 1 << 20,
        ..Limits::default()
    };
    let options = Options {
        shared_memory: Some(String::new()),
        ..Options::default()
    };
    let pool = streampool::host_pool().unwrap();
    let running = Running::on(pool, &folder, limits, Defaults::default(), options);
    let body = json!({"key": object.0, "byte_size": 2 << 20}).to_string();
    let path = "/v2/systemsharedmemory/region/r/register";
    assert_eq!(running.post(path, &body).status, 200);
    for (rows, status) in [(1000, 200), (1 << 19, 413)] {
        let parameters = json!({"shared_memory_region": "r", "shared_memory_byte_size": rows * 4});
        let input =
            json!({"name": "x", "datatype": "UINT8", "shape": [rows, 4], "parameters": parameters});
        let answer = running.infer("bytes", &json!({"inputs": [input]}).to_string());
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}
