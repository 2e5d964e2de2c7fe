//! Products and convolutions with what follows them.

use streampool_tensor::{DType, Tensor};

use super::{Sketch, int, string};
use crate::graph::{Attribute, Domain};

#[test]
fn a_product_with_bias_and_activation_is_one_node() {
    for (shape, flip, activation) in [
        (vec![4], false, "Relu"),
        (vec![1, 4], true, "Tanh"),
        (vec![1], false, "Sigmoid"),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 3]);
        let (weight, bias) = (sketch.weights(&[3, 4]), sketch.weights(&shape));
        let y = sketch.node("MatMul", &[x, weight]);
        let y = sketch.node("Add", &if flip { [bias, y] } else { [y, bias] });
        let y = sketch.node(activation, &[y]);
        let (graph, report) = sketch.simplified(&[y]);
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(
            report.fusions[0].nodes,
            ["MatMul 0", "Add 1", &format!("{activation} 2")]
        );
    }
}

#[test]
fn a_bias_that_is_none_stays() {
    // By row, of more axes, of more columns.
    for (columns, bias) in [(4, vec![2, 1]), (4, vec![1, 1, 4]), (1, vec![5])] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 3]);
        let (weight, bias) = (sketch.weights(&[3, columns]), sketch.weights(&bias));
        let y = sketch.node("MatMul", &[x, weight]);
        let y = sketch.node("Add", &[y, bias]);
        assert_eq!(sketch.operators(&[y]), ["fused.Linear", "Add"]);
    }
}

#[test]
fn a_product_that_is_an_output_stays_whole() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let (weight, bias) = (sketch.weights(&[3, 4]), sketch.weights(&[4]));
    let product = sketch.node("MatMul", &[x, weight]);
    let y = sketch.node("Add", &[product, bias]);
    assert_eq!(sketch.operators(&[y, product]), ["fused.Linear", "Add"]);
}

#[test]
fn a_product_with_a_matrix_that_is_given_stays() {
    let mut sketch = Sketch::new();
    let (x, weight) = (sketch.input(&[2, 3]), sketch.input(&[3, 4]));
    let y = sketch.node("MatMul", &[x, weight]);
    assert_eq!(sketch.operators(&[y]), ["MatMul"]);
}

#[test]
fn gemm_is_a_linear_layer_if_its_bias_is_one() {
    for (bias, expected) in [
        (vec![4], "fused.Linear"),
        (vec![2, 4], "Gemm"),
        (vec![2, 1], "Gemm"),
        (vec![], "fused.Linear"),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 3]);
        let (weight, bias) = (sketch.weights(&[4, 3]), sketch.weights(&bias));
        let attributes = [
            int("transB", 1),
            ("alpha", Attribute::Float(0.5)),
            ("beta", Attribute::Float(2.0)),
        ];
        let y = sketch.with("Gemm", &[x, weight, bias], &attributes);
        assert_eq!(sketch.operators(&[y]), [expected]);
    }
}

#[test]
fn products_of_one_value_are_packed_if_they_are_alike() {
    for (columns, bias, expected) in [
        ([4, 4, 4], [true, false, true], 1),
        ([4, 4, 5], [false; 3], 2),
        ([3, 4, 5], [true; 3], 3),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 3, 6]);
        let mut outputs = Vec::new();
        for (columns, bias) in columns.into_iter().zip(bias) {
            let weight = sketch.weights(&[6, columns]);
            let mut y = sketch.node("MatMul", &[x, weight]);
            if bias {
                let bias = sketch.weights(&[columns]);
                y = sketch.node("Add", &[y, bias]);
            }
            outputs.push(y);
        }
        let (graph, _) = sketch.simplified(&outputs);
        let linear = graph
            .nodes
            .iter()
            .filter(|node| node.operator.name == "Linear");
        assert_eq!(linear.count(), expected);
    }
}

#[test]
fn what_follows_a_convolution_by_channel_is_folded_into_it() {
    for (op, transposed) in [("Conv", false), ("ConvTranspose", true)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 4, 5, 5]);
        let weight = sketch.weights(if transposed {
            &[4, 3, 3, 3]
        } else {
            &[6, 2, 3, 3]
        });
        let y = sketch.with(op, &[x, weight], &[int("group", 2)]);
        let parameters = [(); 4].map(|()| sketch.weights(&[6]));
        let y = sketch.node("BatchNormalization", &[&[y], &parameters[..]].concat());
        let (scale, shift, whole) = (
            sketch.weights(&[1, 6, 1, 1]),
            sketch.weights(&[6, 1, 1]),
            sketch.number(3.0),
        );
        let y = sketch.node("Mul", &[scale, y]);
        let y = sketch.node("Add", &[y, shift]);
        let y = sketch.node("Sub", &[y, whole]);
        let y = sketch.node("Div", &[y, whole]);
        let y = sketch.node("Relu", &[y]);
        let operators = sketch.operators(&[y]);
        let expected: &[&str] = if transposed {
            &["ConvTranspose", "Relu"]
        } else {
            &["fused.Conv"]
        };
        assert_eq!(operators, expected);
    }
}

