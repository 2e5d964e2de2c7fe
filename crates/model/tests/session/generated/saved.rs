//! Models, requests and answers in files, for another to make the same of them.

use std::fmt::Write;
use std::path::Path;

use super::{Answer, Request};

/// Writes each request as a model with its inputs and ours outputs: names, types and shapes in lines, the bytes behind another.
pub(super) fn save(folder: &Path, seed: u64, model: &[u8], asked: &[Request], made: &[Answer]) {
    for (place, (request, answer)) in asked.iter().zip(made).enumerate() {
        let number = seed * asked.len() as u64 + place as u64;
        let file = |ending: &str| folder.join(format!("{number}.{ending}"));
        let (mut lines, mut bytes) = (String::new(), Vec::new());
        let outputs = answer.as_ref().map(Vec::as_slice).unwrap_or_default();
        let outputs = outputs.iter().flatten().map(|array| ("-", array));
        for (name, array) in request.named().chain(outputs) {
            let _ = write!(lines, "{name} {}", array.dtype());
            for size in array.shape() {
                let _ = write!(lines, " {size}");
            }
            lines.push('\n');
            bytes.extend(array.bytes());
        }
        if let Err(why) = answer {
            let _ = writeln!(lines, "! {}", why.replace('\n', " "));
        }
        let written = [("onnx", model), ("txt", lines.as_bytes()), ("bin", &bytes)];
        for (ending, content) in written {
            std::fs::write(file(ending), content).expect("the folder can be written");
        }
    }
}
