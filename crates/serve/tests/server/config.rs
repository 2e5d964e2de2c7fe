//! What the `config.pbtxt` of a model says of its file, its first runs and its priorities.

use super::common::{Response, Running, folder, plus, slow, write};
use super::http::ROW;
use serde_json::json;
use streampool::model::onnx::writer::Graph;
use streampool::{Array, DType};
use streampool_serve::{Defaults, Limits};

#[test]
fn a_model_is_run_before_it_serves_as_its_config_asks() {
    let folder = folder();
    let table = Array::new(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
    let graph = Graph::new()
        .input("x", DType::I64, "batch 2")
        .constant("table", &table)
        .node("Gather table x = y", &[])
        .output("y", DType::F32, "batch 2");
    write(&folder, "a/1/model.onnx", graph);
    let config = |inputs: &str| {
        let text = format!(
            "max_batch_size: 4 dynamic_batching {{ priority_levels: 3 default_priority_level: 3
                default_queue_policy {{ default_timeout_microseconds: 1 allow_timeout_override: true }} }}
             model_warmup [ {{ name: \"zeros\" batch_size: 4 count: 2 inputs {{ key: \"x\"
                value: {{ data_type: TYPE_INT64 dims: [ 2 ] zero_data: true }} }} }},
             {{ name: \"file\" batch_size: 1 inputs {{ {inputs} }} }} ]"
        );
        std::fs::write(folder.join("a/config.pbtxt"), text).unwrap();
    };
    let x = |more: &str| format!("key: \"x\" value: {{ data_type: TYPE_INT64 {more} }}");
    std::fs::create_dir(folder.join("a/warmup")).unwrap();
    let file = |values: [i64; 2]| {
        let bytes = values.map(i64::to_le_bytes).concat();
        std::fs::write(folder.join("a/warmup/ids"), bytes).unwrap();
    };
    config(&x("dims: 2 input_data_file: \"ids\""));
    file([2, 1]);
    let limits = Limits {
        control: true,
        ..Limits::default()
    };
    let running = Running::of(&folder, limits, Defaults::default());
    // A request may not take longer than the config says, whatever it says itself.
    let late = r#"{"parameters": {"timeout": 10000000},
        "inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [0, 1]}]}"#;
    assert_eq!(running.infer("a", late).status, 504);
    let stats = running.get("/v2/models/a/stats").json();
    assert_eq!(stats["model_stats"][0]["execution_count"], 0);
    let load = || running.post("/v2/repository/models/a/load", "{}");
    // The folder is that of the model, wherever its file is.
    std::fs::create_dir(folder.join("a/1/sub")).unwrap();
    std::fs::rename(folder.join("a/1/model.onnx"), folder.join("a/1/sub/m.onnx")).unwrap();
    let good = x("dims: 2 input_data_file: \"ids\"");
    config(&format!(
        "{good} }} }} ] default_model_filename: \"sub/m.onnx\" model_warmup [ {{ inputs {{ {good}"
    ));
    assert_eq!(load().text(), "");
    std::fs::rename(folder.join("a/1/sub/m.onnx"), folder.join("a/1/model.onnx")).unwrap();
    // What cannot be run does not serve, and the error says which it was. A file elsewhere is not read, also by a link.
    std::fs::create_dir(folder.join("a/warmup/folder")).unwrap();
    std::os::unix::fs::symlink("ids", folder.join("a/warmup/link")).unwrap();
    file([2, 3]);
    for (inputs, why) in [
        (x("dims: 2 input_data_file: \"ids\""), "\"file\""),
        (x("dims: 3 zero_data: true"), "\"file\""),
        (x("dims: 2 input_data_file: \"none\""), "none"),
        (
            x("dims: 3 input_data_file: \"ids\""),
            "input \"x\": the file \"ids\" has 16 bytes, expected 24",
        ),
        (
            x("dims: 1 input_data_file: \"ids\""),
            "has 16 bytes, expected 8",
        ),
        (x("dims: 2 input_data_file: \"folder\""), "not a plain file"),
        (x("dims: 2 input_data_file: \"link\""), "not a plain file"),
        (
            x("dims: 2 input_data_file: \"../x\""),
            "not the name of a file",
        ),
        (
            x("dims: 2 input_data_file: \"/x\""),
            "not the name of a file",
        ),
        (
            x("dims: 2 input_data_file: \"..\""),
            "not the name of a file",
        ),
        (
            x("dims: 2 input_data_file: \"ids\" zero_data: true"),
            "only one of zero_data",
        ),
        (
            x(&"dims: 1000000000000 ".repeat(2)),
            "[1, 1000000000000, 1000000000000] is too large",
        ),
        (x("dims: 2 zero_data: maybe"), "zero_data is not supported"),
        (
            x("").replace("INT64", "FP32"),
            "no input \"x\" of the type \"FP32\"",
        ),
        (x("").replace("key: \"x\"", "key: \"z\""), "no input \"z\""),
        (
            format!(
                "{0} }} }}, {{ name: \"none\" }}, {{ inputs {{ {0}",
                x("dims: 2 zero_data: true")
            ),
            "\"none\": the entry lacks the model's input \"x\"",
        ),
        (
            format!("{0} }} count: 18446744073709551615 inputs {{ {0}", x("")),
            "count is 18446744073709551615, expected at most 1000",
        ),
        (
            format!("{0} }} batch_size: 5 inputs {{ {0}", x("dims: 2")),
            "batch_size is 5, expected at most 4",
        ),
    ] {
        config(&inputs);
        let answer = load();
        assert_eq!(answer.status, 400, "{inputs}");
        assert!(
            answer.text().replace("\\\"", "\"").contains(why),
            "{}",
            answer.text()
        );
    }
    std::fs::write(
        folder.join("a/config.pbtxt"),
        "dynamic_batching { default_priority_level: 3 priority_levels: 2 }",
    )
    .unwrap();
    assert!(load().text().contains("default_priority_level is 3"));
}

