//! What a rewrite must not change: sizes that broadcast, infinities and NaN, types, and values that others read.

use streampool_tensor::{DType, Element, Tensor};

use super::{Sketch, ints};
use crate::graph::{Attribute, Graph, ValueId};
use crate::nodes::Value;
use crate::passes::simplify;
use crate::testing::evaluate_eagerly;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

impl Sketch {
    fn tensor<T: Element>(&self, values: &[T], shape: &[usize]) -> Tensor {
        Tensor::from_slice(&self.pool, values, shape).unwrap()
    }

    /// Some numbers between -2 and 2.
    fn numbers(&mut self, shape: &[usize]) -> Tensor {
        self.random(shape).sub(0.5).unwrap().mul(4.0).unwrap()
    }

    /// What a graph gives for these inputs, or that it fails.
    fn run(&self, graph: &Graph, inputs: &[Tensor]) -> Option<Vec<(Vec<usize>, Vec<f64>)>> {
        let inputs: Vec<Option<Value>> = inputs
            .iter()
            .map(|tensor| Some(tensor.clone().into()))
            .collect();
        let made = evaluate_eagerly(graph, (&self.pool, &self.pool), &inputs).ok()?;
        let numbers = |value: &Value| {
            let tensor = value.tensor().unwrap();
            let wide = tensor.to_dtype(DType::F64).unwrap();
            (tensor.shape().to_vec(), wide.to_vec().unwrap())
        };
        Some(made.iter().map(numbers).collect())
    }

    /// The operators that are left of the graph, which gives the same as before for these inputs.
    fn unchanged(&mut self, outputs: &[ValueId], inputs: &[Tensor]) -> Vec<String> {
        self.graph.outputs = outputs.to_vec();
        let mut graph = self.graph.clone();
        let report = simplify(&mut graph, &self.pool).unwrap();
        let (before, after) = (self.run(&self.graph, inputs), self.run(&graph, inputs));
        assert_eq!(before.is_some(), after.is_some(), "{report:?}");
        for (before, after) in before
            .into_iter()
            .flatten()
            .zip(after.into_iter().flatten())
        {
            assert_eq!(before.0, after.0, "{report:?}");
            for (want, got) in before.1.iter().zip(&after.1) {
                let near = (want - got).abs() <= 1e-4 * (1.0 + want.abs());
                let same = want == got || want.is_nan() && got.is_nan() || near;
                assert!(same, "{:?} for {:?}: {report:?}", after.1, before.1);
            }
        }
        let operators = graph.nodes.iter().map(|node| node.operator.to_string());
        operators.collect()
    }

    /// Attention from its pieces, with what `masked` makes of the scores.
    fn attention(
        &mut self,
        [query, key, value]: [ValueId; 3],
        scale: f32,
        masked: impl FnOnce(&mut Sketch, ValueId) -> ValueId,
    ) -> ValueId {
        let axes = self.graph.value(key).shape.as_ref().unwrap().len() as i64;
        let mut perm: Vec<i64> = (0..axes).collect();
        perm.swap(axes as usize - 2, axes as usize - 1);
        let turned = self.with("Transpose", &[key], &[ints("perm", &perm)]);
        let scores = self.node("MatMul", &[query, turned]);
        let scale = self.number(scale);
        let scores = self.node("Mul", &[scores, scale]);
        let scores = masked(self, scores);
        let weights = self.node("Softmax", &[scores]);
        self.node("MatMul", &[weights, value])
    }
}

