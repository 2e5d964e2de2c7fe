//! The script for Macs, as far as it can be tried elsewhere.
#![cfg(unix)]

use std::process::Command;

#[test]
fn the_script_for_macs_watches_what_it_runs() {
    let test = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/test_apple.sh");
    let output = Command::new("bash").arg(test).output();
    let output = output.expect("there is bash");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
