//! Half precision of what has no room in it, beside the same in `f32`.

use streampool_tensor::{DType, Tensor};

use super::{Sketch, int};
use crate::graph::{Attribute, Dim, Graph, Node, Operator, ValueId, ValueInfo};
use crate::nodes::Value;
use crate::passes::{shorten, simplify};
use crate::testing::{difference, evaluate_eagerly};

/// The largest difference between what a graph makes of `inputs` in half precision and in its own.
fn apart(sketch: &mut Sketch, outputs: &[ValueId], inputs: &[Tensor], to: DType) -> f64 {
    sketch.graph.outputs = outputs.to_vec();
    for (&id, input) in sketch.graph.inputs.iter().zip(inputs) {
        assert_eq!(sketch.graph.value(id).dtype, Some(input.dtype()));
    }
    let inputs: Vec<Option<Value>> = inputs.iter().cloned().map(|x| Some(x.into())).collect();
    let run = |graph: &Graph| {
        let pools = (&sketch.pool, &sketch.pool);
        evaluate_eagerly(graph, pools, &inputs).unwrap()
    };
    let mut short = sketch.graph.clone();
    simplify(&mut short, &sketch.pool).unwrap();
    shorten(&mut short, to).unwrap();
    let is_short = |tensor: &Tensor| tensor.dtype() == to;
    assert!(short.constants.values().any(is_short), "nothing is short");
    let pairs = run(&sketch.graph).into_iter().zip(run(&short));
    let each = pairs.map(|(wanted, got)| {
        let (wanted, got) = (wanted.tensor().unwrap(), got.tensor().unwrap());
        assert_eq!(wanted.dtype(), got.dtype());
        difference(wanted, got).unwrap()
    });
    // Not a number is no less than anything.
    each.fold(0.0, |most, one| if one <= most { most } else { one })
}

fn near(sketch: &mut Sketch, outputs: &[ValueId], inputs: &[Tensor]) {
    for (to, room) in [(DType::F16, 0.01), (DType::BF16, 0.08)] {
        let apart = apart(sketch, outputs, inputs, to);
        assert!(apart < room, "{to}: {apart}");
    }
}

#[test]
fn a_mask_of_the_lowest_value_makes_numbers() {
    let mut sketch = Sketch::new();
    let (scores, mask) = (sketch.input(&[2, 4]), sketch.input(&[2, 4]));
    let (one, lowest) = (sketch.number(1.0), sketch.number(f32::MIN));
    let gone = sketch.node("Sub", &[one, mask]);
    let gone = sketch.node("Mul", &[gone, lowest]);
    let masked = sketch.node("Add", &[scores, gone]);
    let y = sketch.with("Softmax", &[masked], &[int("axis", -1)]);
    let scores = sketch.random(&[2, 4]);
    let mask = [1.0f32, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0];
    let mask = Tensor::from_slice(&sketch.pool, &mask, &[2, 4]).unwrap();
    near(&mut sketch, &[y], &[scores, mask]);
}

#[test]
fn a_normalisation_far_from_zero_stays_exact() {
    let mut sketch = Sketch::new();
    let (x, two) = (sketch.input(&[2, 1, 2]), sketch.number(2.0));
    let parameters = [1.0f32, 0.0, 2000.0, 4e-4].map(|value| {
        let values = Tensor::from_slice(&sketch.pool, &[value], &[1]).unwrap();
        sketch.constant(values)
    });
    let wide = sketch.node("Mul", &[x, two]);
    let y = sketch.with(
        "BatchNormalization",
        &[&[wide], &parameters[..]].concat(),
        &[("epsilon", Attribute::Float(0.0))],
    );
    // The shift is -100,000, which `f16` has not.
    let x = Tensor::from_slice(
        &sketch.pool,
        &[1000.0f32, 1000.0, 1004.0, 996.0],
        &[2, 1, 2],
    );
    let x = [x.unwrap()];
    let apart = [DType::F16, DType::BF16].map(|to| apart(&mut sketch, &[y], &x, to));
    assert!(apart.iter().all(|&apart| apart < 0.5), "{apart:?}");
}

