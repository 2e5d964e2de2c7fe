//! The protocol over HTTP, as a client sees it.

use std::io::Write;
use std::time::{Duration, Instant};

use super::common::{Running, folder, identity, plus, request, response, slow, write};
use serde_json::json;
use streampool::model::onnx::writer::Graph;
use streampool::{Array, DType};
use streampool_serve::{Defaults, Limits};

pub const ROW: &str = r#"{"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;

#[test]
fn health_and_metadata_are_as_the_protocol_says() {
    let folder = folder();
    write(&folder, "a/1/model.onnx", plus(1.0));
    write(&folder, "a/3/model.onnx", plus(3.0));
    write(&folder, "b.onnx", plus(2.0));
    std::fs::write(folder.join("a/config.pbtxt"), "version_policy { all {} }").unwrap();
    let running = Running::with(&folder);
    for path in [
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/a/ready",
        "/v2/models/a/versions/1/ready",
    ] {
        assert_eq!(running.get(path).status, 200, "{path}");
    }
    let about = running.get("/v2").json();
    assert!(
        about["extensions"]
            .as_array()
            .unwrap()
            .contains(&json!("binary_tensor_data"))
    );
    let port = |name| json!([{"name": name, "datatype": "FP32", "shape": [-1, 4]}]);
    let metadata = running.get("/v2/models/a").json();
    assert_eq!(metadata["versions"], json!(["1", "3"]));
    assert_eq!(
        (&metadata["inputs"], &metadata["outputs"]),
        (&port("x"), &port("y"))
    );
    let config = running.get("/v2/models/b/config").json();
    assert_eq!(config["max_batch_size"], 32);
    assert_eq!(
        config["input"],
        json!([{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}])
    );
    let answer = running.post("/v2/models/a/versions/1/infer", ROW).json();
    assert_eq!(answer["outputs"][0]["data"], json!([2.0, 3.0, 4.0, 5.0]));
    assert_eq!(
        (&answer["id"], &answer["model_version"]),
        (&json!("7"), &json!("1"))
    );
    let answer = running.infer("a", ROW).json();
    assert_eq!(answer["outputs"][0]["data"], json!([4.0, 5.0, 6.0, 7.0]));
    running.server.set_ready(false);
    assert_eq!(running.get("/v2/health/ready").status, 503);
    assert_eq!(running.get("/v2/health/live").status, 200);
}

#[test]
fn every_type_comes_back_as_it_went() {
    let folder = folder();
    for dtype in DType::ALL {
        write(&folder, &format!("{dtype}.onnx"), identity(dtype, "3"));
    }
    let running = Running::with(&folder);
    for dtype in DType::ALL {
        let metadata = running.get(&format!("/v2/models/{dtype}")).json();
        let datatype = metadata["inputs"][0]["datatype"]
            .as_str()
            .unwrap()
            .to_owned();
        let bytes: Vec<u8> = (0..6 * dtype.size())
            .map(|at| {
                if dtype == DType::Bool {
                    at as u8 % 2
                } else {
                    40 + at as u8
                }
            })
            .collect();
        let header = json!({
            "inputs": [{"name": "x", "datatype": datatype, "shape": [2, 3], "parameters": {"binary_data_size": bytes.len()}}],
            "outputs": [{"name": "y", "parameters": {"binary_data": true}}],
        });
        let header = header.to_string();
        let length = header.len().to_string();
        let body = [header.as_bytes(), &bytes].concat();
        let path = format!("/v2/models/{dtype}/infer");
        let answer = running.send(
            "POST",
            &path,
            &[("inference-header-content-length", &length)],
            &body,
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
        let length: usize = answer
            .header("inference-header-content-length")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(answer.body[length..], bytes, "{dtype}");
        if matches!(dtype, DType::F16 | DType::BF16) {
            continue;
        }
        let data = if dtype == DType::Bool {
            json!([[true, false, true]])
        } else {
            json!([[1, 0, 3]])
        };
        let body =
            json!({"inputs": [{"name": "x", "datatype": datatype, "shape": [1, 3], "data": data}]});
        let answer = running.infer(&dtype.to_string(), &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let back = answer.json()["outputs"][0]["data"].clone();
        let same = back
            .as_array()
            .unwrap()
            .iter()
            .zip(data[0].as_array().unwrap());
        assert!(
            same.into_iter()
                .all(|(a, b)| a == b || a.as_f64() == b.as_f64()),
            "{back} for {dtype}"
        );
    }
}

#[test]
fn a_raw_request_is_one_tensor() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let running = Running::with(&folder);
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let zero = [("inference-header-content-length", "0")];
    let answer = running.send("POST", "/v2/models/a/infer", &zero, &bytes);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.body.ends_with(&5.0f32.to_le_bytes()));
    assert_eq!(
        running
            .send("POST", "/v2/models/a/infer", &zero, &bytes[1..])
            .status,
        400
    );
}