#[test]
fn the_file_of_a_model_is_in_its_folder() {
    let value = |answer: Response| answer.json()["outputs"][0]["data"][0].as_f64().unwrap();
    let folder = folder();
    write(&folder, "other/1/m.onnx", plus(7.0));
    write(&folder, "other/1/model.onnx", plus(5.0));
    write(&folder, "a/1/model.onnx", plus(1.0));
    let config = |name: &str| {
        let text = format!("default_model_filename: \"{name}\"");
        std::fs::write(folder.join("a/config.pbtxt"), text).unwrap();
    };
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(folder.join(to), folder.join(at)).unwrap();
    };
    link("other/1", "a/1/out");
    link("other/1/m.onnx", "a/1/linked.onnx");
    link("a/1/model.onnx", "a/1/inner.onnx");
    std::fs::create_dir(folder.join("a/1/sub")).unwrap();
    link("a", "a/1/sub/back");
    link("other/1", "a/2");
    let limits = Limits {
        control: true,
        ..Limits::default()
    };
    config("");
    let running = Running::of(&folder, limits, Defaults::default());
    let load = || running.post("/v2/repository/models/a/load", "");
    let absolute = folder.join("other/1/m.onnx");
    for name in [
        "../../other/1/m.onnx",
        "../1/../../other/1/m.onnx",
        absolute.to_str().unwrap(),
        "out/m.onnx",
    ] {
        config(name);
        let answer = load();
        assert!(
            answer.status == 400 && answer.text().contains("leads out of"),
            "{name}: {}",
            answer.text()
        );
        assert!(answer.text().contains("default_model_filename"));
        assert_eq!(value(running.infer("a", ROW)), 6.0);
    }
    // A file may be a link, as in the caches of model hubs, and so may the folder of a version.
    for (name, expected) in [
        ("inner.onnx", 2.0),
        ("sub/back/1/model.onnx", 2.0),
        ("linked.onnx", 8.0),
        ("m.onnx", 8.0),
    ] {
        config(name);
        assert_eq!(load().text(), "", "{name}");
        assert_eq!(value(running.infer("a", ROW)), expected);
    }
}

