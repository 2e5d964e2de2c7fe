//! The built-in models as ONNX files, in nodes as exporters write them.

use streampool::model::onnx::writer::{Graph, float, int, ints};
use streampool::{Array, DType};

use super::{Builtin, Dense, EPSILON, HEADS, LENGTH, Layer, Norm, OUTPUTS, WIDTH};
use crate::Result;

/// The version of ONNX's operators.
const OPSET: i64 = 18;

impl Builtin {
    /// The bytes of its file: from `x` to `y`, with as many rows or sequences as one likes.
    pub fn onnx(&self) -> Result<Vec<u8>> {
        let graph = match self {
            Builtin::Linear(dense) => {
                let graph = Graph::new().input("x", DType::F32, &format!("batch {WIDTH}"));
                let graph = with_dense(graph, "dense", dense, "x", "y")?;
                graph.output("y", DType::F32, &format!("batch {OUTPUTS}"))
            }
            Builtin::Encoder(layers) => encoder(layers)?,
        };
        Ok(graph.model(&[("", OPSET)]))
    }
}

fn encoder(layers: &[Layer]) -> Result<Graph> {
    let sizes = format!("batch {LENGTH} {WIDTH}");
    let head = WIDTH / HEADS;
    let mut graph = Graph::new()
        .input("x", DType::F32, &sizes)
        .constant(
            "to_heads",
            &Array::new(&[0, 0, HEADS as i64, head as i64], &[4])?,
        )
        .constant("to_width", &Array::new(&[0, 0, WIDTH as i64], &[3])?)
        .constant("scale", &Array::scalar((head as f32).sqrt().recip()))
        .constant("root_of_2", &Array::scalar(std::f32::consts::SQRT_2))
        .constant("one", &Array::scalar(1.0f32))
        .constant("half", &Array::scalar(0.5f32));
    let mut x = "x".to_owned();
    for (number, layer) in layers.iter().enumerate() {
        let y = match number + 1 == layers.len() {
            true => "y".to_owned(),
            false => format!("x{}", number + 1),
        };
        graph = with_layer(graph, &format!("l{number}."), layer, &x, &y)?;
        x = y;
    }
    Ok(graph.output("y", DType::F32, &sizes))
}

fn with_layer(graph: Graph, l: &str, layer: &Layer, x: &str, y: &str) -> Result<Graph> {
    let mut graph = graph;
    for (name, dense, order) in [
        ("q", &layer.query, [0, 2, 1, 3]),
        ("k", &layer.key, [0, 2, 3, 1]),
        ("v", &layer.value, [0, 2, 1, 3]),
    ] {
        let flat = format!("{l}{name}.flat");
        graph = with_dense(graph, &format!("{l}{name}"), dense, x, &flat)?
            .node(&format!("Reshape {flat} to_heads = {l}{name}.apart"), &[])
            .node(
                &format!("Transpose {l}{name}.apart = {l}{name}"),
                &[ints("perm", &order)],
            );
    }
    graph = graph
        .node(&format!("MatMul {l}q {l}k = {l}products"), &[])
        .node(&format!("Mul {l}products scale = {l}scores"), &[])
        .node(
            &format!("Softmax {l}scores = {l}shares"),
            &[int("axis", -1)],
        )
        .node(&format!("MatMul {l}shares {l}v = {l}taken"), &[])
        .node(
            &format!("Transpose {l}taken = {l}turned"),
            &[ints("perm", &[0, 2, 1, 3])],
        )
        .node(&format!("Reshape {l}turned to_width = {l}joined"), &[]);
    let (joined, mixed) = (format!("{l}joined"), format!("{l}mixed"));
    graph = with_dense(graph, &format!("{l}mix"), &layer.mixed, &joined, &mixed)?;
    let between = format!("{l}between");
    graph = with_norm(
        graph,
        &format!("{l}first"),
        &layer.first,
        x,
        &mixed,
        &between,
    )?;
    let (wide, active, narrow) = (
        format!("{l}wide"),
        format!("{l}active"),
        format!("{l}narrow"),
    );
    graph = with_dense(graph, &format!("{l}up"), &layer.up, &between, &wide)?
        .node(&format!("Div {wide} root_of_2 = {l}divided"), &[])
        .node(&format!("Erf {l}divided = {l}erf"), &[])
        .node(&format!("Add {l}erf one = {l}more"), &[])
        .node(&format!("Mul {wide} {l}more = {l}twice"), &[])
        .node(&format!("Mul {l}twice half = {active}"), &[]);
    graph = with_dense(graph, &format!("{l}down"), &layer.down, &active, &narrow)?;
    with_norm(
        graph,
        &format!("{l}second"),
        &layer.second,
        &between,
        &narrow,
        y,
    )
}

/// `y = x w + b`.
fn with_dense(graph: Graph, name: &str, dense: &Dense, x: &str, y: &str) -> Result<Graph> {
    let weight = Array::new(&dense.weight, &[dense.inputs, dense.outputs])?;
    let bias = Array::new(&dense.bias, &[dense.outputs])?;
    Ok(graph
        .constant(&format!("{name}.weight"), &weight)
        .constant(&format!("{name}.bias"), &bias)
        .node(&format!("MatMul {x} {name}.weight = {name}.product"), &[])
        .node(&format!("Add {name}.product {name}.bias = {y}"), &[]))
}

/// `y = norm(a + b)`.
fn with_norm(graph: Graph, name: &str, norm: &Norm, a: &str, b: &str, y: &str) -> Result<Graph> {
    Ok(graph
        .constant(
            &format!("{name}.scale"),
            &Array::new(&norm.scale, &[WIDTH])?,
        )
        .constant(&format!("{name}.bias"), &Array::new(&norm.bias, &[WIDTH])?)
        .node(&format!("Add {a} {b} = {name}.sum"), &[])
        .node(
            &format!("LayerNormalization {name}.sum {name}.scale {name}.bias = {y}"),
            &[int("axis", -1), float("epsilon", EPSILON)],
        ))
}