#[test]
fn a_normalisation_by_constants_has_a_scale_and_a_shift() {
    for shape in [&[2, 6][..], &[2, 6, 5], &[2, 6, 5, 3]] {
        let mut sketch = Sketch::new();
        let x = sketch.input(shape);
        let parameters = [(); 4].map(|()| sketch.weights(&[6]));
        let y = sketch.node("Relu", &[x]);
        let y = sketch.node("BatchNormalization", &[&[y], &parameters[..]].concat());
        assert_eq!(sketch.operators(&[y]), ["Relu", "fused.ScaleShift"]);
    }
    // A scale that is not known, and elements of more digits.
    for (dtype, is_known) in [(DType::F32, false), (DType::F64, true)] {
        let mut sketch = Sketch::new();
        let x = sketch.input_of(&[2, 6, 5], dtype);
        let scale = match is_known {
            true => sketch.weights(&[6]),
            false => sketch.input(&[6]),
        };
        let others = [(); 3].map(|()| sketch.weights(&[6]));
        let y = sketch.node("BatchNormalization", &[&[x, scale], &others[..]].concat());
        assert_eq!(sketch.operators(&[y]), ["BatchNormalization"]);
    }
}

#[test]
fn what_follows_a_convolution_otherwise_stays() {
    // By column, of more axes, the other way round, and where the convolution is an output.
    for (shape, op, flip, leak) in [
        (vec![3], "Mul", false, false),
        (vec![1, 1, 6, 1, 1], "Mul", false, false),
        (vec![6, 1, 1], "Div", true, false),
        (vec![6, 1, 1], "Add", false, true),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 4, 5, 5]);
        let (weight, other) = (sketch.weights(&[6, 4, 3, 3]), sketch.weights(&shape));
        let conv = sketch.node("Conv", &[x, weight]);
        let y = sketch.node(op, &if flip { [other, conv] } else { [conv, other] });
        let outputs = if leak { vec![y, conv] } else { vec![y] };
        assert_eq!(sketch.operators(&outputs), ["Conv", op]);
    }
}

#[test]
fn hard_swish_ends_a_convolution() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 4, 5, 5]);
    let weight = sketch.weights(&[6, 4, 3, 3]);
    let y = sketch.node("Conv", &[x, weight]);
    let y = sketch.node("HardSwish", &[y]);
    assert_eq!(sketch.operators(&[y]), ["fused.Conv"]);
}

#[test]
fn gelu_ends_a_linear_layer_and_says_which() {
    let mut sketch = Sketch::new();
    sketch.version = 20;
    let x = sketch.input(&[2, 3]);
    let weight = sketch.weights(&[3, 4]);
    let y = sketch.node("MatMul", &[x, weight]);
    let y = sketch.with("Gelu", &[y], &[("approximate", string("tanh"))]);
    let (graph, _) = sketch.simplified(&[y]);
    assert!(
        matches!(graph.nodes[0].attribute("activation"), Some(Attribute::String(name)) if name == "gelu_tanh")
    );
}

#[test]
fn a_matrix_of_few_bits_is_widened_once() {
    for with_zeros in [false, true] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 40]);
        let bytes: Vec<u8> = (0..3 * 3 * 8)
            .map(|place| (place * 37 % 256) as u8)
            .collect();
        let packed = Tensor::from_slice(&sketch.pool, &bytes, &[3, 3, 8]).unwrap();
        let packed = sketch.constant(packed);
        let mut inputs = vec![x, packed, sketch.weights(&[9])];
        if with_zeros {
            let zeros = Tensor::from_slice(&sketch.pool, &bytes[..6], &[6]).unwrap();
            inputs.push(sketch.constant(zeros));
        }
        let attributes = [("K", 40), ("N", 3), ("bits", 4), ("block_size", 16)];
        let attributes = attributes.map(|(name, value)| (name, Attribute::Int(value)));
        let y = sketch.with("MatMulNBits", &inputs, &attributes);
        sketch.graph.nodes[0].operator.domain = Domain::Microsoft;
        let bias = sketch.weights(&[3]);
        let y = sketch.node("Add", &[y, bias]);
        let y = sketch.node("Relu", &[y]);
        assert_eq!(sketch.operators(&[y]), ["fused.Linear"]);
    }
}