#[test]
fn each_priority_may_have_its_own_timeout() {
    let folder = folder();
    write(&folder, "a/1/model.onnx", plus(1.0));
    let config = |more: &str| {
        let text = format!(
            "dynamic_batching {{ preserve_ordering: true priority_levels: 4 default_priority_level: 2
                default_queue_policy {{ default_timeout_microseconds: 1 }}
                priority_queue_policy [
                  {{ key: 1 value: {{ timeout_action: REJECT allow_timeout_override: true }} }},
                  {{ key: 3 value: {{ default_timeout_microseconds: 60000000 }} }},
                  {{ key: 4 value: {{ timeout_action: DELAY default_timeout_microseconds: 1 }} }} ] {more} }}"
        );
        std::fs::write(folder.join("a/config.pbtxt"), text).unwrap();
    };
    config("");
    let limits = Limits {
        control: true,
        ..Limits::default()
    };
    let running = Running::of(&folder, limits, Defaults::default());
    let status = |parameters: &str| {
        let body = format!("{{\"parameters\": {{{parameters}}}, {}", &ROW[1..]);
        running.infer("a", &body).status
    };
    for (parameters, expected) in [
        ("", 504),
        ("\"priority\": 2", 504),
        ("\"priority\": 1", 200),
        ("\"priority\": 3", 200),
        ("\"priority\": 3, \"timeout\": 1", 504),
        ("\"priority\": 4", 200),
        ("\"priority\": 4, \"timeout\": 1", 200),
        ("\"priority\": 5", 400),
    ] {
        assert_eq!(status(parameters), expected, "{parameters}");
    }
    config("priority_queue_policy { key: 5 value { } }");
    let answer = running.post("/v2/repository/models/a/load", "");
    assert!(answer.text().contains("priority_queue_policy is for 5"));
}

#[test]
fn each_priority_may_have_its_own_room() {
    let folder = folder();
    write(&folder, "slow/1/model.onnx", slow());
    let config =
        "max_batch_size: 32 dynamic_batching { priority_levels: 3 default_priority_level: 2
        priority_queue_policy { key: 3 value: { max_queue_size: 1 } } }";
    std::fs::write(folder.join("slow/config.pbtxt"), config).unwrap();
    let defaults = Defaults {
        max_in_flight: Some(1),
        ..Defaults::default()
    };
    let running = Running::of(&folder, Limits::default(), defaults);
    let inputs =
        json!([{"name": "x", "datatype": "FP32", "shape": [32, 512], "data": vec![1.0; 32 * 512]}]);
    let send = |priority: u32| {
        let body = json!({"parameters": {"priority": priority}, "inputs": &inputs});
        running.infer("slow", &body.to_string()).status
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let clients = (0..16).map(|client| scope.spawn(move || (client % 2, send(2 + client % 2))));
        let clients: Vec<_> = clients.collect();
        let answers = clients.into_iter().map(|client| client.join().unwrap());
        answers.collect()
    });
    let refused = answers.iter().filter(|&&answer| answer == (1, 503)).count();
    assert!(refused > 0, "{answers:?}");
    let others = answers.iter().filter(|&&answer| answer != (1, 503));
    assert!(
        others.clone().all(|&(_, status)| status == 200),
        "{answers:?}"
    );
    let metrics = running.get("/metrics").text();
    for (name, reason) in [
        ("streampool_rejects", "queue_priority"),
        ("nv_inference_request_failure", "REJECTED"),
    ] {
        let line = format!("{name}{{model=\"slow\",version=\"1\",reason=\"{reason}\"}} {refused}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
