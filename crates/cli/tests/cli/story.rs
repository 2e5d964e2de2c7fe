//! `streampool story`.

use std::path::Path;

use serde_json::Value;

use crate::onnx::{folder, model};
use crate::program::{
    assert_code, assert_fits_a_terminal, has_gpu, object, run, stderr, stdout, streampool,
    with_gpus,
};

/// What `story` needs so as to take little time: figures that are worth little.
const QUICK: [&str; 3] = ["story", "--seconds", "0.01"];

#[track_caller]
fn chapter<'a>(story: &'a Value, name: &str) -> &'a Value {
    let chapters = story["chapters"].as_array().expect("a list of chapters");
    let found = chapters.iter().find(|chapter| chapter["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not among {chapters:?}"))
}

/// The figures of a check, which has to hold.
#[track_caller]
fn held<'a>(chapter: &'a Value, name: &str) -> &'a Value {
    let checks = chapter["checks"].as_array().expect("a list of checks");
    let found = checks.iter().find(|check| check["name"] == name);
    let check = found.unwrap_or_else(|| panic!("{name} is not among {checks:?}"));
    assert_eq!(check["ok"], true, "{check}");
    &check["numbers"]
}

#[test]
fn what_does_not_depend_on_time_holds() {
    let chapters = ["safety", "correctness", "adversary"];
    let chosen = chapters.iter().flat_map(|&name| ["--chapter", name]);
    let arguments: Vec<&str> = QUICK.into_iter().chain(chosen).chain(["--json"]).collect();
    let output = run(&mut streampool(&arguments));
    assert_code(&output, 0);
    let story = object(&output);
    assert_eq!(story["ok"], true);
    assert_eq!(story["chapters"].as_array().map(Vec::len), Some(3));

    let safety = chapter(&story, "safety");
    for name in ["linear-8", "linear-31", "encoder-8", "encoder-31"] {
        let numbers = held(safety, name);
        assert!(numbers["checked"].as_u64() >= Some(8), "{numbers}");
        assert_eq!(numbers["wrong"], 0);
    }
    assert_eq!(held(safety, "products")["checked"], 3100);
    assert_eq!(held(safety, "products")["wrong"], 0);
    assert_eq!(held(safety, "products")["streams"], 31);
    assert_eq!(held(safety, "handover")["corrupted"], 0);
    assert_eq!(held(safety, "fault")["faulted"], 1);
    assert_eq!(held(safety, "fault")["recovered"], 1);
    assert_eq!(held(safety, "leftover")["in_use"], 0);
    let verdict = safety["verdict"].as_str().expect("a sentence");
    assert!(verdict.contains(" 0 were wrong"), "{verdict}");

    let correctness = chapter(&story, "correctness");
    for name in ["linear-f32", "encoder-f32", "linear-f16", "encoder-f16"] {
        let error = held(correctness, name)["value"].as_f64();
        // Nothing that is computed in floats is exact throughout.
        assert!(error > Some(1e-9), "{name}: {error:?}");
    }

    let adversary = chapter(&story, "adversary");
    for quirk in [
        "shared-matmul-state",
        "norm-bound-to-thread",
        "encoder-freed-in-use",
        "strided-copy-race",
        "buffers-in-flight",
    ] {
        let numbers = held(adversary, quirk);
        assert!(
            numbers["violations_without"].as_u64() > Some(0),
            "{numbers}"
        );
        assert_eq!(numbers["violations_with"], 0);
        assert_eq!(numbers["failed_with"], 0);
    }
}

#[test]
fn figures_come_with_tables_and_drawings() {
    let at = folder("figures_come_with_drawings");
    let out = at.join("report");
    let chosen = ["--chapter", "scaling", "--chapter", "pipelining"];
    let arguments = [&QUICK[..], &chosen, &["--out", "report"]].concat();
    let output = run(streampool(&arguments).current_dir(&at));
    // Measured for so short a time, claims may fail: then the program says so.
    let text = stdout(&output);
    let holds = text.contains("2 of 2 claims hold");
    assert_code(&output, if holds { 0 } else { 1 });
    assert_eq!(text.contains("It does not hold."), !holds, "{text}");
    assert_fits_a_terminal(&output);
    for part in [
        "2 Scaling",
        "5 Pipelining",
        "efficiency",
        "Scaling: encoder",
        "lowest rate of linear vs depth 1",
        "story.html",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    for name in ["2-scaling-1.svg", "2-scaling-2.svg", "5-pipelining-1.svg"] {
        let image = std::fs::read_to_string(out.join(name)).expect("an image");
        assert!(
            image.starts_with("<svg") && image.ends_with("</svg>\n"),
            "{name}"
        );
        assert!(image.contains("<polyline"), "{name}");
    }
    let page = std::fs::read_to_string(out.join("story.html")).expect("the page");
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("<h2>2 Scaling</h2>") && page.contains("Claim."));
}

