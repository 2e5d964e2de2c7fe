//! `streampool-measure ops`.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{
    assert_code, assert_fits_a_terminal, has_gpu, object, run, stdout, streampool as measure,
    with_gpus,
};

/// Whether each operator of the report has a time, a rate and a share of what bounds it.
#[track_caller]
fn assert_has_operators(report: &Value, names: &[&str]) {
    let ops = report["ops"].as_object().expect("an object of operators");
    assert_eq!(ops.len(), names.len(), "{ops:?}");
    for name in names {
        let op = &ops[*name];
        let number = |part: &str| {
            op[part]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}.{part} in {op}"))
        };
        let (min, median, max) = (number("min"), number("seconds"), number("max"));
        assert!(0.0 < min && min <= median && median <= max, "{op}");
        assert!(
            number("bytes_per_s") > 0.0 && number("of_peak") > 0.0,
            "{op}"
        );
        let has_products = ["matmul", "attention", "conv", "lstm", "attention_long"].contains(name);
        assert_eq!(op["flop_per_s"].is_number(), has_products, "{op}");
    }
    for name in ["flop_per_s", "bytes_per_s"] {
        assert!(report["peak"][name].as_f64() > Some(1e6), "{report}");
    }
    for name in ["add", "linear", "layer_norm"] {
        assert!(
            report["overhead"][name]["ns"].as_f64() > Some(0.0),
            "{report}"
        );
    }
}

const OPERATORS: [&str; 7] = [
    "matmul",
    "attention",
    "layer_norm",
    "gelu",
    "conv",
    "lstm",
    "softmax",
];

#[test]
fn every_operator_of_the_bench_is_there() {
    let output = run(&mut measure(&["ops", "--quick", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(report["device"], "host");
    assert_eq!(report["precision"], "f32");
    assert_eq!(report["refused"], serde_json::json!({}));
    assert_has_operators(&report, &OPERATORS);
    assert!(report["ops"]["gelu"]["goal"].is_null() && report["overhead"]["add"]["goal"].is_null());
}

#[test]
fn the_bench_of_operators_fits_a_terminal() {
    let output = run(&mut measure(&["ops", "--quick", "--precision", "f16"]));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    for part in [
        "Operators in f16 on host",
        "matmul",
        "FLOP/s",
        "nobody waiting",
        "Peaks in this run",
    ] {
        assert!(
            stdout(&output).contains(part),
            "{part} is not in:\n{}",
            stdout(&output)
        );
    }
}

#[test]
fn operators_are_measured_in_turn_with_others() {
    let mut command = measure(&["ops", "--take-turns", "--seconds", "0.01"]);
    let mut program = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut orders = program.stdin.take().expect("its standard input");
    orders
        .write_all(b"gelu\nabacus\nsoftmax\ngelu\n")
        .expect("it reads");
    drop(orders);
    let output = program.wait_with_output().expect("the program ends");
    assert_code(&output, 1);
    let mut answers: Vec<&str> = stdout(&output).lines().collect();
    let refused = answers.remove(1);
    assert!(
        refused.starts_with("error: there is no operator `abacus`: known are matmul"),
        "{refused}"
    );
    assert_eq!(answers.len(), 3, "{answers:?}");
    for answer in answers {
        let seconds: f64 = answer.parse().expect("a number");
        assert!(seconds > 0.0, "{answer}");
    }
}

#[test]
fn every_operator_of_the_gpu_bench_is_there() {
    if !has_gpu("every_operator_of_the_gpu_bench_is_there") {
        return;
    }
    for precision in ["f32", "f16"] {
        let arguments = [
            "ops",
            "--device",
            "cuda",
            "--quick",
            "--json",
            "--precision",
            precision,
        ];
        let output = run(&mut with_gpus(&arguments));
        assert_code(&output, 0);
        let report = object(&output);
        let on_gpus = [
            "attention_long",
            "copy",
            "add",
            "cast",
            "embedding",
            "cumsum",
            "max_pool",
        ];
        assert_has_operators(&report, &[&OPERATORS[..], &on_gpus].concat());
        assert_eq!(report["ops"]["gelu"]["goal"], 0.8);
        assert_eq!(report["overhead"]["add"]["goal"], 4000.0);
    }
}
