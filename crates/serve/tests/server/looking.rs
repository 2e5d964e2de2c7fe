//! What operators see: the page, its events, the description of the interface; and models that change in their folder.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};

use serde_json::Value;
use streampool_serve::watch::Folder;

use super::common::{Running, folder, plus, request, write};

const GOOD: &str =
    r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;

/// The next event of a stream.
fn event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Value {
    let data = lines.find_map(|line| Some(line.unwrap().strip_prefix("data: ")?.to_owned()));
    serde_json::from_str(&data.expect("an event")).unwrap()
}

#[test]
fn events_tell_how_things_are_until_the_server_ends() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let running = Running::with(&folder);
    let mut stream = running.connect();
    stream
        .write_all(&request("GET", "/events", &[], b""))
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let first = event(&mut lines);
    assert_eq!(first["models"][0]["success"], 0);
    assert_eq!(running.infer("a", GOOD).status, 200);
    assert_eq!(running.infer("a", "{}").status, 400);
    // One may be sent before the requests are answered.
    let then = (0..20)
        .map(|_| event(&mut lines))
        .find(|then| then["models"][0]["failures"] == 1);
    let then = then.expect("an event that counts both");
    let model = &then["models"][0];
    assert_eq!(
        (&model["name"], &model["success"], &model["failures"]),
        (&"a".into(), &1.into(), &1.into())
    );
    assert_eq!(model["sizes"], serde_json::json!([[1, 1]]));
    assert_eq!(then["failures"][0]["reason"], "CLIENT");
    assert!(then["memory"]["limit"].as_u64().unwrap() > 0);
    assert!(!then["streams"].as_array().unwrap().is_empty());
    // They do not hold up the end.
    running.server.end();
    running.stop();
    assert!(lines.all(|line| line.is_ok()));
    assert!(running.ended());
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let running = Running::with(&folder());
    let page = running.get("/");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"));
    let text = page.text();
    assert!(
        !text.contains("innerHTML"),
        "texts of clients are no markup"
    );
    for outside in ["src=", "@import", "url(", "<link"] {
        assert!(!text.contains(outside), "{outside}");
    }
    for needed in [
        "<html lang=",
        "<main>",
        "<h1>",
        "role=\"status\"",
        "prefers-color-scheme: dark",
        "<label for=\"key\"",
    ] {
        assert!(text.contains(needed), "{needed}");
    }
}

#[test]
fn the_description_lists_the_routes_that_there_are() {
    let source = include_str!("../../src/http/mod.rs");
    let code: String = source.split_whitespace().collect();
    let routes = code.split(".route(\"").skip(1).map(|rest| {
        let (path, rest) = rest.split_once('"').unwrap();
        let method = rest.trim_start_matches(',').split('(').next().unwrap();
        (path.to_owned(), method.to_owned())
    });
    let there: BTreeSet<(String, String)> = routes.collect();
    let description = Running::with(&folder()).get("/openapi.json").json();
    let paths = description["paths"].as_object().unwrap();
    let told = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(move |method| (path.clone(), method.clone()))
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), there);
    // What it refers to is in it.
    let text = description.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let path = reference.split('"').next().unwrap();
        assert!(description.pointer(path).is_some(), "{path}");
    }
}

#[test]
fn models_that_change_in_their_folder_are_loaded() {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    let running = Running::with(&folder);
    let mut looking = Folder::new(running.server.clone());
    let first = |model: &str| {
        let answer = running.infer(model, GOOD);
        (answer.status == 200).then(|| answer.json()["outputs"][0]["data"][0].as_f64().unwrap())
    };
    write(&folder, "b/1/model.onnx", plus(10.0));
    looking.look();
    assert_eq!(first("b"), None, "it may still be copied");
    looking.look();
    assert_eq!(first("b"), Some(11.0));
    write(&folder, "b/2/model.onnx", plus(200.0));
    looking.look();
    looking.look();
    assert_eq!(first("b"), Some(201.0));

    std::fs::write(folder.join("a.onnx"), b"no model at all").unwrap();
    looking.look();
    looking.look();
    assert_eq!(first("a"), Some(2.0), "what was loaded keeps serving");
    std::fs::remove_file(folder.join("a.onnx")).unwrap();
    looking.look();
    assert_eq!(first("a"), None);
    assert_eq!(first("b"), Some(201.0));
}
