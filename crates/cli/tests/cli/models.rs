//! `streampool run` and `streampool inspect`.

use std::path::{Path, PathBuf};
use std::process::Command;

use streampool::model::onnx::writer::{Graph, graph};
use streampool::tensor::{NpzFile, write_npz};
use streampool::{Array, DType, Tensor};

use crate::onnx::{folder, model};
use crate::program::{
    assert_code, assert_fits_a_terminal, assert_refused, object, run, stderr, stdout, streampool,
};

/// `streampool COMMAND MODEL` with more arguments.
fn on(command: &str, model: &Path, arguments: &[&str]) -> Command {
    let model = model.to_str().expect("a path of text");
    streampool(&[&[command, model], arguments].concat())
}

fn npz(test: &str, file: &str, name: &str, values: &[f32], shape: &[usize]) -> PathBuf {
    let pool = streampool::host_pool().expect("a pool");
    let tensor = Tensor::from_slice(&pool, values, shape).expect("a tensor");
    let path = folder(test).join(file);
    write_npz(&path, [(name, &tensor)], false).expect("it can be written");
    path
}

#[test]
fn a_model_is_looked_at() {
    let path = model("a_model_is_looked_at", "Relu");
    let output = run(&mut on("inspect", &path, &[]));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    for part in [
        "by hand",
        "onnx 17",
        "x  f32  [batch, rows, 3]",
        "y  f32  [batch, rows, 2]",
        "MatMul 1, Relu 1",
        "1 tensor  6 values  24 B",
        "Every operator is supported.",
    ] {
        assert!(
            stdout(&output).contains(part),
            "{part}:\n{}",
            stdout(&output)
        );
    }
    let planned = ["--json", "--shape", "x=2,5,3"];
    let output = run(&mut on("inspect", &path, &planned));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["opsets"][""], 17);
    assert_eq!(report["inputs"][0]["shape"][0], "batch");
    assert_eq!(report["parameter_bytes"], 24);
    assert!(
        report["simplified"]["nodes"].as_u64() <= Some(2),
        "{report}"
    );
    let parts = report["plan"]["parts"].as_array().expect("a list of parts");
    assert_eq!(parts.len(), 1, "{report}");
    assert_eq!(report["plan"]["device"], "host");
    assert!(
        parts[0]["shared_bytes"].as_u64() >= Some(2 * 5 * (3 + 2) * 4),
        "{report}"
    );
    assert!(
        !parts[0]["ops"]
            .as_array()
            .expect("a list of ops")
            .is_empty()
    );
    assert!(parts[0]["ended_by"].is_null());
}

#[test]
fn what_is_not_supported_is_told_with_its_places() {
    let path = model("what_is_not_supported", "Levitate");
    let output = run(&mut on("inspect", &path, &[]));
    assert_code(&output, 1);
    assert!(stdout(&output).contains("Not supported\n  Levitate 17  at ending\n"));
    let output = run(&mut on("run", &path, &["--shape", "x=1,2,3"]));
    assert_code(&output, 1);
    let why = stderr(&output);
    assert!(why.contains("Levitate") && why.contains("ending"), "{why}");
}