#[test]
fn a_fault_of_the_client_is_never_a_500() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    write(&folder, "half.onnx", identity(DType::F16, "4"));
    let running = Running::with(&folder);
    let tensor = |change: &str, to: &str| ROW.replace(change, to);
    let many = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [0, 4], "data": []}]})
        .to_string();
    for (status, body, why) in [
        (400, tensor("FP32", "FP64"), "data-type is 'FP64'"),
        (400, tensor("FP32", "FP8"), "data-type is 'FP8'"),
        (
            400,
            tensor("\"x\"", "\"z\""),
            "unexpected inference input 'z'",
        ),
        (400, tensor("[1, 4]", "[1, 5]"), "unexpected shape"),
        (400, tensor("[1, 4]", "[4]"), "unexpected shape"),
        (400, tensor("[1, 4]", "[-1, 4]"), "unexpected shape"),
        (
            400,
            tensor("[1, 4]", "[4611686018427387904, 4]"),
            "too large",
        ),
        (400, tensor("[1, 4]", "[288230376151711744, 4]"), "elements"),
        (400, tensor("3, 4]}", "3]}"), "3 elements, expected 4"),
        (400, tensor("3, 4]}", "3, 4, 5]}"), "more elements"),
        (400, tensor("3, 4]}", "3, null]}"), "number"),
        (
            400,
            tensor("\"data\": [1, 2, 3, 4]", "\"parameters\": {}"),
            "has no data",
        ),
        (
            400,
            tensor(
                "\"data\": [1, 2, 3, 4]",
                "\"parameters\": {\"binary_data_size\": 16}",
            ),
            "binary_data_size",
        ),
        (
            400,
            tensor("{\"id\"", "{\"outputs\": [{\"name\": \"z\"}], \"id\""),
            "unexpected inference output",
        ),
        (
            400,
            tensor("{\"id\"", "{\"parameters\": {\"timeout\": -1}, \"id\""),
            "timeout",
        ),
        (
            400,
            tensor("{\"id\"", "{\"parameters\": {\"sequence_id\": 3}, \"id\""),
            "sequences",
        ),
        (400, tensor("\"inputs\"", "\"input\""), "inputs"),
        (400, ROW[..60].to_owned(), "JSON"),
        (400, String::new(), "JSON"),
        (400, r#"{"inputs": []}"#.to_owned(), "Missing"),
        (400, many, "at least one row"),
    ] {
        let answer = running.infer("a", &body);
        assert_eq!(answer.status, status, "{} for {body}", answer.text());
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(why), "{error} for {body}");
    }
    let answer = running.infer("half", &ROW.replace("FP32", "FP16"));
    assert!(
        answer.status == 400 && answer.text().contains("no form in JSON"),
        "{}",
        answer.text()
    );
    for path in [
        "/v2/models/none",
        "/v2/models/a/versions/2",
        "/v2/models/a/versions/x",
        "/v2/none",
    ] {
        assert_eq!(running.get(path).status, 404, "{path}");
    }
    assert_eq!(running.infer("none", ROW).status, 404);
    assert_eq!(
        running.get("/v2/models/none/ready").status,
        400,
        "as Triton does"
    );
    assert_eq!(running.get("/v2/models/a/infer").status, 405);
    let long = [("inference-header-content-length", "99999")];
    assert_eq!(
        running
            .send("POST", "/v2/models/a/infer", &long, ROW.as_bytes())
            .status,
        400
    );
    assert_eq!(
        running.post("/v2/repository/models/a/unload", "").status,
        400,
        "needs `control`"
    );
    assert_eq!(running.infer("a", ROW).status, 200, "it still serves");
}

