//! Normalisations from their pieces.

use streampool_tensor::DType;

use super::{Sketch, int, ints};
use crate::graph::ValueId;

/// What is left of `x` without its mean, and its variance.
fn moments(sketch: &mut Sketch, x: ValueId, axes: &[i64]) -> (ValueId, ValueId) {
    let attributes = [ints("axes", axes)];
    let mean = sketch.with("ReduceMean", &[x], &attributes);
    let centred = sketch.node("Sub", &[x, mean]);
    let two = sketch.number(2.0);
    let square = sketch.node("Pow", &[centred, two]);
    (centred, sketch.with("ReduceMean", &[square], &attributes))
}

fn layer_norm(sketch: &mut Sketch, x: ValueId, axes: &[i64], width: &[usize]) -> ValueId {
    let (centred, variance) = moments(sketch, x, axes);
    let epsilon = sketch.number(1e-5);
    let sum = sketch.node("Add", &[variance, epsilon]);
    let deviation = sketch.node("Sqrt", &[sum]);
    let y = sketch.node("Div", &[centred, deviation]);
    let (scale, bias) = (sketch.weights(width), sketch.weights(width));
    let y = sketch.node("Mul", &[y, scale]);
    sketch.node("Add", &[bias, y])
}

#[test]
fn layer_norm_is_one_node() {
    let shapes: [(&[i64], &[usize]); 4] = [
        (&[-1], &[6]),
        (&[2], &[1, 6]),
        (&[-2, -1], &[4, 6]),
        (&[-1], &[1]),
    ];
    for (axes, width) in shapes {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 4, 6]);
        let y = layer_norm(&mut sketch, x, axes, width);
        let (graph, report) = sketch.simplified(&[y]);
        assert_eq!(graph.nodes.len(), 1, "{axes:?}");
        assert_eq!(
            graph.nodes[0].operator.to_string(),
            "fused.LayerNormalization"
        );
        assert_eq!(
            (report.fusions[0].what, report.fusions[0].nodes.len()),
            ("layer_norm", 9)
        );
    }
}

#[test]
fn other_axes_or_axes_that_are_added_keep_layer_norm_apart() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 4, 6]);
    let y = layer_norm(&mut sketch, x, &[1], &[6]);
    assert_eq!(sketch.operators(&[y]).len(), 9);
    let mut sketch = Sketch::new();
    let x = sketch.input(&[4, 6]);
    let y = layer_norm(&mut sketch, x, &[-1], &[1, 1, 6]);
    // The pieces without scale and bias are one.
    assert_eq!(
        sketch.operators(&[y]),
        ["fused.LayerNormalization", "Mul", "Add"]
    );
}

#[test]
fn layer_norm_is_left_where_the_variance_is_an_output() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 6]);
    let (centred, variance) = moments(&mut sketch, x, &[-1]);
    let epsilon = sketch.number(1e-5);
    let sum = sketch.node("Add", &[variance, epsilon]);
    let deviation = sketch.node("Sqrt", &[sum]);
    let y = sketch.node("Div", &[centred, deviation]);
    assert_eq!(sketch.operators(&[y, variance]).len(), 7);
}

#[test]
fn a_product_with_the_inverse_and_a_difference_made_twice_are_layer_norm() {
    let mut sketch = Sketch::new();
    sketch.version = 18;
    let x = sketch.input(&[2, 6]);
    let axes = sketch.integers(&[-1]);
    let mean = sketch.node("ReduceMean", &[x, axes]);
    let one = sketch.node("Sub", &[x, mean]);
    let other = sketch.node("Sub", &[x, mean]);
    let square = sketch.node("Mul", &[other, other]);
    let variance = sketch.node("ReduceMean", &[square, axes]);
    let epsilon = sketch.number(1e-6);
    let sum = sketch.node("Add", &[epsilon, variance]);
    let deviation = sketch.node("Sqrt", &[sum]);
    let inverse = sketch.node("Reciprocal", &[deviation]);
    let y = sketch.node("Mul", &[inverse, one]);
    assert_eq!(sketch.operators(&[y]), ["fused.LayerNormalization"]);
}

#[test]
fn rms_norm_is_one_node() {
    for leak in [false, true] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 3, 6]);
        let (two, epsilon, one) = (sketch.number(2.0), sketch.number(1e-6), sketch.number(1.0));
        let square = sketch.node("Pow", &[x, two]);
        let mean = sketch.with("ReduceMean", &[square], &[ints("axes", &[-1])]);
        let sum = sketch.node("Add", &[mean, epsilon]);
        let root = sketch.node("Sqrt", &[sum]);
        let inverse = sketch.node("Div", &[one, root]);
        let y = sketch.node("Mul", &[x, inverse]);
        let scale = sketch.weights(&[6]);
        let y = sketch.node("Mul", &[scale, y]);
        let outputs = if leak { vec![y, root] } else { vec![y] };
        let operators = sketch.operators(&outputs);
        assert_eq!(
            operators == ["fused.RMSNormalization"],
            !leak,
            "{operators:?}"
        );
    }
}

/// The norm of `x` in f32 between casts, with its scale in half precision.
fn half_norm(sketch: &mut Sketch, x: ValueId, centre: bool) -> ValueId {
    let to = |code: i64| [int("to", code)];
    let half = sketch.with("Cast", &[x], &to(10));
    let wide = sketch.with("Cast", &[half], &to(1));
    let (from, variance) = match centre {
        true => moments(sketch, wide, &[-1]),
        false => {
            let square = sketch.node("Mul", &[wide, wide]);
            let attributes = [ints("axes", &[-1])];
            (wide, sketch.with("ReduceMean", &[square], &attributes))
        }
    };
    let epsilon = sketch.number(1e-5);
    let sum = sketch.node("Add", &[variance, epsilon]);
    let deviation = sketch.node("Sqrt", &[sum]);
    let y = sketch.node("Div", &[from, deviation]);
    sketch.with("Cast", &[y], &to(10))
}

#[test]
fn a_norm_between_casts_reads_what_was_cast() {
    for (centre, norm) in [
        (true, "fused.LayerNormalization"),
        (false, "fused.RMSNormalization"),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 4, 6]);
        let y = half_norm(&mut sketch, x, centre);
        let scale = sketch.random(&[6]).to_dtype(DType::F16).unwrap();
        let scale = sketch.constant(scale);
        let y = sketch.node("Mul", &[scale, y]);
        assert_eq!(sketch.operators(&[y]), ["Cast", norm]);
        if centre {
            let bias = sketch.random(&[6]).to_dtype(DType::F16).unwrap();
            let bias = sketch.constant(bias);
            let y = sketch.node("Add", &[y, bias]);
            assert_eq!(sketch.operators(&[y]), ["Cast", norm]);
        }
    }
}

#[test]
fn a_norm_between_casts_stays_where_types_differ() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 4, 6]);
    let y = half_norm(&mut sketch, x, true);
    let wide = sketch.with("Cast", &[y], &[int("to", 1)]);
    let scale = sketch.weights(&[6]);
    let y = sketch.node("Mul", &[wide, scale]);
    assert!(sketch.operators(&[y]).len() > 3);
}