#[test]
fn attention_broadcasts_as_its_pieces_do() {
    let cases: &[[&[usize]; 4]] = &[
        // Query, key, value, mask.
        [&[1, 4, 8], &[3, 5, 8], &[3, 5, 8], &[1, 5]],
        [&[2, 1, 4, 8], &[2, 4, 5, 8], &[2, 4, 5, 8], &[5]],
        [&[2, 4, 4, 8], &[2, 1, 5, 8], &[2, 1, 5, 6], &[2, 1, 1, 5]],
        [&[2, 3, 4, 8], &[2, 1, 5, 8], &[2, 3, 5, 8], &[4, 5]],
        [&[2, 3, 4, 8], &[2, 3, 5, 8], &[2, 1, 5, 8], &[4, 1]],
        [&[1, 3, 4, 8], &[1, 3, 5, 8], &[2, 3, 5, 8], &[1]],
        [&[1, 1, 4, 8], &[1, 1, 5, 8], &[1, 1, 5, 8], &[2, 3, 4, 5]],
        // These are not valid.
        [&[4, 2, 4, 8], &[2, 2, 5, 8], &[2, 2, 5, 8], &[1]],
        [&[1, 4, 4, 8], &[1, 2, 5, 8], &[1, 2, 5, 8], &[1]],
    ];
    for shapes in cases {
        for fill in [false, true] {
            let mut sketch = Sketch::new();
            let [query, key, value, mask] = shapes.map(|shape| sketch.input(shape));
            let y = sketch.attention([query, key, value], 0.5, |sketch, scores| {
                if !fill {
                    return sketch.node("Add", &[scores, mask]);
                }
                let (zero, fill) = (sketch.number(0.0), sketch.number(f32::MIN));
                let less = sketch.node("Less", &[mask, zero]);
                sketch.node("Where", &[less, fill, scores])
            });
            let inputs = shapes.map(|shape| sketch.numbers(shape));
            let left = sketch.unchanged(&[y], &inputs);
            assert!(left.contains(&"fused.Attention".to_owned()), "{left:?}");
        }
    }
}

#[test]
fn what_is_masked_is_replaced_and_a_row_without_anything_is_as_the_graph_says() {
    for fill in [f32::MIN, -INF] {
        for where_true in [false, true] {
            let mut sketch = Sketch::new();
            let shapes: [&[usize]; 3] = [&[1, 2, 3, 4], &[1, 2, 3, 4], &[1, 2, 3, 4]];
            let [query, key, value] = shapes.map(|shape| sketch.input(shape));
            let mask = sketch.input_of(&[3, 3], DType::Bool);
            let y = sketch.attention([query, key, value], 0.5, |sketch, scores| {
                let fill = sketch.number(fill);
                match where_true {
                    true => sketch.node("Where", &[mask, fill, scores]),
                    false => sketch.node("Where", &[mask, scores, fill]),
                }
            });
            let mut inputs = shapes.map(|shape| sketch.numbers(shape)).to_vec();
            // The first key has no number, and the second row of queries meets no other.
            let mut keys: Vec<f32> = inputs[1].to_vec().unwrap();
            keys[0] = NAN;
            keys[12] = INF;
            inputs[1] = sketch.tensor(&keys, &[1, 2, 3, 4]);
            let masked = [true, false, false, true, true, true, true, true, false];
            let mask = masked.map(|masked| masked == where_true);
            inputs.push(sketch.tensor(&mask, &[3, 3]));
            assert_eq!(
                sketch.unchanged(&[y], &inputs),
                ["fused.Attention"],
                "{fill} {where_true}"
            );
        }
    }
}

#[test]
fn what_a_mask_fills_with_counts_beside_scores_that_are_lower() {
    for fill in [-1e9, -1e10] {
        let mut sketch = Sketch::new();
        let shapes: [&[usize]; 3] = [&[1, 1, 2, 1], &[1, 1, 3, 1], &[1, 1, 3, 2]];
        let [query, key, value] = shapes.map(|shape| sketch.input(shape));
        let mask = sketch.input_of(&[3], DType::Bool);
        let y = sketch.attention([query, key, value], 0.5, |sketch, scores| {
            let fill = sketch.number(fill);
            sketch.node("Where", &[mask, fill, scores])
        });
        let mut inputs = shapes.map(|shape| sketch.numbers(shape)).to_vec();
        inputs[0] = sketch.tensor(&[1.0f32, -1e6], shapes[0]);
        inputs[1] = sketch.tensor(&[1.0f32, 2e6, 1e6], shapes[1]);
        inputs.push(sketch.tensor(&[true, false, false], &[3]));
        let left = sketch.unchanged(&[y], &inputs);
        assert!(!left.contains(&"fused.Attention".to_owned()), "{left:?}");
    }
}

