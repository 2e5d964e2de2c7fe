//! The model that the crowd runs: 512 to 1024 to 1024 to 256, with rectifiers between.

use streampool::DType;
use streampool::model::onnx::writer::Graph;
use streampool_console::models::Dense;

use crate::Result;
use crate::noise::Noise;

/// How many values a row of its input has.
pub const INPUTS: usize = 512;

const WIDTHS: [usize; 4] = [INPUTS, 1024, 1024, 256];

/// The bytes of its file: from `x` to `y`, with as many rows as one likes.
pub fn onnx() -> Result<Vec<u8>> {
    onnx_of(&WIDTHS)
}

/// A smaller one, to be loaded meanwhile.
pub fn small_onnx() -> Result<Vec<u8>> {
    onnx_of(&[INPUTS, 128, 64])
}

/// One of these widths, the first of which is [`INPUTS`].
pub fn onnx_of(widths: &[usize]) -> Result<Vec<u8>> {
    let mut noise = Noise::new(7);
    let mut graph = Graph::new().input("x", DType::F32, &format!("batch {INPUTS}"));
    let last = widths.len() - 2;
    let mut from = "x".to_owned();
    for (number, sizes) in widths.windows(2).enumerate() {
        let to = match number == last {
            true => "y".to_owned(),
            false => format!("y{number}"),
        };
        let dense = Dense::new(&mut noise, sizes[0], sizes[1]);
        graph = dense.onto(graph, &format!("l{number}"), &from, &to)?;
        if number != last {
            graph = graph.node(&format!("Relu {to} = x{number}"), &[]);
        }
        from = format!("x{number}");
    }
    let outputs = widths.last().copied().unwrap_or_default();
    Ok(graph
        .output("y", DType::F32, &format!("batch {outputs}"))
        .model(&[("", 18)]))
}