#[test]
fn a_model_runs_on_inputs_from_a_file() {
    let test = "a_model_runs_on_inputs";
    let path = model(test, "Relu");
    let x = npz(
        test,
        "x.npz",
        "x",
        &[1.0, 2.0, 4.0, -1.0, 0.0, 0.0],
        &[1, 2, 3],
    );
    let right = npz(test, "right.npz", "y", &[5.0, 0.0, 0.0, 0.0], &[1, 2, 2]);
    let wrong = npz(test, "wrong.npz", "y", &[5.0, 0.0, 0.5, 0.0], &[1, 2, 2]);
    let [x, right, wrong] = [&x, &right, &wrong].map(|path| path.to_str().expect("text"));
    let written = folder(test).join("written.npz");
    let written_to = written.to_str().expect("text");

    let output = run(&mut on(
        "run",
        &path,
        &["--input", x, "--check", right, "--output", written_to],
    ));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    for part in ["y  f32 [1, 2, 2]", "5 0 0 0", "ok  y", "input x"] {
        assert!(
            stdout(&output).contains(part),
            "{part}:\n{}",
            stdout(&output)
        );
    }
    let pool = streampool::host_pool().expect("a pool");
    let y = NpzFile::open(&written).and_then(|mut file| file.read(&pool, "y"));
    let y = y.and_then(|y| y.to_vec::<f32>()).expect("what was written");
    assert_eq!(y, [5.0, 0.0, 0.0, 0.0]);

    let output = run(&mut on(
        "run",
        &path,
        &["--input", x, "--check", wrong, "--json"],
    ));
    assert_code(&output, 1);
    let report = object(&output);
    assert_eq!(report["ok"], false);
    assert_eq!(report["check"][0]["worst_absolute"], 0.5);
    let output = run(&mut on("run", &path, &["--input", x, "--check", wrong]));
    for part in ["WRONG  y", "at [0, 1, 0]", "expected 0.5"] {
        assert!(
            stdout(&output).contains(part),
            "{part}:\n{}",
            stdout(&output)
        );
    }
    let lax = ["--input", x, "--check", wrong, "--tolerance", "0.6"];
    assert_code(&run(&mut on("run", &path, &lax)), 0);
}

#[test]
fn a_model_runs_from_many_threads() {
    let path = model("a_model_runs_from_many_threads", "Relu");
    let shape = ["--shape", "x=3,5,3"];
    let output = run(on("run", &path, &shape).args(["--threads", "8"]));
    assert_code(&output, 0);
    assert!(
        stdout(&output).contains("same outputs"),
        "{}",
        stdout(&output)
    );

    let repeated = ["--threads", "4", "--repeat", "--seconds", "0.2", "--json"];
    let output = run(on("run", &path, &shape).args(repeated));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["threads"], 4);
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    // Each thread runs it once at least, however busy the machine is.
    assert!(number(&report["runs_per_second"]) > 1.0, "{report}");
    let latency = &report["latency_seconds"];
    assert!(
        number(&latency["p50"]) <= number(&latency["p99"]),
        "{report}"
    );
    for name in ["load_seconds", "first_run_seconds", "peak_rss_bytes"] {
        assert!(number(&report[name]) > 0.0, "{report}");
    }
    let meanwhile = &report["meanwhile"];
    assert_eq!(meanwhile["replays"], report["runs"]);
    for name in [
        "captures",
        "device_allocations",
        "kernels_compiled",
        "nodes_alone",
    ] {
        assert_eq!(meanwhile[name], 0, "{name} in {report}");
    }

    let output = run(on("run", &path, &shape).args(["--repeat", "--seconds", "0.05"]));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    assert!(stdout(&output).contains("1 thread ") && stdout(&output).contains("runs/s"));
}

#[test]
fn a_profile_tells_what_took_how_long() {
    let test = "a_profile_tells";
    let trace = folder(test).join("trace.json");
    let trace_to = trace.to_str().expect("text");
    let arguments = ["--shape", "x=1,2,3", "--profile", trace_to];
    let output = run(&mut on("run", &model(test, "Relu"), &arguments));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    assert!(
        stdout(&output).contains("Time by op") && stdout(&output).contains("Time by node"),
        "{}",
        stdout(&output)
    );
    let trace = std::fs::read_to_string(&trace).expect("the trace");
    serde_json::from_str::<serde_json::Value>(&trace).expect("a trace of JSON");
    assert!(trace.contains("fused.Linear of product, ending"), "{trace}");
    let json = [&arguments[..], &["--json"]].concat();
    let output = run(&mut on("run", &model(test, "Relu"), &json));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["nodes"][0]["made_of"][1], "ending", "{report}");
    assert_eq!(report["nodes"][0]["count"], 1);
}