#[test]
fn a_row_of_negative_infinity_is_nan_as_a_softmax_of_it_is() {
    let mut sketch = Sketch::new();
    let shapes: [&[usize]; 4] = [&[2, 2, 2, 4], &[2, 2, 3, 4], &[2, 2, 3, 4], &[2, 1, 1, 3]];
    let [query, key, value, mask] = shapes.map(|shape| sketch.input(shape));
    let y = sketch.attention([query, key, value], 0.5, |sketch, scores| {
        sketch.node("Add", &[scores, mask])
    });
    // A second layer shares what is made of the mask.
    let z = sketch.attention([key, key, value], 0.5, |sketch, scores| {
        sketch.node("Add", &[mask, scores])
    });
    let mut inputs = shapes.map(|shape| sketch.numbers(shape));
    inputs[3] = sketch.tensor(&[0.0, -INF, 1.0, -INF, -INF, -INF], &[2, 1, 1, 3]);
    let left = sketch.unchanged(&[y, z], &inputs);
    let made = ["fused.EmptyRows", "fused.Attention", "fused.Attention"];
    assert_eq!(left, made);
}

#[test]
fn a_row_of_which_a_mask_leaves_nothing_is_zero_where_nan_is_cleared() {
    // In the second, keys and values have other heads, so that the pieces are computed.
    let shapes: [[&[usize]; 4]; 2] = [
        [&[2, 2, 2, 4], &[2, 2, 3, 4], &[2, 2, 3, 4], &[2, 1, 1, 3]],
        [&[2, 2, 2, 4], &[2, 1, 3, 4], &[2, 2, 3, 4], &[2, 1, 1, 3]],
    ];
    for (shapes, filled) in shapes
        .into_iter()
        .flat_map(|one| [(one, false), (one, true)])
    {
        let mut sketch = Sketch::new();
        let [query, key, value, mask] = shapes.map(|shape| sketch.input(shape));
        let turned = sketch.with("Transpose", &[key], &[ints("perm", &[0, 1, 3, 2])]);
        let scores = sketch.node("MatMul", &[query, turned]);
        let zero = sketch.number(0.0);
        let masked = match filled {
            false => sketch.node("Add", &[scores, mask]),
            true => {
                let fill = sketch.number(-INF);
                let condition = sketch.node("Less", &[mask, zero]);
                sketch.node("Where", &[condition, fill, scores])
            }
        };
        let weights = sketch.node("Softmax", &[masked]);
        let is_nan = sketch.node("IsNaN", &[weights]);
        let weights = sketch.node("Where", &[is_nan, zero, weights]);
        let y = sketch.node("MatMul", &[weights, value]);
        let mut inputs = shapes.map(|shape| sketch.numbers(shape));
        inputs[3] = sketch.tensor(&[0.0, -INF, 1.0, -INF, -INF, -INF], shapes[3]);
        let left = sketch.unchanged(&[y], &inputs);
        let made: &[&str] = if filled {
            &["Less", "fused.Attention"]
        } else {
            &["fused.Attention"]
        };
        assert_eq!(left, made);
    }
}

#[test]
fn a_query_of_infinity_is_nan_as_a_softmax_of_its_scores_is() {
    for masking in 0..3 {
        let mut sketch = Sketch::new();
        let shapes: [&[usize]; 4] = [&[1, 2, 3, 1], &[1, 2, 4, 1], &[1, 2, 4, 5], &[3, 4]];
        let [query, key, value, mask] = shapes.map(|shape| sketch.input(shape));
        let y = sketch.attention([query, key, value], 0.5, |sketch, scores| match masking {
            0 => scores,
            1 => sketch.node("Add", &[scores, mask]),
            _ => {
                let (zero, fill) = (sketch.number(0.0), sketch.number(-INF));
                let condition = sketch.node("Less", &[mask, zero]);
                sketch.node("Where", &[condition, fill, scores])
            }
        });
        let mut inputs = shapes.map(|shape| sketch.numbers(shape));
        // All scores of each head's first two queries are minus infinity.
        inputs[0] = sketch.tensor(&[-INF, -INF, 1.0, -INF, -INF, -1.0], shapes[0]);
        inputs[1] = sketch.tensor(&[1.0, 2.0, 0.5, 3.0, 1.0, 1.0, 1.0, 1.0], shapes[1]);
        let row = [-INF, 0.0, -INF, 1.0];
        inputs[3] = sketch.tensor(&[row, row, row].concat(), shapes[3]);
        let left = sketch.unchanged(&[y], &inputs);
        assert_eq!(left.last().map(String::as_str), Some("fused.Attention"));
    }
}