#[test]
fn a_model_whose_first_axis_is_no_batch_is_served_as_it_is() {
    let folder = folder();
    let graph = Graph::new()
        .input("x", DType::F32, "2 3")
        .node("Transpose x = y", &[])
        .output("y", DType::F32, "3 2");
    write(&folder, "t.onnx", graph);
    write(&folder, "c/1/model.onnx", plus(1.0));
    std::fs::write(folder.join("c/config.pbtxt"), "max_batch_size: 2").unwrap();
    let running = Running::with(&folder);
    let body = r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]}"#;
    let answer = running.infer("t", body).json();
    assert_eq!(answer["outputs"][0]["shape"], json!([3, 2]));
    assert_eq!(
        answer["outputs"][0]["data"],
        json!([1.0, 4.0, 2.0, 5.0, 3.0, 6.0])
    );
    assert_eq!(
        running.get("/v2/models/t/config").json()["max_batch_size"],
        0
    );
    let three = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 4], "data": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}]});
    let answer = running.infer("c", &three.to_string());
    assert!(
        answer.status == 400 && answer.text().contains("batch-size must be <= 2"),
        "{}",
        answer.text()
    );
}

#[test]
fn an_index_that_is_not_there_is_the_fault_of_its_client_alone() {
    let folder = folder();
    let table = Array::new(&[10.0f32, 20.0, 30.0], &[3]).unwrap();
    let graph = Graph::new()
        .input("x", DType::I64, "batch 1")
        .constant("t", &table)
        .node("Gather t x = y", &[])
        .output("y", DType::F32, "batch 1");
    write(&folder, "table.onnx", graph);
    let running = Running::with(&folder);
    let body = |index: i64| {
        let tensor = json!({"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [index]});
        json!({"inputs": [tensor]}).to_string()
    };
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (running, body) = (&running, &body);
            scope.spawn(move || {
                for _ in 0..20 {
                    let index = if client == 0 { 7 } else { 2 };
                    let answer = running.infer("table", &body(index));
                    let expected = if client == 0 { 400 } else { 200 };
                    assert_eq!(answer.status, expected, "{}", answer.text());
                }
            });
        }
    });
}

#[test]
fn the_highest_classes_come_with_their_index() {
    let folder = folder();
    write(&folder, "a.onnx", identity(DType::F32, "4"));
    let running = Running::with(&folder);
    let body = r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [0.5, 2, 1, 0, 9, 8, 7, 6]}],
        "outputs": [{"name": "y", "parameters": {"classification": 2}}]}"#;
    let answer = running.infer("a", body).json();
    let expected = json!({"name": "y", "datatype": "BYTES", "shape": [2, 2], "data": ["2.000000:1", "1.000000:2", "9.000000:0", "8.000000:1"]});
    assert_eq!(answer["outputs"][0], expected);
}

