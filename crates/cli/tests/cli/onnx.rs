//! A small ONNX model, written byte by byte: a file of messages, each field a number and a value.

use std::path::{Path, PathBuf};

/// The number of f32 among element types.
const F32: u64 = 1;

/// A number in seven bits at a time.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn node(op: &str, name: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let inputs: Vec<u8> = inputs
        .iter()
        .flat_map(|input| bytes(1, input.as_bytes()))
        .collect();
    [
        inputs,
        bytes(2, output.as_bytes()),
        bytes(3, name.as_bytes()),
        bytes(4, op.as_bytes()),
    ]
    .concat()
}

/// An f32 input or output; a size is a number or a name.
fn value(name: &str, sizes: &[&str]) -> Vec<u8> {
    let size = |size: &&str| match size.parse() {
        Ok(fixed) => bytes(1, &number(1, fixed)),
        Err(_) => bytes(1, &bytes(2, size.as_bytes())),
    };
    let shape: Vec<u8> = sizes.iter().flat_map(size).collect();
    let tensor = [number(1, F32), bytes(2, &shape)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

fn weight(name: &str, shape: &[u64], values: &[f32]) -> Vec<u8> {
    let sizes: Vec<u8> = shape.iter().flat_map(|&size| number(1, size)).collect();
    let raw: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    [
        sizes,
        number(2, F32),
        bytes(8, name.as_bytes()),
        bytes(9, &raw),
    ]
    .concat()
}

/// The folder of a test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("the folder of a test can be made");
    folder
}

/// Writes a model of `y = LAST(x w)`, with `x` of `[batch, rows, 3]` and `w` of 3 × 2, where `LAST` is an operator.
pub fn model(test: &str, last: &str) -> PathBuf {
    let graph = [
        bytes(1, &node("MatMul", "product", &["x", "w"], "h")),
        bytes(1, &node(last, "ending", &["h"], "y")),
        bytes(2, b"small"),
        bytes(5, &weight("w", &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, -1.0])),
        bytes(11, &value("x", &["batch", "rows", "3"])),
        bytes(12, &value("y", &["batch", "rows", "2"])),
    ]
    .concat();
    let model = [
        number(1, 8),
        bytes(2, b"by hand"),
        bytes(7, &graph),
        bytes(8, &number(2, 17)),
    ]
    .concat();
    let path = folder(test).join("model.onnx");
    std::fs::write(&path, model).expect("the model can be written");
    path
}
