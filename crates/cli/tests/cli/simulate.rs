//! `streampool simulate`.

use crate::program::{
    assert_code, assert_fits_a_terminal, assert_refused, object, run, stdout, streampool,
};

fn simulate(arguments: &[&str]) -> std::process::Output {
    run(&mut streampool(&[&["simulate"][..], arguments].concat()))
}

#[test]
fn replicas_are_found_for_a_target() {
    let load = ["--batch", "1:10,8:20", "--rate", "2000", "--seconds", "5"];
    let found = simulate(
        &[
            &load[..],
            &["--p99", "60", "--replicas", "50", "--json"][..],
        ]
        .concat(),
    );
    assert_code(&found, 0);
    let report = object(&found);
    let replicas = report["replicas"].as_u64().expect("a number");
    // Full batches would do with three.
    assert!((3..10).contains(&replicas), "{report}");
    assert_eq!(report["kept"], true);
    assert!(report["p99"].as_f64().expect("a time") <= 0.06);
    assert_eq!(report["slices"].as_array().expect("slices").len(), 60);

    let few = simulate(&[&load[..], &["--p99", "60", "--replicas", "1"][..]].concat());
    assert_code(&few, 1);
    assert_fits_a_terminal(&few);
    assert!(
        stdout(&few).contains("1 replicas do not keep a p99 of 60"),
        "{}",
        stdout(&few)
    );
}

#[test]
fn times_of_a_file_are_simulated_and_bad_files_are_refused() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (good, bad) = (folder.join("trace.txt"), folder.join("falling.txt"));
    let page = folder.join("plan.html");
    std::fs::write(&good, "0.5\n1.0\n\n2.0\n3.0\n").expect("it is written");
    std::fs::write(&bad, "0.5\n0.4\n").expect("it is written");
    let path = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let (good, bad, page) = (path(&good), path(&bad), path(&page));
    let trace = [
        "--batch",
        "1:10",
        "--warm-up",
        "0",
        "--json",
        "--html",
        &page[..],
        "--trace",
    ];
    let told = simulate(&[&trace[..], &[&good[..]][..]].concat());
    assert_code(&told, 0);
    let report = object(&told);
    assert_eq!(report["requests"], 4);
    assert_eq!(report["answered"], 4);
    assert!(
        std::fs::read_to_string(&page)
            .expect("a page")
            .contains("<svg")
    );
    assert_refused(
        &simulate(&[&trace[..], &[&bad[..]][..]].concat()),
        "times have to rise",
    );
    let cost = ["--cost", &bad[..], "--rate", "1", "--json"];
    assert_refused(
        &simulate(&cost),
        "no report of `streampool bench model --json`",
    );
    let twice = [
        "--batch",
        "1:10",
        "--rate",
        "1",
        "--json",
        "--tenants",
        "a:1:1,a:1:1",
    ];
    assert_refused(&simulate(&twice), "two tenants");
}