#[test]
fn bodies_are_compressed_both_ways_within_the_limit() {
    use flate2::Compression;
    use flate2::read::{GzDecoder, GzEncoder, ZlibDecoder, ZlibEncoder};
    use std::io::{Read, Write};
    let all = |mut reader: Box<dyn Read + '_>| {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let folder = folder();
    write(&folder, "a.onnx", identity(DType::F32, "4"));
    let limits = Limits {
        max_body: 100_000,
        ..Limits::default()
    };
    let running = Running::of(&folder, limits, Defaults::default());
    let body = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [500, 4], "data": vec![1.0; 2000]}]}).to_string();
    let path = "/v2/models/a/infer";
    let gzip = all(Box::new(GzEncoder::new(
        body.as_bytes(),
        Compression::fast(),
    )));
    let deflate = all(Box::new(ZlibEncoder::new(
        body.as_bytes(),
        Compression::fast(),
    )));
    let packed = zstd::bulk::compress(body.as_bytes(), 1).unwrap();
    for (name, packed) in [("gzip", &gzip), ("deflate", &deflate), ("zstd", &packed)] {
        let answer = running.send(
            "POST",
            path,
            &[("content-encoding", name), ("accept-encoding", name)],
            packed,
        );
        assert_eq!(
            (answer.status, answer.header("content-encoding")),
            (200, Some(name))
        );
        let plain = match name {
            "gzip" => all(Box::new(GzDecoder::new(&answer.body[..]))),
            "zstd" => zstd::bulk::decompress(&answer.body, 1 << 20).unwrap(),
            _ => all(Box::new(ZlibDecoder::new(&answer.body[..]))),
        };
        let answer: serde_json::Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(answer["outputs"][0]["shape"], json!([500, 4]));
    }
    // What would be a gigabyte is not unpacked.
    let bomb = all(Box::new(GzEncoder::new(
        std::io::repeat(b' ').take(64 << 20),
        Compression::best(),
    )));
    assert!(bomb.len() < 100_000);
    let answer = running.send("POST", path, &[("content-encoding", "gzip")], &bomb);
    assert_eq!(answer.status, 413, "{}", answer.text());
    // The same by zstd, with the size in its header, and without; and a frame that asks for a window of 128 MiB.
    let spaces = vec![b' '; 64 << 20];
    let sized = zstd::bulk::compress(&spaces, 3).unwrap();
    let mut writer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    writer.write_all(&spaces).unwrap();
    let streamed = writer.finish().unwrap();
    let mut writer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    writer.window_log(27).unwrap();
    writer.write_all(body.as_bytes()).unwrap();
    let wide = writer.finish().unwrap();
    for (packed, status) in [(&sized, 413), (&streamed, 413), (&wide, 400), (&gzip, 400)] {
        assert!(packed.len() < 100_000);
        let answer = running.send("POST", path, &[("content-encoding", "zstd")], packed);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(
        running
            .send(
                "POST",
                path,
                &[("content-encoding", "gzip")],
                body.as_bytes()
            )
            .status,
        400
    );
    assert_eq!(
        running
            .send("POST", path, &[("content-encoding", "br")], body.as_bytes())
            .status,
        400
    );
    assert_eq!(
        running.send("POST", path, &[], &vec![b' '; 100_001]).status,
        413
    );
}

#[test]
fn a_full_queue_says_when_to_try_again_and_counts_it() {
    let folder = folder();
    write(&folder, "slow.onnx", slow());
    let limits = Limits {
        max_requests: 3,
        ..Limits::default()
    };
    let defaults = Defaults {
        max_in_flight: Some(1),
        ..Defaults::default()
    };
    let running = Running::of(&folder, limits, defaults);
    let body = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [32, 512], "data": vec![1.0; 32 * 512]}]}).to_string();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| running.infer("slow", &body)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let full = answers.iter().filter(|answer| answer.status == 503);
    let full: Vec<_> = full.collect();
    assert!(!full.is_empty(), "{answers:?}");
    for answer in &full {
        assert!(
            answer
                .header("retry-after")
                .unwrap()
                .parse::<u64>()
                .unwrap()
                >= 1
        );
    }
    assert!(
        answers
            .iter()
            .all(|answer| [200, 503].contains(&answer.status))
    );
    let metrics = running.get("/metrics").text();
    let counted = format!(
        "nv_inference_request_failure{{model=\"slow\",version=\"1\",reason=\"REJECTED\"}} {}",
        full.len()
    );
    assert!(metrics.contains(&counted), "{metrics}");
    let done = format!(
        "nv_inference_request_success{{model=\"slow\",version=\"1\"}} {}",
        12 - full.len()
    );
    assert!(metrics.contains(&done), "{metrics}");
}