#[test]
fn a_scale_of_f64_keeps_its_bits() {
    let mut sketch = Sketch::new();
    let shapes: [&[usize]; 3] = [&[1, 2, 3, 4]; 3];
    let [query, key, value] = shapes.map(|shape| sketch.input_of(shape, DType::F64));
    let scale = Tensor::scalar(&sketch.pool, 1e-60).unwrap();
    let scale = sketch.constant(scale);
    let turned = [ints("perm", &[0, 1, 3, 2])];
    let turned = sketch.with("Transpose", &[key], &turned);
    let scores = sketch.node("MatMul", &[query, turned]);
    let scores = sketch.node("Mul", &[scores, scale]);
    let weights = sketch.node("Softmax", &[scores]);
    let y = sketch.node("MatMul", &[weights, value]);
    let mut inputs = shapes.map(|shape| {
        let numbers = sketch.numbers(shape);
        numbers.to_dtype(DType::F64).unwrap()
    });
    inputs[0] = inputs[0].mul(1e60).unwrap();
    assert_eq!(sketch.unchanged(&[y], &inputs), ["fused.Attention"]);
}

/// `x` over the root of its mean square plus `epsilon`.
fn over_root(sketch: &mut Sketch, x: ValueId, epsilon: Tensor, one: Option<Tensor>) -> ValueId {
    let square = sketch.node("Mul", &[x, x]);
    let axes = [ints("axes", &[-1])];
    let mean = sketch.with("ReduceMean", &[square], &axes);
    let epsilon = sketch.constant(epsilon);
    let sum = sketch.node("Add", &[mean, epsilon]);
    let root = sketch.node("Sqrt", &[sum]);
    match one {
        None => sketch.node("Div", &[x, root]),
        Some(one) => {
            let one = sketch.constant(one);
            let inverse = sketch.node("Div", &[one, root]);
            sketch.node("Mul", &[x, inverse])
        }
    }
}

#[test]
fn a_one_with_more_axes_gives_them_to_a_norm() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 6]);
    let epsilon = sketch.tensor(&[1e-5f32], &[]);
    let one = sketch.tensor(&[1.0f32], &[1, 1, 1, 1]);
    let y = over_root(&mut sketch, x, epsilon, Some(one));
    let inputs = [sketch.numbers(&[2, 6])];
    sketch.unchanged(&[y], &inputs);
}

#[test]
fn an_epsilon_that_is_tiny_or_negative_is_kept() {
    let mut sketch = Sketch::new();
    let x = sketch.input_of(&[2, 3], DType::F64);
    let epsilon = sketch.tensor(&[1e-60f64], &[]);
    let y = over_root(&mut sketch, x, epsilon, None);
    let inputs = [sketch.tensor(&[0.0f64, 0.0, 0.0, 1.0, 2.0, 3.0], &[2, 3])];
    sketch.unchanged(&[y], &inputs);
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let epsilon = sketch.tensor(&[-0.5f32], &[]);
    let y = over_root(&mut sketch, x, epsilon, None);
    let inputs = [sketch.tensor(&[0.0f32, 0.0, 0.0, 1.0, 2.0, 3.0], &[2, 3])];
    sketch.unchanged(&[y], &inputs);
}

#[test]
fn a_scale_or_bias_may_broadcast_what_is_normalised() {
    for bias in [false, true] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[2, 1]);
        let epsilon = sketch.tensor(&[1e-5f32], &[]);
        let axes = [ints("axes", &[-1])];
        let mean = sketch.with("ReduceMean", &[x], &axes);
        let centred = sketch.node("Sub", &[x, mean]);
        let square = sketch.node("Mul", &[centred, centred]);
        let variance = sketch.with("ReduceMean", &[square], &axes);
        let epsilon = sketch.constant(epsilon);
        let sum = sketch.node("Add", &[variance, epsilon]);
        let root = sketch.node("Sqrt", &[sum]);
        let mut y = sketch.node("Div", &[centred, root]);
        let scale = sketch.weights(&[if bias { 1 } else { 6 }]);
        y = sketch.node("Mul", &[y, scale]);
        if bias {
            let bias = sketch.weights(&[6]);
            y = sketch.node("Add", &[y, bias]);
        }
        let inputs = [sketch.numbers(&[2, 1])];
        let left = sketch.unchanged(&[y], &inputs);
        assert_eq!(left, ["fused.LayerNormalization"]);
    }
}

