//! Activations from their pieces.

use super::Sketch;
use crate::graph::{Attribute, ValueId};

/// `1 + erf(x / √2)`
fn erf_part(sketch: &mut Sketch, x: ValueId, by_product: bool) -> ValueId {
    let u = if by_product {
        let root = sketch.number(std::f32::consts::FRAC_1_SQRT_2);
        sketch.node("Mul", &[root, x])
    } else {
        let root = sketch.number(std::f32::consts::SQRT_2);
        sketch.node("Div", &[x, root])
    };
    let erf = sketch.node("Erf", &[u]);
    let one = sketch.number(1.0);
    sketch.node("Add", &[erf, one])
}

#[test]
fn gelu_in_each_order_of_its_factors_is_one_node() {
    for (by_product, order) in [(false, 0), (true, 1), (false, 2)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 5]);
        let gate = erf_part(&mut sketch, x, by_product);
        let half = sketch.number(0.5);
        let y = match order {
            0 => {
                let y = sketch.node("Mul", &[x, gate]);
                sketch.node("Mul", &[y, half])
            }
            1 => {
                let y = sketch.node("Mul", &[half, x]);
                sketch.node("Mul", &[y, gate])
            }
            _ => {
                let y = sketch.node("Mul", &[gate, half]);
                sketch.node("Mul", &[x, y])
            }
        };
        assert_eq!(sketch.operators(&[y]), ["fused.Gelu"]);
    }
}

#[test]
fn gelu_is_left_where_an_inner_value_is_read_or_a_number_differs() {
    for (half, leak) in [(0.5, true), (0.4, false)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 5]);
        let gate = erf_part(&mut sketch, x, false);
        let half = sketch.number(half);
        let y = sketch.node("Mul", &[x, gate]);
        let y = sketch.node("Mul", &[y, half]);
        let outputs = if leak { vec![y, gate] } else { vec![y] };
        let operators = sketch.operators(&outputs);
        assert!(
            !operators.contains(&"fused.Gelu".to_owned()),
            "{operators:?}"
        );
        assert_eq!(operators.len(), 5);
    }
}

#[test]
fn a_number_that_adds_an_axis_keeps_gelu_apart() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[5]);
    let gate = erf_part(&mut sketch, x, false);
    let half = sketch.weights(&[1, 1]);
    let y = sketch.node("Mul", &[x, gate]);
    let y = sketch.node("Mul", &[y, half]);
    assert_eq!(sketch.operators(&[y]).len(), 5);
}

#[test]
fn gelu_by_tanh_is_one_node_in_its_spellings() {
    for spelling in 0..3 {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[3, 4]);
        let (cube, one, half) = (
            sketch.number(0.044715),
            sketch.number(1.0),
            sketch.number(0.5),
        );
        let root = sketch.number(0.797_884_6);
        let u = match spelling {
            0 => {
                let three = sketch.number(3.0);
                let power = sketch.node("Pow", &[x, three]);
                let power = sketch.node("Mul", &[cube, power]);
                sketch.node("Add", &[x, power])
            }
            1 => {
                let power = sketch.node("Mul", &[cube, x]);
                let power = sketch.node("Mul", &[x, power]);
                let power = sketch.node("Mul", &[x, power]);
                sketch.node("Add", &[power, x])
            }
            _ => {
                let square = sketch.node("Mul", &[x, x]);
                let square = sketch.node("Mul", &[square, cube]);
                let sum = sketch.node("Add", &[one, square]);
                sketch.node("Mul", &[x, sum])
            }
        };
        let u = sketch.node("Mul", &[root, u]);
        let tanh = sketch.node("Tanh", &[u]);
        let gate = sketch.node("Add", &[one, tanh]);
        let gate = sketch.node("Mul", &[half, gate]);
        let y = sketch.node("Mul", &[x, gate]);
        let (graph, report) = sketch.simplified(&[y]);
        assert_eq!(report.fusions.len(), 1, "spelling {spelling}");
        assert_eq!(graph.nodes.len(), 1);
        assert!(
            matches!(graph.nodes[0].attribute("approximate"), Some(Attribute::String(form)) if form == "tanh")
        );
    }
}

#[test]
fn silu_is_one_node_even_with_a_factor_of_one() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[3, 4]);
    let one = sketch.number(1.0);
    let u = sketch.node("Mul", &[x, one]);
    let gate = sketch.node("Sigmoid", &[u]);
    let y = sketch.node("Mul", &[x, gate]);
    assert_eq!(sketch.operators(&[y]), ["fused.Silu"]);
}

#[test]
fn a_sigmoid_of_something_else_is_no_silu() {
    let mut sketch = Sketch::new();
    let (x, other) = (sketch.input(&[3, 4]), sketch.input(&[3, 4]));
    let gate = sketch.node("Sigmoid", &[other]);
    let y = sketch.node("Mul", &[x, gate]);
    let steep = sketch.number(1.702);
    let u = sketch.node("Mul", &[x, steep]);
    let gate = sketch.node("Sigmoid", &[u]);
    let quick = sketch.node("Mul", &[x, gate]);
    assert_eq!(sketch.operators(&[y, quick]).len(), 5);
}

#[test]
fn hard_swish_is_one_node() {
    for (most, expected) in [(6.0, 1), (5.0, 4)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[3, 4]);
        let (three, zero, six) = (sketch.number(3.0), sketch.number(0.0), sketch.number(6.0));
        let most = sketch.number(most);
        let sum = sketch.node("Add", &[x, three]);
        let gate = sketch.node("Clip", &[sum, zero, most]);
        let y = sketch.node("Mul", &[x, gate]);
        let y = sketch.node("Div", &[y, six]);
        assert_eq!(sketch.operators(&[y]).len(), expected);
    }
}