#[test]
fn a_file_may_have_arrays_for_inputs_with_defaults() {
    use streampool::model::onnx::writer::Graph;
    let test = "a_file_may_have_arrays";
    let two = streampool::Array::scalar(2f32);
    let model = Graph::default()
        .input("x", streampool::DType::F32, "n")
        .input("scale", streampool::DType::F32, "k")
        .constant("scale", &two)
        .node("Mul x scale = y", &[])
        .outputs("y")
        .model(&[("", 17)]);
    let path = folder(test).join("scaled.onnx");
    std::fs::write(&path, model).expect("the target directory can be written");
    let pool = streampool::host_pool().expect("a pool");
    for (given, expected) in [
        (&[("x", [1f32, 2.0])][..], [2.0, 4.0]),
        (&[("x", [1.0, 2.0]), ("scale", [10.0, 5.0])], [10.0, 10.0]),
    ] {
        let input = folder(test).join("given.npz");
        let tensors = given.iter().map(|&(name, values)| {
            let tensor = streampool::Tensor::from_slice(&pool, &values, &[2]);
            (name, tensor.expect("two floats"))
        });
        let tensors: Vec<_> = tensors.collect();
        let tensors = tensors.iter().map(|(name, tensor)| (*name, tensor));
        streampool::tensor::write_npz(&input, tensors, false).expect("a file");
        let written = folder(test).join("written.npz");
        for more in [&[][..], &["--repeat", "--resident", "--seconds", "0.1"]] {
            let [input, output] = [&input, &written].map(|path| path.to_str().expect("text"));
            let arguments = [&["--input", input, "--output", output], more].concat();
            assert_code(&run(&mut on("run", &path, &arguments)), 0);
            let y = NpzFile::open(&written).and_then(|mut file| file.read(&pool, "y"));
            let y = y.and_then(|y| y.to_vec::<f32>()).expect("what was written");
            assert_eq!(y, expected);
        }
    }
}

/// A model that adds `x` to itself 2⁴⁰ times.
fn endless(test: &str) -> PathBuf {
    let body = Graph::new()
        .untyped("turn")
        .untyped("go")
        .untyped("before")
        .node("Add before x = after", &[])
        .node("Identity go = on", &[])
        .outputs("on after");
    let model = Graph::new()
        .input("x", DType::F32, "n")
        .constant("turns", &Array::scalar(1i64 << 40))
        .constant("yes", &Array::scalar(true))
        .node("Loop turns yes x = y", &[graph("body", body)])
        .outputs("y")
        .model(&[("", 18)]);
    let path = folder(test).join("endless.onnx");
    std::fs::write(&path, model).expect("it can be written");
    path
}

#[test]
fn a_loop_without_end_is_given_up_as_the_user_says() {
    let path = endless("a_loop_without_end");
    assert_code(&run(&mut on("inspect", &path, &[])), 0);
    let of_one = |arguments: &[&str]| {
        let arguments = [&["--shape", "x=1", "--json"], arguments].concat();
        run(&mut on("run", &path, &arguments))
    };
    assert_refused(
        &of_one(&["--within", "200"]),
        "the deadline of the run is past",
    );
    assert_refused(&of_one(&["--steps", "1000"]), "at most 1000 are allowed");
    let output =
        run(on("run", &path, &["--shape", "x=1", "--json"]).env("STREAMPOOL_RUN_STEPS", "5000"));
    assert_refused(&output, "raise STREAMPOOL_RUN_STEPS or");
    let planned = ["--shape", "x=1", "--json"];
    let output = run(on("inspect", &path, &planned).env("STREAMPOOL_RUN_STEPS", "5000"));
    assert_refused(&output, "STREAMPOOL_RUN_STEPS");
    for wrong in [&["--within", "0"][..], &["--steps", "-1"]] {
        assert_code(&of_one(wrong), 2);
    }
    let path = model("a_loop_without_end", "Relu");
    let few = ["--shape", "x=1,2,3", "--within", "60000", "--steps", "1000"];
    assert_code(&run(&mut on("run", &path, &few)), 0);
}

