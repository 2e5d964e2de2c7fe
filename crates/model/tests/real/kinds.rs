//! What kind of file it is, from its first and last bytes.

use std::path::Path;

use streampool_model::{Array, Session};
use streampool_tensor::Pool;

use crate::compare::{assert_near, floats, in_half, run};
use crate::data::{Arrays, MAGIKA, references};
use crate::pool;

/// How many bytes at each end count, and among how many blanks are left out.
const ENDS: usize = 1024;
const BLOCK: usize = 4096;
/// Stands where there is no byte.
const NOTHING: i32 = 256;

const PYTHON: &[u8] =
    b"import os\n\ndef main():\n    for name in os.listdir('.'):\n        print(name)\n\n\
    if __name__ == '__main__':\n    main()\n";
const C: &[u8] = b"#include <stdio.h>\n#include <stdlib.h>\n\nint main(int argc, char **argv) {\n    \
    for (int i = 1; i < argc; i++) {\n        printf(\"%s\\n\", argv[i]);\n    }\n    return EXIT_SUCCESS;\n}\n";
const SHELL: &[u8] = b"#!/bin/sh\nset -eu\nfor file in *.txt; do\n    echo \"$file\"\n    \
    wc -l \"$file\" | cut -d' ' -f1\ndone\n";
const HTML: &[u8] =
    b"<!DOCTYPE html>\n<html>\n<head><title>Streams</title></head>\n<body>\n<h1>Streams</h1>\n\
    <p>Each thread has <b>one</b>.</p>\n<ul><li>first</li><li>second</li></ul>\n</body>\n</html>\n";
const CSV: &[u8] =
    b"name,age,town\nAda,36,London\nAlan,41,Wilmslow\nGrace,85,Arlington\nEdsger,72,Nuenen\n";
/// The head and the end of a picture; between them lies what could be its data.
const PNG: (&[u8], &[u8]) = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x06\0\0\0\x5c\x72\xa8\x66",
    b"\0\0\0\0IEND\xaeB\x60\x82",
);

fn png() -> Vec<u8> {
    let data = (0..3000u32).map(|place| (place * place * 37 + place * 11) as u8);
    PNG.0
        .iter()
        .copied()
        .chain(data)
        .chain(PNG.1.iter().copied())
        .collect()
}

/// Files of kinds that are known.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read(own.join(path)).expect("a file of this crate");
    let mut files = vec![
        ("rust", read("src/session/mod.rs")),
        ("toml", read("../../Cargo.toml")),
        ("txt", read("../../LICENSE-MIT")),
        ("npz", read("../tensor/tests/reference/norm.npz")),
        ("python", read("../tensor/tests/data/make.py")),
        ("python", PYTHON.to_vec()),
        ("c", C.to_vec()),
        ("shell", SHELL.to_vec()),
        ("html", HTML.to_vec()),
        ("csv", CSV.to_vec()),
        ("png", png()),
    ];
    if cfg!(target_os = "linux") {
        let test = std::env::current_exe().expect("a test is in a file");
        files.push(("elf", std::fs::read(test).expect("a test can be read")));
    }
    files
}

/// What the model is given of a file.
fn features(file: &[u8]) -> Vec<i32> {
    // Also the vertical tabulator counts as a blank.
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 11;
    let block = BLOCK.min(file.len());
    let (first, last) = (&file[..block], &file[file.len() - block..]);
    let begin = first.iter().skip_while(|byte| blank(byte)).take(ENDS);
    let mut features: Vec<i32> = begin.map(|&byte| i32::from(byte)).collect();
    features.resize(ENDS, NOTHING);
    let end = last.iter().rev().skip_while(|byte| blank(byte)).take(ENDS);
    let mut end: Vec<i32> = end.map(|&byte| i32::from(byte)).collect();
    end.resize(ENDS, NOTHING);
    features.extend(end.iter().rev());
    features
}

/// Files, one after the other in turn.
pub fn batch(first: usize, count: usize) -> Arrays {
    let files = files();
    let chosen = files.iter().cycle().skip(first).take(count);
    let features: Vec<i32> = chosen.flat_map(|(_, file)| features(file)).collect();
    let array = Array::new(&features, &[count, 2 * ENDS]).expect("as many as counted");
    vec![("bytes".to_owned(), array)]
}

pub fn session(pool: &Pool) -> Result<Session, String> {
    let path = MAGIKA.file("model.onnx")?;
    Ok(Session::load(pool, path).unwrap_or_else(|error| panic!("{error}")))
}

/// The kinds the model tells apart.
fn kinds() -> Result<Vec<String>, String> {
    let config = MAGIKA.file("config.min.json")?;
    let config = std::fs::read(config).map_err(|error| error.to_string())?;
    let config: serde_json::Value = serde_json::from_slice(&config).expect("its settings are JSON");
    let kinds = config["target_labels_space"].as_array();
    let kinds = kinds.expect("a list of kinds").iter();
    Ok(kinds
        .map(|kind| kind.as_str().expect("a name").to_owned())
        .collect())
}

#[test]
fn files_are_of_the_kind_they_are() {
    let Some(pool) = pool() else { return };
    let (session, kinds) = match session(&pool).and_then(|session| Ok((session, kinds()?))) {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    let files = files();
    // One by one, and all at once.
    let together = run(&session, &batch(0, files.len()));
    for (place, (kind, _)) in files.iter().enumerate() {
        let alone = run(&session, &batch(place, 1));
        let row = &floats(&together[0].1)[place * kinds.len()..][..kinds.len()];
        for scores in [floats(&alone[0].1), row] {
            let (best, score) = scores
                .iter()
                .enumerate()
                .max_by(|one, other| one.1.total_cmp(other.1))
                .expect("there are kinds");
            assert_eq!(kinds[best], *kind, "file {place}, sure by {score}");
        }
    }
}

#[test]
fn scores_agree_with_onnx_runtime() {
    let Some(pool) = pool() else { return };
    let inputs = [batch(0, 1), batch(1, 3), batch(4, 11)];
    let made = MAGIKA.file("model.onnx").and_then(|path| {
        let references = references(&path, "magika", &inputs)?;
        Ok((session(&pool)?, references))
    });
    let (session, references) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    for (inputs, expected) in &references {
        assert_near("magika", &run(&session, inputs), expected, 1e-4);
    }
    assert_eq!(
        session.statistics().nodes_alone,
        0,
        "all of it is one program"
    );
}

#[test]
fn files_are_of_the_kind_they_are_in_half_precision() {
    let Some(pool) = pool() else { return };
    let made = session(&pool).and_then(|exact| Ok((exact, MAGIKA.file("model.onnx")?)));
    let (exact, path) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    let inputs = batch(0, files().len());
    let half = in_half(&pool, &path);
    assert_near(
        "magika in half",
        &run(&half, &inputs),
        &run(&exact, &inputs),
        0.05,
    );
}
