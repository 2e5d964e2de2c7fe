//! `streampool bench model`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::onnx::{folder, model};
use crate::program::{
    assert_code, assert_fits_a_terminal, assert_refused, object, run, stdout, streampool,
};

fn bench(model: &Path, arguments: &[&str]) -> Command {
    let model = model.to_str().expect("a path of text");
    streampool(&[&["bench", "model", model], arguments].concat())
}

fn points(report: &Value) -> &[Value] {
    report["points"].as_array().expect("a list of points")
}

#[track_caller]
fn number(of: &Value, name: &str) -> f64 {
    let value = of[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} in {of}"))
}

/// Each value of `name`, in the order of the points.
fn each(report: &Value, name: &str) -> Vec<Value> {
    points(report)
        .iter()
        .map(|point| point[name].clone())
        .collect()
}

#[test]
fn every_combination_is_a_point() {
    let path = model("every_combination", "Relu");
    let output = run(&mut bench(
        &path,
        &[
            "--shape",
            "x=1,4,3",
            "--shape",
            "x=1,2,3",
            "--batch",
            "1,8",
            "--threads",
            "1,4",
            "--seconds",
            "0.02",
            "--json",
        ],
    ));
    assert_code(&output, 0);
    let report = object(&output);
    let shapes = ["x=1,4,3", "x=8,4,3", "x=1,2,3", "x=8,2,3"];
    let expected: Vec<&str> = shapes.iter().flat_map(|shape| [*shape; 2]).collect();
    assert_eq!(each(&report, "shape"), expected);
    assert_eq!(each(&report, "threads"), [1, 4, 1, 4, 1, 4, 1, 4]);
    assert_eq!(each(&report, "rows"), [1, 1, 8, 8, 1, 1, 8, 8]);
    for point in points(&report) {
        assert_eq!(point["via"], "threads");
        assert_eq!(
            (&point["failed"], &point["given_up"]),
            (&0.into(), &0.into()),
            "{point}"
        );
        assert!(
            number(point, "requests") >= number(point, "threads"),
            "{point}"
        );
        let rows = number(point, "requests_per_second") * number(point, "rows");
        assert!(
            (number(point, "rows_per_second") / rows - 1.0).abs() < 1e-9,
            "{point}"
        );
        let latency = &point["latency_seconds"];
        assert!(number(latency, "max") > 0.0, "{point}");
        let known = ["p50", "p90", "p99", "p99_9", "max"].map(|name| latency[name].as_f64());
        let known: Vec<f64> = known.into_iter().flatten().collect();
        assert!(known.is_sorted(), "{point}");
    }
    let verdict = report["verdict"].as_array().expect("a list of sentences");
    assert_eq!(verdict.len(), 2, "one for each set: {verdict:?}");
}

#[test]
fn requests_arrive_whoever_answers_them() {
    let path = model("requests_arrive", "Relu");
    let arguments = [
        "--shape",
        "x=1,4,3",
        "--rate",
        "100,400",
        "--threads",
        "1,3",
    ];
    let output = run(bench(&path, &arguments).args(["--seconds", "0.25", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    let rates = each(&report, "offered_per_second");
    assert_eq!(
        rates,
        [
            Value::Null,
            100.0.into(),
            400.0.into(),
            100.0.into(),
            400.0.into()
        ]
    );
    let arrived = |point: &Value| number(point, "requests") + number(point, "given_up");
    let [_, one, one_more, three, three_more] = points(&report) else {
        panic!("{report}");
    };
    assert_eq!(arrived(one), arrived(three));
    assert_eq!(arrived(one_more), arrived(three_more));
    assert!(
        arrived(one) < arrived(one_more) && arrived(one) > 5.0,
        "{report}"
    );
    for point in [one, three] {
        assert!(number(point, "seconds") >= 0.25, "{point}");
        assert!(
            point["latency_seconds"]["p99_9"].is_null(),
            "so few say nothing of it: {point}"
        );
    }
}

#[test]
fn a_sweep_is_written_for_all_readers() {
    let test = "a_sweep_is_written";
    let path = model(test, "Relu");
    let (csv, out) = (folder(test).join("points.csv"), folder(test).join("pages"));
    let output = run(bench(
        &path,
        &["--shape", "x=1,4,3", "--batch", "1,16", "--seconds", "0.02"],
    )
    .args([
        "--csv".as_ref(),
        csv.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ]));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    let page = stdout(&output);
    for part in [
        "model.onnx on host",
        "x=1,4,3 to x=16,4,3\n\neach thread runs the model; latency in ",
        "threads  rows",
        "The highest throughput is with",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let csv = std::fs::read_to_string(csv).expect("the points");
    assert_eq!(csv.lines().count(), 1 + 4 * 2, "{csv}");
    assert!(csv.starts_with("via,shape,rows,threads,"), "{csv}");
    let html = std::fs::read_to_string(out.join("report.html")).expect("the page");
    assert_eq!(html.matches("<svg").count(), 2, "{html}");
    assert!(html.contains("The highest throughput is with"), "{html}");
}

#[test]
fn the_queue_is_measured_beside_the_same_threads_without() {
    let path = model("the_queue_is_measured", "Relu");
    let arguments = [
        "--shape",
        "x=1,4,3",
        "--threads",
        "1,4",
        "--seconds",
        "0.05",
        "--queue",
    ];
    let output = run(bench(&path, &arguments).args(["--max-batch", "8", "--json"]));
    assert_code(&output, 0);
    let report = object(&output);
    assert_eq!(
        each(&report, "via"),
        ["threads", "threads", "queue", "queue"]
    );
    let [_, _, alone, many] = points(&report) else {
        panic!("{report}");
    };
    assert_eq!(number(alone, "rows_per_batch"), 1.0);
    let rows = number(many, "rows_per_batch");
    assert!((1.0..=8.0).contains(&rows), "{many}");
    assert!(
        report["verdict"][0]
            .as_str()
            .expect("a sentence")
            .contains("queue")
    );
    let output = run(&mut bench(&path, &arguments));
    assert_code(&output, 0);
    assert_fits_a_terminal(&output);
    assert!(stdout(&output).contains("through the queue; latency in"));
}

#[test]
fn what_cannot_be_measured_is_told_with_what_would_be_right() {
    let path = model("what_cannot_be_measured", "Relu");
    let nowhere = folder("what_cannot_be_measured").join("no/such/points.csv");
    let nowhere = nowhere.to_str().expect("text");
    let cases: [(&[&str], &str); 3] = [
        (&[], "--shape x=1,?,3"),
        (&["--shape", "z=1"], "no input `z`: it has x"),
        (&["--shape", "x=1,2,3", "--csv", nowhere], "points.csv"),
    ];
    for (arguments, part) in cases {
        let output = run(bench(&path, arguments).arg("--json"));
        assert_refused(&output, part);
    }
    for wrong in [
        &["--threads", "1,0"][..],
        &["--batch", "none"],
        &["--rate", "0"],
        &["--max-batch", "8"],
    ] {
        let output = run(&mut bench(&path, wrong));
        assert_code(&output, 2);
    }
}
