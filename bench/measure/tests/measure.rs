//! The program that measures, as its users meet it.

#[path = "measure/operators.rs"]
mod operators;
#[path = "../../../crates/cli/tests/cli/program.rs"]
mod program;

use program::{
    assert_code, assert_fits_a_terminal, assert_refused, has_gpu, object, run, stderr, stdout,
    streampool as measure, with_gpus,
};
use serde_json::Value;

/// What the tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_streampool-measure");

#[track_caller]
fn number(of: &Value, name: &str) -> f64 {
    let value = of[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} in {of}"))
}

#[test]
fn every_figure_of_the_bench_is_there() {
    let output = run(&mut measure(&["runtime", "--quick", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["device"], "host");
    assert!(report["machine"]["cores"].as_u64().expect("a number") >= 1);
    assert!(
        !report["machine"]["cpu"]
            .as_str()
            .expect("a name")
            .is_empty()
    );
    assert!(report["machine"]["threads"].as_u64().expect("a number") >= 1);
    let figures = [
        ("current_ns", "ns"),
        ("lease_ns", "ns"),
        ("alloc_free_ns", "ns"),
        ("alloc_scaling_2", "x"),
        ("remote_free_ns", "ns"),
        ("malloc_ns", "ns"),
        ("empty_op_ns", "ns"),
        ("order_ns", "ns"),
        ("linear_ns", "ns"),
        ("linear_scaling_8", "x"),
        ("linear_vs_bare", "x"),
    ];
    for (key, unit) in figures {
        let figure = &report[key];
        assert_eq!(figure["unit"], unit, "{key}");
        let number = |part: &str| {
            let value = figure[part].as_f64();
            value.unwrap_or_else(|| panic!("{key}.{part} is {}", figure[part]))
        };
        let (min, median, max) = (number("min"), number("median"), number("max"));
        assert!(
            min <= median && median <= max,
            "{key}: {min} {median} {max}"
        );
        assert!(
            [min, median, max].iter().all(|value| value.is_finite()),
            "{key}"
        );
        // A difference of two times may be anything; a time or a ratio of two is above nothing.
        assert!(key == "order_ns" || min > 0.0, "{key}: {min}");
        assert_eq!(
            figure["goal"].is_null(),
            ["malloc_ns", "linear_ns"].contains(&key),
            "{key}"
        );
    }
}

#[test]
fn bench_on_a_device_that_is_not_there_says_why() {
    for (device, why) in [
        ("cuda", "no cuda device: the NVIDIA driver"),
        ("metal", "the metal device cannot be used"),
    ] {
        let output = run(&mut measure(&["runtime", "--device", device, "--json"]));
        assert_code(&output, 1);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        let error = object(&output)["error"].to_string();
        assert!(error.contains(why), "{error}");

        let output = run(&mut measure(&["runtime", "--device", device]));
        assert_code(&output, 1);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn every_figure_of_the_gpu_bench_is_there() {
    if !has_gpu("every_figure_of_the_gpu_bench_is_there") {
        return;
    }
    let arguments = ["runtime", "--device", "cuda", "--quick", "--json"];
    let output = run(&mut with_gpus(&arguments));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["sharing"]["wrong"], 0);
    assert_eq!(report["sharing"]["faults"], 0);
    assert_eq!(report["sharing"]["memory_restored"], true);
    let figures = report["figures"].as_array().expect("a list of figures");
    for figure in figures {
        let (name, threads) = (&figure["name"], &figure["threads"]);
        let same = |other: &&Value| other["name"] == *name && other["threads"] == *threads;
        assert_eq!(figures.iter().filter(same).count(), 1, "{name}, {threads}");
        for side in ["ours", "raw", "ratio"] {
            let value = &figure[side];
            assert!(
                value.is_null() || value.as_f64() > Some(0.0),
                "{name}: {value}"
            );
        }
    }
    for (name, threads) in [
        ("launch_sync", 31),
        ("pipelined_32", 8),
        ("linear", 16),
        ("linear_scaling", 8),
        ("mlp", 8),
        ("alloc_free", 8),
        ("raw_event_records", 1),
    ] {
        let found = figures
            .iter()
            .any(|figure| figure["name"] == name && figure["threads"] == threads);
        assert!(found, "{name} at {threads} is not among {figures:?}");
    }
}

#[test]
fn bench_with_too_few_streams_says_how_to_have_more() {
    let output = run(measure(&["runtime", "--quick"]).env("STREAMPOOL_STREAMS", "2"));
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("STREAMPOOL_STREAMS"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn every_figure_of_the_queue_is_there() {
    let output = run(&mut measure(&["queue", "--quick", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    for (key, unit) in [
        ("queue_infer_ns", "ns"),
        ("queue_submit_ns", "ns"),
        ("queue_callers_64", "/s"),
        ("queue_idle_ns", "ns"),
        ("queue_expired_us", "us"),
        ("queue_expired_latest_us", "us"),
        ("queue_fairness", "x"),
        ("queue_fairness_of_long_batches", "x"),
        ("queue_mixed_lengths", "x"),
    ] {
        let figure = &report[key];
        assert_eq!(figure["unit"], unit, "{key}");
        let [min, median, max] = ["min", "median", "max"].map(|part| number(figure, part));
        assert!(min <= median && median <= max, "{key}: {figure}");
        // A difference of two times may be anything.
        assert!(key == "queue_idle_ns" || min > 0.0, "{key}: {figure}");
        assert!(
            figure["goal"].is_object() && figure["ok"].is_boolean(),
            "{figure}"
        );
    }
}

#[test]
fn every_thread_of_a_crowd_gets_its_turn() {
    let arguments = ["fairness", "--threads", "2,40", "--seconds"];
    // So long that each has its turn also beside other processes.
    let output = run(&mut measure(&[&arguments[..], &["4", "--json"]].concat()));
    assert_code(&output, 0);
    let report = object(&output);
    let crowds = report["crowds"].as_array().expect("a list of crowds");
    assert_eq!(crowds.len(), 2);
    for crowd in crowds {
        assert!(number(crowd, "fewest") >= 1.0, "a thread starves: {crowd}");
        assert!(number(crowd, "fewest") <= number(crowd, "most"));
        assert!(
            number(&crowd["firsts"]["thread"], "count") >= 1.0,
            "{crowd}"
        );
    }
    let output = run(&mut measure(&[&arguments[..], &["1"]].concat()));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
}

#[test]
fn a_crowd_needs_threads_and_calls_need_a_driver() {
    for (arguments, allowed) in [
        (["--threads", "0"], "from 1 to 1024"),
        (["--seconds", "0"], "from 0.1 to 3600"),
    ] {
        let output = run(&mut measure(&[&["fairness"], &arguments[..]].concat()));
        assert_code(&output, 2);
        assert!(stderr(&output).contains(allowed), "{}", stderr(&output));
    }
    let calls = ["fairness", "--calls", "--json"];
    assert_refused(&run(&mut measure(&calls)), "--device cuda");
}
