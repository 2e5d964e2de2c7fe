//! The corpus of the fuzz targets of the server: each file comes to an end, by an answer or an error.
#![cfg(feature = "serve")]

#[path = "../../../fuzz/src/serving.rs"]
mod serving;

use std::path::Path;

fn each_of(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).expect("a folder of the corpus");
    let mut count = 0;
    for file in files {
        let file = file.unwrap().path();
        // Where it does not end, this is the last line.
        println!("{}", file.display());
        run(&std::fs::read(&file).unwrap());
        count += 1;
    }
    assert!(count > 8, "{target} has {count} files");
}

#[test]
fn requests() {
    each_of("http", serving::http);
}

#[test]
fn configurations() {
    each_of("config", serving::config);
}

#[test]
fn reports() {
    each_of("reports", serving::reports);
}
