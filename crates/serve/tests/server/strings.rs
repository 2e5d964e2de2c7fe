//! Tensors of strings: `BYTES`.

use serde_json::json;
use streampool::Array;
use streampool::model::onnx::writer::Graph;

use super::common::{Running, folder, write};

/// y = x and an exclamation mark, in rows of two.
fn loud() -> Graph {
    let end = Array::from_strings(&["!"], &[1]).unwrap();
    Graph::new()
        .strings("x", "batch 2")
        .constant("end", &end)
        .node("StringConcat x end = y", &[])
        .string_output("y", "batch 2")
}

#[test]
fn strings_come_and_go_as_json_and_as_bytes() {
    let folder = folder();
    write(&folder, "loud.onnx", loud());
    std::fs::create_dir_all(folder.join("alone/1")).unwrap();
    write(&folder, "alone/1/model.onnx", loud());
    std::fs::write(folder.join("alone/config.pbtxt"), "max_batch_size: 0").unwrap();
    let running = Running::with(&folder);
    let metadata = running.get("/v2/models/loud").json();
    assert_eq!(metadata["inputs"][0]["datatype"], "BYTES");
    let config = running.get("/v2/models/loud/config").json();
    assert_eq!(config["input"][0]["data_type"], "TYPE_STRING");
    for model in ["loud", "alone"] {
        let body = r#"{"inputs": [{"name": "x", "datatype": "BYTES", "shape": [2, 2], "data": [["a", "b\n"], ["", "ü"]]}]}"#;
        let answer = running.infer(model, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let expected = json!({"name": "y", "datatype": "BYTES", "shape": [2, 2], "data": ["a!", "b\n!", "!", "ü!"]});
        assert_eq!(answer.json()["outputs"][0], expected);
        let strings = |all: &[&str]| -> Vec<u8> {
            let each = all.iter().flat_map(|string| {
                let length = u32::try_from(string.len()).unwrap().to_le_bytes();
                [&length[..], string.as_bytes()].concat()
            });
            each.collect()
        };
        let given = strings(&["long ago", "x"]);
        let head = json!({
            "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": given.len()}}],
            "outputs": [{"name": "y", "parameters": {"binary_data": true}}],
        })
        .to_string();
        let length = head.len().to_string();
        let headers = [("inference-header-content-length", &length[..])];
        let path = format!("/v2/models/{model}/infer");
        let answer = running.send("POST", &path, &headers, &[head.as_bytes(), &given].concat());
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body.ends_with(&strings(&["long ago!", "x!"])));
    }
}

#[test]
fn what_is_wrong_with_strings_is_the_fault_of_their_client() {
    let folder = folder();
    write(&folder, "loud.onnx", loud());
    let running = Running::with(&folder);
    for (datatype, data, outputs) in [
        ("BYTES", json!(["a"]), json!([])),
        ("BYTES", json!(["a", 2]), json!([])),
        ("BYTES", json!(["a", "b", "c"]), json!([])),
        ("INT64", json!([1, 2]), json!([])),
        (
            "BYTES",
            json!(["a", "b"]),
            json!([{"name": "y", "parameters": {"classification": 1}}]),
        ),
    ] {
        let input = json!({"name": "x", "datatype": datatype, "shape": [1, 2], "data": data});
        let answer = running.infer(
            "loud",
            &json!({"inputs": [input], "outputs": outputs}).to_string(),
        );
        assert_eq!(answer.status, 400, "{datatype} {data} {}", answer.text());
    }
    let raw = [("inference-header-content-length", "0")];
    let answer = running.send("POST", "/v2/models/loud/infer", &raw, b"\x01\0\0\0a");
    assert_eq!(answer.status, 400);
}