#[test]
fn what_a_new_node_reads_stays() {
    let mut sketch = Sketch::new();
    let [query, key, value] = [(); 3].map(|()| sketch.input(&[1, 2, 3, 3]));
    let scores = sketch.node("MatMul", &[query, key]);
    // The mask is the scores, and the values are the weights.
    let twice = sketch.node("Add", &[scores, scores]);
    let weights = sketch.node("Softmax", &[twice]);
    let y = sketch.node("MatMul", &[weights, value]);
    let other = sketch.node("MatMul", &[query, value]);
    let other = sketch.node("Softmax", &[other]);
    let z = sketch.node("MatMul", &[other, other]);
    let w = sketch.node("MatMul", &[key, value]);
    let weights = sketch.node("Softmax", &[w]);
    let w = sketch.node("MatMul", &[weights, w]);
    let inputs = [(); 3].map(|()| sketch.numbers(&[1, 2, 3, 3]));
    sketch.unchanged(&[y, z, w], &inputs);
}

#[test]
fn a_bias_that_counts_for_nothing_is_not_multiplied() {
    let mut sketch = Sketch::new();
    let (x, weight) = (sketch.input(&[2, 3]), sketch.weights(&[3, 2]));
    let bias = sketch.tensor(&[NAN, INF], &[2]);
    let bias = sketch.constant(bias);
    let y = sketch.with(
        "Gemm",
        &[x, weight, bias],
        &[("beta", Attribute::Float(0.0))],
    );
    let inputs = [sketch.numbers(&[2, 3])];
    assert_eq!(sketch.unchanged(&[y], &inputs), ["fused.Linear"]);
}

#[test]
fn hard_swish_is_of_floats() {
    let mut sketch = Sketch::new();
    let x = sketch.input_of(&[7], DType::I32);
    let [three, zero, six] = [3, 0, 6].map(|number: i32| {
        let number = sketch.tensor(&[number], &[]);
        sketch.constant(number)
    });
    let sum = sketch.node("Add", &[x, three]);
    let clipped = sketch.node("Clip", &[sum, zero, six]);
    let product = sketch.node("Mul", &[x, clipped]);
    let y = sketch.node("Div", &[product, six]);
    let inputs = [sketch.tensor(&[-7, -3, -1, 0, 1, 5, 9], &[7])];
    sketch.unchanged(&[y], &inputs);
}

#[test]
fn an_activation_of_infinity_is_that_of_its_pieces() {
    let numbers = [-INF, INF, NAN, -200.0, -1.0, 0.0, 1.0, 1e30, -1e30];
    let mut sketch = Sketch::new();
    let x = sketch.input(&[9]);
    let gate = sketch.node("Sigmoid", &[x]);
    let silu = sketch.node("Mul", &[x, gate]);
    let root = sketch.number(std::f32::consts::SQRT_2);
    let (one, half) = (sketch.number(1.0), sketch.number(0.5));
    let scaled = sketch.node("Div", &[x, root]);
    let erf = sketch.node("Erf", &[scaled]);
    let sum = sketch.node("Add", &[erf, one]);
    let product = sketch.node("Mul", &[x, sum]);
    let gelu = sketch.node("Mul", &[product, half]);
    let inputs = [sketch.tensor(&numbers, &[9])];
    let left = sketch.unchanged(&[silu, gelu], &inputs);
    assert_eq!(left, ["fused.Silu", "fused.Gelu"]);
}

#[test]
fn a_convolution_keeps_a_scale_that_its_weights_cannot_hold() {
    // Once the weights, once the scale is too large, and once the quotient is infinite.
    for (op, dtype, number) in [
        ("Mul", DType::F16, 1000.0),
        ("Div", DType::F32, 0.0),
        ("Mul", DType::F32, INF),
    ] {
        let mut sketch = Sketch::new();
        let x = sketch.input_of(&[1, 1, 3], dtype);
        let weight = sketch.tensor(&[100.0f32, 0.0], &[2, 1, 1]);
        let weight = sketch.constant(weight.to_dtype(dtype).unwrap());
        let y = sketch.node("Conv", &[x, weight]);
        let each = sketch.tensor(&[number, 1.0f32], &[2, 1]);
        let each = sketch.constant(each.to_dtype(dtype).unwrap());
        let y = sketch.node(op, &[y, each]);
        let inputs = [sketch.tensor(&[0.0f32, 0.25, -0.5], &[1, 1, 3])];
        let inputs = [inputs[0].to_dtype(dtype).unwrap()];
        sketch.unchanged(&[y], &inputs);
    }
}