#[test]
fn who_goes_away_or_is_late_is_withdrawn() {
    let folder = folder();
    write(&folder, "slow.onnx", slow());
    let defaults = Defaults {
        max_in_flight: Some(1),
        ..Defaults::default()
    };
    let running = Running::of(&folder, Limits::default(), defaults);
    let data = vec![1.0; 32 * 512];
    let tensor = json!([{"name": "x", "datatype": "FP32", "shape": [32, 512], "data": data}]);
    let body = json!({"inputs": tensor}).to_string();
    let late = json!({"parameters": {"timeout": 1}, "inputs": tensor}).to_string();
    assert_eq!(running.infer("slow", &late).status, 504);
    // One runs, and the others wait behind it when they go.
    let send = request("POST", "/v2/models/slow/infer", &[], body.as_bytes());
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = running.connect();
            stream.write_all(&send).unwrap();
            stream
        })
        .collect();
    drop(clients);
    let count = |name: &str| {
        let metrics = running.get("/metrics").text();
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned);
        line.unwrap_or_default()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap_or(0)
    };
    let begun = Instant::now();
    let cancelled =
        "nv_inference_request_failure{model=\"slow\",version=\"1\",reason=\"CANCELED\"}";
    let ended = || count(cancelled) + count("nv_inference_request_success");
    while ended() < 20 && begun.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ended(), 20);
    assert!(count(cancelled) > 0);
    assert!(
        count("nv_inference_exec_count") < 20,
        "some of those that went were not run"
    );
    assert_eq!(count("nv_inference_pending_request_count"), 0);
    let defaults = Defaults {
        request_time: Some(Duration::from_micros(1)),
        ..Defaults::default()
    };
    let running = Running::of(&folder, Limits::default(), defaults);
    assert_eq!(running.infer("slow", &body).status, 504);
}

#[test]
fn a_reload_swaps_models_and_drops_no_request() {
    let folder = folder();
    write(&folder, "a/1/model.onnx", plus(1.0));
    let limits = Limits {
        control: true,
        ..Limits::default()
    };
    let running = Running::of(&folder, limits, Defaults::default());
    let over = std::sync::atomic::AtomicBool::new(false);
    let value = |answer: super::common::Response| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["outputs"][0]["data"][0].as_f64().unwrap()
    };
    std::thread::scope(|scope| {
        let client = || {
            let mut sent = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                value(running.infer("a", ROW));
                sent += 1;
            }
            sent
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
        for round in 2..12 {
            write(&folder, "a/1/model.onnx", plus(round as f32));
            assert_eq!(
                running.post("/v2/repository/models/a/load", "{}").status,
                200
            );
            assert_eq!(value(running.infer("a", ROW)), f64::from(round) + 1.0);
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        let sent: u64 = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum();
        let stats = running.get("/v2/models/a/stats").json();
        let success = &stats["model_stats"][0]["inference_stats"]["success"]["count"];
        assert_eq!(
            success,
            &json!(sent + 10),
            "no reload begins the counters anew"
        );
    });
    std::fs::write(folder.join("a/1/model.onnx"), b"garbage").unwrap();
    let answer = running.post("/v2/repository/models/a/load", "");
    assert!(answer.status == 400, "{}", answer.text());
    assert_eq!(
        value(running.infer("a", ROW)),
        12.0,
        "the old one keeps serving"
    );
    let index = running.post("/v2/repository/index", "{}").json();
    assert_eq!(
        (&index[0]["name"], &index[0]["state"]),
        (&json!("a"), &json!("READY"))
    );
    assert!(
        index[0]["reason"]
            .as_str()
            .unwrap()
            .contains("failed to load"),
        "{index}"
    );
    assert_eq!(
        running.post("/v2/repository/models/a/unload", "").status,
        200
    );
    assert_eq!(running.infer("a", ROW).status, 404);
    assert_eq!(
        running.post("/v2/repository/models/../load", "").status,
        404
    );
}

#[test]
fn what_is_in_progress_at_the_end_is_answered() {
    let folder = folder();
    write(&folder, "slow.onnx", slow());
    let running = Running::with(&folder);
    let body = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [8, 512], "data": vec![1.0; 8 * 512]}]}).to_string();
    let mut streams: Vec<_> = (0..8).map(|_| running.connect()).collect();
    for stream in &mut streams {
        stream
            .write_all(&request(
                "POST",
                "/v2/models/slow/infer",
                &[],
                body.as_bytes(),
            ))
            .unwrap();
    }
    let begun = Instant::now();
    // All have come by then: some may have been answered already.
    let come = || {
        let metrics = running.get("/metrics").text();
        let count = |name: &str| -> u64 {
            let name = format!("nv_inference_{name}{{model=\"slow\",version=\"1\"}} ");
            let number = metrics
                .lines()
                .find_map(|line| line.strip_prefix(&name[..]));
            number.map_or(0, |number| number.parse().unwrap())
        };
        count("pending_request_count") + count("request_success")
    };
    while come() < 8 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    for stream in &mut streams {
        assert_eq!(response(stream).expect("an answer").status, 200);
    }
    assert!(running.ended());
}
