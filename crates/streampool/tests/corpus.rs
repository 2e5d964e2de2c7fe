//! The corpus of the fuzz targets, and what once broke: each file comes to an end, by an answer or an error.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::path::{Path, PathBuf};

fn each_of(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).expect("a folder of the corpus");
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 8, "{target} has {} files", files.len());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        // Where it does not end, this is the last line.
        println!("{}", file.display());
        run(&bytes);
    }
}

#[test]
fn models() {
    each_of("onnx", targets::onnx);
}

#[test]
fn weights() {
    each_of("safetensors", targets::safetensors);
}

#[test]
fn arrays() {
    each_of("numpy", targets::numpy);
}

#[test]
fn variables() {
    each_of("settings", targets::settings);
}