#[test]
fn the_numbers_of_a_chapter_agree() {
    let chosen = ["--chapter", "scaling", "--json"];
    let output = run(&mut streampool(&[&QUICK[..], &chosen].concat()));
    let story = object(&output);
    let scaling = chapter(&story, "scaling");
    let checks = scaling["checks"].as_array().expect("a list of checks");
    let mut all = true;
    for check in checks {
        let number = |name: &str| check["numbers"][name].as_f64().expect("a number");
        let ok = number("value") >= number("at_least");
        assert_eq!(check["ok"], ok, "{check}");
        all &= ok;
    }
    assert_eq!(scaling["ok"], all);
    assert_eq!(story["ok"], all);
    assert_code(&output, i32::from(!all));
    let rows = scaling["tables"][0]["rows"].as_array().expect("rows");
    let threads: Vec<u64> = rows.iter().filter_map(|row| row[0].as_u64()).collect();
    assert_eq!(threads, [1, 2, 4, 8, 16, 31]);
    // The last column is what the check of the model is about.
    let parts = rows.iter().filter_map(|row| row[4].as_f64());
    assert_eq!(
        parts.reduce(f64::min),
        checks[0]["numbers"]["value"].as_f64()
    );
}

/// What the verdict is about stands in the tables, and what is allowed for in the claim.
#[test]
fn claim_table_and_verdict_of_a_queue_agree() {
    let chosen = ["--chapter", "batching", "--json"];
    let output = run(&mut streampool(&[&QUICK[..], &chosen].concat()));
    let story = object(&output);
    let batching = chapter(&story, "batching");
    let claim = batching["claim"].as_str().expect("a sentence");
    assert!(
        claim.contains("at least 0.7") && claim.contains("5 us"),
        "{claim}"
    );
    let callers = &batching["tables"][1];
    let head = callers["head"].as_array().expect("names");
    let rows = callers["rows"].as_array().expect("rows");
    for way in ["thread", "ticket"] {
        let column = head.iter().position(|name| *name == format!("{way} part"));
        let column = column.expect("a column");
        let many = rows.iter().filter(|row| row[0].as_u64() >= Some(16));
        let least = many.filter_map(|row| row[column].as_f64()).reduce(f64::min);
        let checks = batching["checks"].as_array().expect("a list of checks");
        let check = checks
            .iter()
            .find(|check| check["name"] == format!("linear-{way}s"));
        let check = check.expect("a check");
        assert_eq!(check["numbers"]["value"].as_f64(), least);
        assert_eq!(check["ok"], least >= Some(0.7));
    }
}

#[test]
fn a_model_of_the_users_takes_the_encoders_place() {
    let path = model("a_model_in_the_story", "Relu");
    let path = path.to_str().expect("text");
    let chosen = [
        "--chapter",
        "safety",
        "--model",
        path,
        "--shape",
        "x=2,5,3",
        "--json",
    ];
    let output = run(&mut streampool(&[&QUICK[..], &chosen].concat()));
    assert_code(&output, 0);
    let story = object(&output);
    assert_eq!(story["setting"]["models"][1]["name"], "model.onnx");
    held(chapter(&story, "safety"), "model.onnx-31");

    let without_shape = ["--chapter", "safety", "--model", path];
    let output = run(&mut streampool(&[&QUICK[..], &without_shape].concat()));
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("--shape x=1,?,3"),
        "{}",
        stderr(&output)
    );
    let nowhere = ["--model", "nowhere.onnx"];
    let output = run(&mut streampool(&[&QUICK[..], &nowhere].concat()));
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("nowhere.onnx"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_gpu_is_safe_and_right() {
    if !has_gpu("a_gpu_is_safe_and_right") {
        return;
    }
    let chosen = [
        "--device",
        "cuda",
        "--chapter",
        "safety",
        "--chapter",
        "correctness",
        "--json",
    ];
    let output = run(&mut with_gpus(&[&QUICK[..], &chosen].concat()));
    assert_code(&output, 0);
    let story = object(&output);
    held(chapter(&story, "safety"), "encoder-31");
    held(chapter(&story, "correctness"), "encoder-f32");
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let file = folder("a_folder_that_cannot").join("file");
    std::fs::write(&file, "").expect("it can be written");
    let below = Path::new(&file).join("report");
    let out = below.to_str().expect("text");
    let chosen = ["--chapter", "correctness", "--out", out];
    let output = run(&mut streampool(&[&QUICK[..], &chosen].concat()));
    assert_code(&output, 1);
    assert!(stderr(&output).contains(out), "{}", stderr(&output));
}

#[test]
fn it_is_not_told_under_a_bad_setting() {
    for (name, value) in [
        ("STREAMPOOL_STREAMS", "0"),
        ("STREAMPOOL_STREAM", "8"),
        ("STREAMPOOL_HOST_THREADS", "many"),
        ("STREAMPOOL_CUDA_PRECISION", "fp8"),
    ] {
        let output = run(streampool(&["story", "--json"]).env(name, value));
        assert_code(&output, 1);
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
        let error = object(&output)["error"].to_string();
        assert!(error.contains(name), "{error}");
    }
}
