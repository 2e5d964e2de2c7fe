//! The program as its users meet it: what it prints, and how it ends.

#[path = "cli/benches.rs"]
mod benches;
#[path = "cli/models.rs"]
mod models;
#[path = "cli/onnx.rs"]
mod onnx;
#[path = "cli/program.rs"]
mod program;
#[path = "cli/simulate.rs"]
mod simulate;
#[path = "cli/story.rs"]
mod story;

use std::process::Stdio;

use program::{
    assert_code, assert_fits_a_terminal, has_gpu, object, run, stderr, stdout, streampool,
    with_gpus,
};

/// What the tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_streampool");

#[test]
fn doctor_tells_what_there_is() {
    let output = run(&mut streampool(&["doctor"]));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    let text = stdout(&output);
    for expected in [
        "Device host: usable",
        "self-test",
        "ok: allocate, fill and compute on 2 streams",
        "ok: linear, softmax and conv of tensors",
        "Device cuda: not usable\n  the NVIDIA driver ",
        "Device metal: not usable",
        "if all are leased",
        "watermarks",
        "STREAMPOOL_STREAMS",
        "STREAMPOOL_HOST_THREADS",
        "STREAMPOOL_CUDA_DEVICE",
        "No problems found.",
    ] {
        assert!(text.contains(expected), "`{expected}` is not in:\n{text}");
    }
}

#[test]
fn doctor_as_json_has_all_of_it() {
    let output = run(streampool(&["doctor", "--json"]).env("STREAMPOOL_STREAMS", "5"));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["ok"], true);
    assert_eq!(report["findings"], serde_json::json!([]));

    let devices = report["devices"].as_array().expect("a list of devices");
    let kinds: Vec<_> = devices.iter().map(|device| &device["kind"]).collect();
    assert_eq!(kinds, ["host", "cuda", "metal"]);
    let names: Vec<_> = devices.iter().map(|device| &device["name"]).collect();
    assert_eq!(names, ["host", "cuda", "metal"]);
    let host = &devices[0];
    assert_eq!(host["usable"], true);
    assert!(
        host["hardware"]["compute_units"]
            .as_u64()
            .expect("a number")
            >= 1
    );
    assert!(
        host["hardware"]["memory_capacity"]
            .as_u64()
            .expect("a number")
            > 0
    );
    assert_eq!(host["self_test"]["ok"], true);
    assert_eq!(host["operators"]["ok"], true, "{host}");
    assert_eq!(host["pool"]["streams"], 5);
    assert_eq!(host["pool"]["free_streams"], 4);
    assert_eq!(host["pool"]["memory"]["in_use"], 0);
    assert!(
        host["pool"]["memory"]["reserved"]
            .as_u64()
            .expect("a number")
            > 0
    );
    for unusable in &devices[1..] {
        assert_eq!(unusable["usable"], false);
        assert!(!unusable["why_not"].as_str().expect("a reason").is_empty());
        for key in ["hardware", "self_test", "operators"] {
            assert!(unusable[key].is_null(), "{unusable}");
        }
    }
    let why_no_gpu = devices[1]["why_not"].as_str().expect("a reason");
    assert!(why_no_gpu.contains("NVIDIA driver"), "{why_no_gpu}");

    let settings = report["settings"].as_array().expect("a list of settings");
    let setting = |name: &str| {
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not among {settings:?}"))
    };
    assert_eq!(setting("STREAMPOOL_STREAMS")["value"], "5");
    assert_eq!(setting("STREAMPOOL_STREAMS")["origin"], "environment");
    assert_eq!(setting("STREAMPOOL_MITIGATIONS")["origin"], "default");
    assert_eq!(setting("STREAMPOOL_CUDA_PRECISION")["origin"], "default");
    let mut names: Vec<_> = settings.iter().map(|setting| &setting["name"]).collect();
    names.sort_by_key(|name| name.to_string());
    let listed = names.len();
    names.dedup();
    assert_eq!(
        names.len(),
        listed,
        "a setting is listed twice: {settings:?}"
    );
}

#[test]
fn doctor_works_with_a_single_stream() {
    let output = run(streampool(&["doctor"]).env("STREAMPOOL_STREAMS", "1"));
    assert_code(&output, 0);
    assert!(stdout(&output).contains("ok: allocate, fill and compute on 1 stream,"));
}