#[test]
fn bad_input_is_told_with_what_would_be_right() {
    let test = "bad_input_is_told";
    let path = model(test, "Relu");
    let other = npz(test, "other.npz", "z", &[0.0], &[1]);
    let narrow = npz(test, "narrow.npz", "x", &[0.0; 4], &[1, 2, 2]);
    let [other, narrow] = [&other, &narrow].map(|path| path.to_str().expect("text"));
    let cases: [(&[&str], &str); 7] = [
        (&[], "--shape x=1,?,3"),
        (&["--shape", "z=1"], "no input `z`: it has x"),
        (&["--shape", "x=1,2,4"], "[batch, rows, 3]"),
        (
            &["--shape", "x=1,2,3", "--check", other],
            "outputs of the model are y",
        ),
        (&["--input", other], "inputs of the model are x"),
        (&["--input", narrow], "expected f32 [batch, rows, 3]"),
        (&["--input", "nowhere.npz"], "nowhere.npz"),
    ];
    for (arguments, part) in cases {
        let output = run(on("run", &path, arguments).arg("--json"));
        assert_refused(&output, part);
    }
    for wrong in [
        &["--threads", "0"][..],
        &["--repeat", "--seconds", "x"],
        &["--shape", "x"],
    ] {
        let output = run(&mut on("run", &path, wrong));
        assert_code(&output, 2);
        assert!(stderr(&output).contains("expected"), "{}", stderr(&output));
    }
    let whole = std::fs::read(&path).expect("the model");
    let files: [(&str, &[u8], &str); 3] = [
        ("notes.txt", b"no model at all", "is not an ONNX model"),
        ("cut.onnx", &whole[..whole.len() / 2], "is cut off: byte "),
        ("none.onnx", b"", "none.onnx is empty"),
    ];
    for command in ["run", "inspect"] {
        for (name, bytes, part) in files {
            let broken = folder(test).join(name);
            std::fs::write(&broken, bytes).expect("it can be written");
            let output = run(&mut on(command, &broken, &[]));
            assert_code(&output, 1);
            let why = stderr(&output);
            assert!(why.contains(name) && why.contains(part), "{why}");
        }
        let output = run(&mut on(command, Path::new("nowhere.onnx"), &[]));
        assert_code(&output, 1);
        assert!(
            stderr(&output).contains("nowhere.onnx"),
            "{}",
            stderr(&output)
        );
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_unicode_is_told_all_the_same() {
    use std::os::unix::ffi::OsStringExt;
    let test = "a_path_that_is_not_unicode_is_told_all_the_same";
    let name = std::ffi::OsString::from_vec(b"m\xff.onnx".to_vec());
    let path = folder(test).join(name);
    std::fs::copy(model(test, "Relu"), &path).expect("it can be written");
    for command in ["inspect", "run"] {
        let sizes = ["--json", "--shape", "x=1,2,3"];
        let output = run(streampool(&[command]).args(sizes).arg(&path));
        assert_code(&output, 0);
        let told = object(&output)["model"].as_str().map(str::to_owned);
        assert!(told.is_some_and(|told| told.ends_with("m\u{fffd}.onnx")));
    }
}

#[test]
fn a_number_of_threads_that_cannot_be_says_which_can() {
    let path = model("a_number_of_threads_that_cannot_be_says_which_can", "Relu");
    for threads in ["-1", "0", "1025", "many"] {
        let output = run(&mut on("run", &path, &["--threads", threads]));
        assert_code(&output, 2);
        let said = stderr(&output);
        assert!(said.contains("a number from 1 to 1024"), "{said}");
    }
}