#[test]
fn a_quotient_by_what_is_at_least_an_epsilon_is_a_number() {
    let mut sketch = Sketch::new();
    let (x, weight) = (sketch.input(&[2, 4]), sketch.weights(&[2, 4]));
    let x = sketch.node("Mul", &[x, weight]);
    let epsilon = sketch.number(1e-12);
    let least = sketch.node("Max", &[x, epsilon]);
    let y = sketch.node("Div", &[x, least]);
    let zeros = Tensor::zeros(&sketch.pool, &[2, 4], DType::F32).unwrap();
    near(&mut sketch, &[y], &[zeros]);
}

/// `x` over its deviation along axis 1, as the mean of squares less the square of the mean.
fn by_sums(sketch: &mut Sketch, x: ValueId, width: usize) -> ValueId {
    let axes = sketch.integers(&[1]);
    let each = sketch.number(1.0 / width as f32);
    let sum = sketch.node("ReduceSum", &[x, axes]);
    let square = sketch.node("Mul", &[x, x]);
    let squares = sketch.node("ReduceSum", &[square, axes]);
    let squares = sketch.node("Mul", &[squares, each]);
    let mean = sketch.node("Mul", &[sum, each]);
    let square = sketch.node("Mul", &[mean, mean]);
    let variance = sketch.node("Sub", &[squares, square]);
    let (zero, epsilon) = (sketch.number(0.0), sketch.number(1e-6));
    let variance = sketch.node("Max", &[zero, variance]);
    let sum = sketch.node("Add", &[variance, epsilon]);
    let root = sketch.node("Sqrt", &[sum]);
    let inverse = sketch.node("Reciprocal", &[root]);
    let scale = sketch.weights(&[1, width]);
    let scale = sketch.node("Mul", &[inverse, scale]);
    let centred = sketch.node("Sub", &[x, mean]);
    sketch.node("Mul", &[centred, scale])
}

#[test]
fn sums_of_squares_that_are_more_than_the_largest_are_right() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[3, 512]);
    let y = by_sums(&mut sketch, x, 512);
    let bias = sketch.weights(&[1, 512]);
    let y = sketch.node("Add", &[y, bias]);
    // Sums of squares of some hundred thousands, and a mean that is several deviations.
    let x = sketch.random(&[3, 512]).mul(20.0).unwrap();
    let x = x.add(30.0).unwrap();
    near(&mut sketch, &[y], &[x]);
}

#[test]
fn a_value_is_had_in_both_types() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[3, 64]);
    let (weight, shared) = (sketch.weights(&[64, 64]), sketch.weights(&[64]));
    // A sum that a matrix is multiplied with, that is an output, and that meets a constant which others read as well.
    let axes = sketch.integers(&[0]);
    let sum = sketch.node("ReduceSum", &[x, axes]);
    let wide = sketch.node("Mul", &[sum, shared]);
    let product = sketch.node("MatMul", &[wide, weight]);
    let mixed = sketch.node("Mul", &[product, wide]);
    let short = sketch.node("Sigmoid", &[mixed]);
    let y = sketch.node("Mul", &[short, shared]);
    let x = sketch.random(&[3, 64]).sub(0.5).unwrap();
    near(&mut sketch, &[y, sum, wide], &[x]);
}

#[test]
fn sums_of_integers_stay_integers() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[4, 3]);
    let scale = sketch.weights(&[4, 3]);
    let y = sketch.node("Mul", &[x, scale]);
    let axes = sketch.integers(&[1]);
    let whole = sketch.with("Cast", &[x], &[int("to", 7)]);
    let count = sketch.node("ReduceSum", &[whole, axes]);
    let x = sketch.random(&[4, 3]).mul(9.0).unwrap().floor().unwrap();
    near(&mut sketch, &[y, count], &[x]);
}

