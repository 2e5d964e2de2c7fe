//! Convolutions of numbers that were bytes, and what moves such numbers.

use streampool_tensor::Tensor;

use super::Sketch;
use crate::graph::{Attribute, ValueId};

/// A value as bytes, and these as floats again.
fn quantised(sketch: &mut Sketch, x: ValueId, (scale, zero): (f32, u8)) -> ValueId {
    let scale = sketch.number(scale);
    let zero = Tensor::scalar(&sketch.pool, zero).unwrap();
    let zero = sketch.constant(zero);
    let bytes = sketch.node("QuantizeLinear", &[x, scale, zero]);
    sketch.node("DequantizeLinear", &[bytes, scale, zero])
}

const MIDDLE: (f32, u8) = (1.0 / 64.0, 128);

#[test]
fn what_moves_bytes_moves_them_as_bytes() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3, 4]);
    let shape = sketch.integers(&[3, 8]);
    let x = quantised(&mut sketch, x, MIDDLE);
    let reshaped = sketch.node("Reshape", &[x, shape]);
    let reshaped = quantised(&mut sketch, reshaped, MIDDLE);
    let turned = sketch.node("Transpose", &[reshaped]);
    let turned = quantised(&mut sketch, turned, MIDDLE);
    let shape = sketch.integers(&[1, 4, 3, 2]);
    let turned = sketch.node("Reshape", &[turned, shape]);
    let kernel = [("kernel_shape", Attribute::Ints(vec![2, 2]))];
    let most = sketch.with("MaxPool", &[turned], &kernel);
    let most = quantised(&mut sketch, most, MIDDLE);
    let y = sketch.node("Relu", &[most]);
    let expected = [
        "QuantizeLinear",
        "Reshape",
        "Transpose",
        "Reshape",
        "MaxPool",
        "DequantizeLinear",
        "Relu",
    ];
    assert_eq!(sketch.operators(&[y]), expected);
}

#[test]
fn bytes_are_not_taken_for_floats_that_are_too_large_for_them() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let x = quantised(&mut sketch, x, (1e37, 100));
    let turned = sketch.node("Transpose", &[x]);
    let turned = quantised(&mut sketch, turned, (1e37, 100));
    let y = sketch.node("Relu", &[turned]);
    let operators = sketch.operators(&[y]);
    let rounded = operators
        .iter()
        .filter(|name| *name == "fused.RoundToBytes");
    assert_eq!(rounded.count(), 2, "{operators:?}");
}

#[test]
fn joined_bytes_are_quantised_anew_where_their_scale_differs() {
    let mut sketch = Sketch::new();
    let (a, b) = (sketch.input(&[2, 3]), sketch.input(&[2, 5]));
    let a = quantised(&mut sketch, a, MIDDLE);
    let b = quantised(&mut sketch, b, (1.0 / 32.0, 100));
    let joined = sketch.with("Concat", &[a, b], &[("axis", Attribute::Int(1))]);
    let joined = quantised(&mut sketch, joined, MIDDLE);
    let y = sketch.node("Relu", &[joined]);
    let mut operators = sketch.operators(&[y]);
    operators.sort();
    // The other is rounded to bytes of its own, and these to bytes of the first.
    let expected = [
        "Concat",
        "DequantizeLinear",
        "QuantizeLinear",
        "QuantizeLinear",
        "Relu",
        "fused.RoundToBytes",
    ];
    assert_eq!(operators, expected);
}

#[test]
fn what_is_joined_more_than_once_by_other_scales_is_joined_as_floats() {
    let mut sketch = Sketch::new();
    let (a, b) = (sketch.input(&[2, 3]), sketch.input(&[2, 5]));
    let a = quantised(&mut sketch, a, MIDDLE);
    let b = quantised(&mut sketch, b, MIDDLE);
    let outputs = [(1.0 / 32.0, 100), (1.0 / 16.0, 90)].map(|by| {
        let joined = sketch.with("Concat", &[a, b], &[("axis", Attribute::Int(1))]);
        let joined = quantised(&mut sketch, joined, by);
        sketch.node("Relu", &[joined])
    });
    let operators = sketch.operators(&outputs);
    assert!(
        !operators.contains(&"QuantizeLinear".to_owned()),
        "{operators:?}"
    );
}

#[test]
fn moved_floats_that_others_read_stay_floats() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let x = quantised(&mut sketch, x, MIDDLE);
    let turned = sketch.node("Transpose", &[x]);
    let bytes = quantised(&mut sketch, turned, MIDDLE);
    let y = sketch.node("Relu", &[bytes]);
    let operators = sketch.operators(&[y, turned]);
    let rounded = operators
        .iter()
        .filter(|name| *name == "fused.RoundToBytes");
    assert_eq!(rounded.count(), 2, "{operators:?}");
}

#[test]
fn activations_that_keep_all_bytes_are_gone_behind_a_convolution_of_bytes() {
    let clip = |sketch: &mut Sketch, x: ValueId, most: f32| {
        let bounds = [0.0, most].map(|bound| sketch.number(bound));
        sketch.node("Clip", &[x, bounds[0], bounds[1]])
    };
    let relu = |sketch: &mut Sketch, x: ValueId, _: f32| sketch.node("Relu", &[x]);
    type Draw<'a> = &'a dyn Fn(&mut Sketch, ValueId, f32) -> ValueId;
    let cases: [(Draw<'_>, f32, u8, bool); 5] = [
        (&relu, 0.0, 0, true),
        (&relu, 0.0, 1, false),
        (&clip, 4.0, 0, true),
        (&clip, 3.9, 0, false),
        (&clip, 4.0, 9, false),
    ];
    for (draw, most, zero, is_gone) in cases {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[1, 2, 5, 5]);
        let x = quantised(&mut sketch, x, MIDDLE);
        let weights: Vec<i8> = (0..24).map(|value| value - 12).collect();
        let weights = Tensor::from_slice(&sketch.pool, &weights, &[12, 2, 1, 1]).unwrap();
        let weights = sketch.constant(weights);
        let scale = sketch.number(1.0 / 16.0);
        let weights = sketch.node("DequantizeLinear", &[weights, scale]);
        let a = sketch.node("Conv", &[x, weights]);
        let a = draw(&mut sketch, a, most);
        let a = quantised(&mut sketch, a, (1.0 / 64.0, zero));
        let y = sketch.node("Neg", &[a]);
        let operators = sketch.operators(&[y]);
        assert!(operators.contains(&"fused.ConvOfBytes".to_owned()));
        let is_left = operators
            .iter()
            .any(|name| name == "Relu" || name == "Clip");
        assert_eq!(is_left, !is_gone, "{operators:?}");
    }
}