#[test]
fn bad_settings_are_findings_that_say_what_would_be_right() {
    let cases = [
        ("STREAMPOOL_STREAMS", "0", "settings", "1 to 64"),
        (
            "STREAMPOOL_STREAM",
            "8",
            "settings",
            "did you mean STREAMPOOL_STREAMS?",
        ),
        (
            "STREAMPOOL_MITIGATIONS",
            "-gremlins",
            "settings",
            "-shared-matmul-state",
        ),
        ("STREAMPOOL_HOST_THREADS", "many", "host", "1 to 1024"),
        (
            "STREAMPOOL_HOST_THREAD",
            "1",
            "host",
            "STREAMPOOL_HOST_THREADS",
        ),
        ("STREAMPOOL_HOST_MEMORY", "2 gallons", "host", "GiB"),
        (
            "STREAMPOOL_CUDA_DEVICE",
            "first",
            "cuda",
            "the number of a GPU",
        ),
        (
            "STREAMPOOL_CUDA_MEMORI",
            "1GiB",
            "cuda",
            "STREAMPOOL_CUDA_MEMORY",
        ),
        ("STREAMPOOL_CUDA_PRECISION", "fp8", "cuda", "tf32"),
        (
            "STREAMPOOL_VULKAN_HEAP",
            "0",
            "settings",
            "known: STREAMPOOL_STREAMS",
        ),
    ];
    for (name, value, about, right) in cases {
        let output = run(streampool(&["doctor", "--json"]).env(name, value));
        assert_code(&output, 1);
        let report = object(&output);
        assert_eq!(report["ok"], false, "{name}={value}");
        let findings = report["findings"].as_array().expect("a list of findings");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0]["about"], about);
        let problem = findings[0]["problem"].as_str().expect("a text");
        assert!(
            problem.contains(name) && problem.contains(right),
            "{problem}"
        );

        let page = run(streampool(&["doctor"]).env(name, value));
        assert_code(&page, 1);
        assert_fits_a_terminal(&page);
        assert!(stdout(&page).contains("1 finding"), "{}", stdout(&page));
    }
}

#[test]
fn a_size_means_the_same_in_every_setting() {
    let mut command = streampool(&["doctor", "--json"]);
    let output = run(command
        .env("STREAMPOOL_HOST_MEMORY", "2G")
        .env("STREAMPOOL_MEMORY_LIMIT", "1GiB"));
    assert_code(&output, 0);
    let host = &object(&output)["devices"][0];
    assert_eq!(host["hardware"]["memory_capacity"], 2_000_000_000);
    assert_eq!(host["pool"]["memory"]["limit"], 1 << 30);
}

#[test]
fn doctor_tries_out_the_gpu() {
    if !has_gpu("doctor_tries_out_the_gpu") {
        return;
    }
    let output = run(&mut with_gpus(&["doctor", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    let devices = report["devices"].as_array().expect("a list of devices");
    let gpu = devices.iter().find(|device| device["name"] == "cuda");
    let gpu = gpu.unwrap_or_else(|| panic!("there is no cuda in {devices:?}"));
    assert_eq!(gpu["usable"], true);
    assert_eq!(gpu["self_test"]["ok"], true, "{gpu}");
    assert_eq!(gpu["operators"]["ok"], true, "{gpu}");
    let features = gpu["hardware"]["features"].to_string();
    for part in ["compute ", "driver "] {
        assert!(features.contains(part), "{features}");
    }
    let page = run(&mut with_gpus(&["doctor"]));
    assert_code(&page, 0);
    assert_fits_a_terminal(&page);
    assert!(stdout(&page).contains("Device cuda: usable"));
}

#[test]
fn help_shows_what_can_be_typed() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--help"], &["doctor", "bench", "story", "Examples:"]),
        (
            &["doctor", "--help"],
            &["--json", "Examples:", "streampool doctor --json"],
        ),
        (&["bench", "--help"], &["model"]),
        (
            &["story", "--help"],
            &["--json", "STREAMPOOL_STREAMS", "Examples:"],
        ),
    ];
    for (arguments, expected) in cases {
        let output = run(&mut streampool(arguments));
        assert_code(&output, 0);
        for part in expected {
            assert!(
                stdout(&output).contains(part),
                "{part} is not in:\n{}",
                stdout(&output)
            );
        }
    }
    let version = run(&mut streampool(&["--version"]));
    assert_eq!(
        stdout(&version).trim(),
        concat!("streampool ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn what_nobody_knows_is_refused_with_code_2() {
    let cases: [(&[&str], &str); 5] = [
        (&["docter"], "doctor"),
        (&["bench", "everything"], "everything"),
        (&["doctor", "--jason"], "--json"),
        (&["story", "--device", "abacus"], "abacus"),
        (&[], "Usage"),
    ];
    for (arguments, told) in cases {
        let output = run(&mut streampool(arguments));
        assert_code(&output, 2);
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn nobody_reading_is_no_failure() {
    let mut program = streampool(&["doctor"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // From here on nobody can read what it writes.
    drop(program.stdout.take());
    let output = program.wait_with_output().expect("the program ends");
    assert_code(&output, 0);
    assert_eq!(stderr(&output), "");
}

#[cfg(feature = "serve")]
#[test]
fn a_variable_stands_for_an_option_of_the_server() {
    let mut serve = streampool(&["serve", "models"]);
    let output = run(serve.env("STREAMPOOL_SERVE_MAX_BATCH_SIZE", "many"));
    assert_code(&output, 2);
    let told = stderr(&output);
    assert!(
        told.contains("many") && told.contains("--max-batch-size"),
        "{told}"
    );
}