#[test]
fn positions_and_counts_keep_their_digits() {
    let mut sketch = Sketch::new();
    let (x, weight) = (sketch.input(&[1, 8]), sketch.weights(&[1, 8]));
    let short = sketch.node("Mul", &[x, weight]);
    // A rotation by positions, as exporters write it, and by those times a column.
    let places: Vec<i64> = (0..8).map(|place| 3001 + 977 * place).collect();
    let places = sketch.integers(&places);
    let whole = sketch.node("Add", &[places, places]);
    let float = sketch.with("Cast", &[whole], &[int("to", 1)]);
    let axes = sketch.integers(&[0]);
    let row = sketch.node("Unsqueeze", &[float, axes]);
    let frequency = Tensor::from_slice(&sketch.pool, &[1.0f32, 0.01], &[2, 1]).unwrap();
    let frequency = sketch.constant(frequency);
    let size = sketch.node("Shape", &[row]);
    let angles = sketch.node("MatMul", &[frequency, row]);
    let cosine = sketch.node("Cos", &[angles]);
    let turned = sketch.node("Mul", &[short, cosine]);
    // A quotient by a count of 70,000.
    let count = sketch.integers(&[70_000]);
    let ones = sketch.node("Mul", &[size, count]);
    let count = sketch.with("Cast", &[ones], &[int("to", 1)]);
    let last = sketch.integers(&[1]);
    let count = sketch.node("Gather", &[count, last]);
    let mean = sketch.node("Div", &[count, count]);
    let y = sketch.node("Add", &[short, mean]);
    let x = sketch.random(&[1, 8]);
    // They are given, as what is known is computed beforehand.
    let given = sketch.graph.constants.remove(&places).unwrap();
    let info = ValueInfo {
        dtype: Some(DType::I64),
        shape: Some(vec![Dim::Fixed(8)]),
        ..ValueInfo::named("places")
    };
    sketch.graph.declare(places, info);
    sketch.graph.inputs.push(places);
    near(&mut sketch, &[turned, y], &[x, given]);
}

#[test]
fn a_mask_of_integers_leaves_numbers_in_rows_without_any() {
    let mut sketch = Sketch::new();
    let (scores, weight) = (sketch.input(&[2, 4]), sketch.weights(&[2, 4]));
    let scores = sketch.node("Mul", &[scores, weight]);
    let mask = sketch.input_of(&[2, 4], DType::I64);
    let (one, lowest) = (sketch.number(1.0), sketch.number(f32::MIN));
    let float = sketch.with("Cast", &[mask], &[int("to", 1)]);
    let gone = sketch.node("Sub", &[one, float]);
    let gone = sketch.node("Mul", &[gone, lowest]);
    let masked = sketch.node("Add", &[scores, gone]);
    let y = sketch.with("Softmax", &[masked], &[int("axis", -1)]);
    let scores = sketch.random(&[2, 4]).mul(0.01).unwrap();
    let mask = Tensor::from_slice(&sketch.pool, &[0i64, 0, 0, 0, 1, 0, 1, 1], &[2, 4]).unwrap();
    near(&mut sketch, &[y], &[scores, mask]);
}

#[test]
fn control_flow_is_told_with_its_node() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2]);
    let mut inner = Graph::default();
    let captured = inner.add_value(Default::default());
    inner.outputs.push(captured);
    sketch.graph.nodes.push(Node {
        name: "If_0".to_owned(),
        operator: Operator::onnx("If", 17),
        inputs: vec![Some(x)],
        outputs: Vec::new(),
        attributes: vec![("then_branch".to_owned(), Attribute::Graph(Box::new(inner)))],
    });
    let error = shorten(&mut sketch.graph, DType::F16)
        .unwrap_err()
        .to_string();
    for part in ["half precision", "control flow", "\"If_0\" (If)", "without"] {
        assert!(error.contains(part), "{error}");
    }
}
