//! What is known, what does nothing, and what nobody needs.

use super::{Sketch, int, ints, simplify, simplify_within};
use crate::graph::{Attribute, Capture, Graph, Node, Operator, ValueId, ValueInfo};
use streampool_tensor::{DType, Tensor};

#[test]
fn what_is_known_is_computed_and_what_nobody_needs_goes() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let (a, b) = (sketch.weights(&[3]), sketch.weights(&[3]));
    let sum = sketch.node("Add", &[a, b]);
    let root = sketch.node("Sqrt", &[sum]);
    sketch.node("Exp", &[x]);
    let y = sketch.node("Mul", &[x, root]);
    let (graph, report) = sketch.simplified(&[y]);
    assert_eq!(
        (report.before, report.folded, report.removed, report.after),
        (4, 2, 1, 1)
    );
    assert_eq!(graph.constants.len(), 1);
}

#[test]
fn sizes_that_stay_need_not_be_computed() {
    // Which axes the first two of the new sizes are, and whether that can be said without computing them.
    for (axes, stays) in [([0i64, 1], true), ([0, -2], true), ([1, 0], false)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[5, 5, 12]);
        let x = sketch.node("Exp", &[x]);
        let sizes = sketch.node("Shape", &[x]);
        let [first, second] = axes.map(|axis| {
            let axis = Tensor::scalar(&sketch.pool, axis).unwrap();
            let axis = sketch.constant(axis);
            let size = sketch.node("Gather", &[sizes, axis]);
            let first = sketch.integers(&[0]);
            sketch.node("Unsqueeze", &[size, first])
        });
        let (heads, width) = (sketch.integers(&[3]), sketch.integers(&[4]));
        let list = [first, second, heads, width];
        let list = sketch.with("Concat", &list, &[int("axis", 0)]);
        let y = sketch.node("Reshape", &[x, list]);
        let left = sketch.operators(&[y]);
        assert_eq!(left == ["Exp", "Reshape"], stays, "{left:?}");
    }
}

#[test]
fn what_is_put_together_is_not_put_together_again() {
    let mut sketch = Sketch::new();
    let [a, b, c, d] = [0; 4].map(|_| sketch.input(&[2, 2]));
    let mut concat = |axis, values: &[ValueId]| sketch.with("Concat", values, &[int("axis", axis)]);
    // Of as many values: those that go on from others, in any order, and those that do not.
    let outputs = [
        concat(1, &[a, b, c, d, a]),
        concat(1, &[a, b, c]),
        concat(1, &[a, b]),
        concat(1, &[a, b, c, d]),
        concat(0, &[a, b, d]),
        concat(1, &[b, a, c]),
        concat(1, &[a, c, b]),
    ];
    let (graph, _) = sketch.simplified(&outputs);
    let of = |output: ValueId| {
        let mut nodes = graph.nodes.iter();
        let maker = nodes.find(|node| node.output(0) == Some(output)).unwrap();
        maker
            .inputs
            .iter()
            .map(|id| id.unwrap())
            .collect::<Vec<_>>()
    };
    let [five, three, two, four, other_axis, turned, with_another] = outputs.map(of);
    assert_eq!(five, [outputs[3], a]);
    assert_eq!(three, [outputs[2], c]);
    assert_eq!(two, [a, b]);
    assert_eq!(four, [outputs[1], d]);
    assert_eq!(other_axis, [a, b, d]);
    assert_eq!(turned, [b, a, c]);
    assert_eq!(with_another, [a, c, b]);
}

#[test]
fn what_becomes_too_large_or_is_random_is_left() {
    let mut sketch = Sketch::new();
    let sizes = sketch.integers(&[1 << 40, 1 << 20]);
    let huge = sketch.node("ConstantOfShape", &[sizes]);
    let wide = sketch.integers(&[1 << 20]);
    let wide = sketch.node("ConstantOfShape", &[wide]);
    let random = sketch.with("RandomNormal", &[], &[ints("shape", &[2])]);
    sketch.graph.outputs = vec![huge, wide, random];
    let report = simplify(&mut sketch.graph, &sketch.pool).unwrap();
    assert_eq!((report.folded, report.after), (0, 3));
}

#[test]
fn an_error_of_what_is_known_is_left_for_the_run() {
    let mut sketch = Sketch::new();
    let (table, index) = (sketch.weights(&[3]), sketch.integers(&[7]));
    let missing = sketch.node("Gather", &[table, index]);
    let (a, b) = (sketch.weights(&[3]), sketch.weights(&[4]));
    let odd = sketch.node("Add", &[a, b]);
    let sum = sketch.node("Add", &[table, a]);
    sketch.graph.outputs = vec![missing, odd, sum];
    let report = simplify(&mut sketch.graph, &sketch.pool).unwrap();
    assert_eq!((report.folded, report.after), (1, 2));
}

#[test]
fn nodes_that_do_nothing_go() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let y = sketch.node("Identity", &[x]);
    let y = sketch.node("Dropout", &[y]);
    let y = sketch.with("Cast", &[y], &[int("to", 1)]);
    let y = sketch.with("Transpose", &[y], &[ints("perm", &[0, 1])]);
    let (start, end, axis) = (
        sketch.integers(&[0]),
        sketch.integers(&[i64::MAX]),
        sketch.integers(&[1]),
    );
    let y = sketch.node("Slice", &[y, start, end, axis]);
    let y = sketch.node("Concat", &[y]);
    let y = sketch.node("Exp", &[y]);
    let y = sketch.node("Identity", &[y]);
    let z = sketch.node("Identity", &[y]);
    assert_eq!(sketch.operators(&[y]), ["Exp"]);
    // Both are outputs of their own names.
    assert_eq!(sketch.operators(&[y, z]), ["Exp", "Identity"]);
}

#[test]
fn a_slice_of_a_shape_may_have_any_ends() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let shape = sketch.node("Shape", &[x]);
    for (start, end) in [(-1, i64::MAX), (i64::MAX, -1), (i64::MIN, i64::MAX)] {
        let (start, end) = (sketch.integers(&[start]), sketch.integers(&[end]));
        let part = sketch.node("Slice", &[shape, start, end]);
        let y = sketch.with("Cast", &[part], &[int("to", 1)]);
        let filled = sketch.node("ConstantOfShape", &[part]);
        assert!(!sketch.operators(&[y, filled]).is_empty());
    }
}

#[test]
fn nodes_that_do_something_stay() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let y = sketch.with("Cast", &[x], &[int("to", 11)]);
    let y = sketch.with("Transpose", &[y], &[ints("perm", &[1, 0])]);
    let (start, end, axis) = (
        sketch.integers(&[1]),
        sketch.integers(&[i64::MAX]),
        sketch.integers(&[1]),
    );
    let y = sketch.node("Slice", &[y, start, end, axis]);
    assert_eq!(sketch.operators(&[y]), ["Cast", "Transpose", "Slice"]);
}

#[test]
fn inputs_and_constants_as_outputs_keep_their_names() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2]);
    let constant = sketch.weights(&[3]);
    let (y, z) = (
        sketch.node("Identity", &[x]),
        sketch.node("Identity", &[constant]),
    );
    let (graph, _) = sketch.simplified(&[y, z]);
    assert_eq!(graph.outputs, [y, z]);
    assert_eq!(graph.nodes.len(), 1);
}

/// A graph that takes `factor` from around and makes its square root, times `x` from around.
fn branch(factor: ValueId, x: ValueId, op: &str) -> Graph {
    let mut sketch = Sketch::new();
    let (here, there) = (sketch.value("factor"), sketch.value("x"));
    for (around, here) in [(factor, here), (x, there)] {
        sketch.graph.captures.push(Capture { around, here });
    }
    let root = sketch.node("Sqrt", &[here]);
    let y = sketch.node(op, &[root, there]);
    sketch.graph.outputs = vec![y];
    sketch.graph
}

fn chosen(condition: Option<bool>) -> (Graph, super::Report) {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3]);
    let condition = match condition {
        Some(value) => {
            let tensor = Tensor::scalar(&sketch.pool, value).unwrap();
            sketch.constant(tensor)
        }
        None => {
            let given = sketch.input(&[1]);
            sketch.with("Cast", &[given], &[int("to", 9)])
        }
    };
    let factor = sketch.weights(&[3]);
    let attributes = [
        (
            "then_branch",
            Attribute::Graph(Box::new(branch(factor, x, "Mul"))),
        ),
        (
            "else_branch",
            Attribute::Graph(Box::new(branch(factor, x, "Add"))),
        ),
    ];
    let y = sketch.with("If", &[condition], &attributes);
    let y = sketch.node("Exp", &[y]);
    sketch.simplified(&[y])
}

#[test]
fn the_branch_that_is_taken_replaces_its_node() {
    for (condition, op) in [(true, "Mul"), (false, "Add")] {
        let (graph, report) = chosen(Some(condition));
        let operators: Vec<&str> = graph
            .nodes
            .iter()
            .map(|node| &node.operator.name[..])
            .collect();
        assert_eq!(operators, [op, "Exp"]);
        assert_eq!((report.before, report.after), (6, 2));
    }
}

#[test]
fn constants_are_known_inside_nodes() {
    let (graph, report) = chosen(None);
    let inside: Vec<&Graph> = graph.nodes.iter().flat_map(Node::graphs).collect();
    assert_eq!(inside.len(), 2);
    for branch in inside {
        assert_eq!(
            (
                branch.nodes.len(),
                branch.constants.len(),
                branch.captures.len()
            ),
            (1, 1, 1)
        );
    }
    assert_eq!(report.folded, 2);
}

#[test]
fn a_long_chain_is_no_matter_of_the_stack() {
    let mut sketch = Sketch::new();
    let mut y = sketch.input(&[1]);
    let one = sketch.number(1.0);
    for _ in 0..50_000 {
        let id = sketch.graph.add_value(ValueInfo::default());
        sketch.graph.nodes.push(Node {
            name: String::new(),
            operator: Operator::onnx("Mul", 17),
            inputs: vec![Some(y), Some(one)],
            outputs: vec![Some(id)],
            attributes: Vec::new(),
        });
        y = id;
    }
    sketch.graph.outputs = vec![y];
    let report = simplify(&mut sketch.graph, &sketch.pool).unwrap();
    assert_eq!(report.after, 50_000);
}

#[test]
fn types_are_followed_only_as_far_as_they_are_certain() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2]);
    sketch.graph.declare(
        x,
        ValueInfo {
            shape: sketch.graph.value(x).shape.clone(),
            ..ValueInfo::default()
        },
    );
    let y = sketch.with("Cast", &[x], &[int("to", 1)]);
    let z = sketch.with("Cast", &[y], &[int("to", 1)]);
    assert_eq!(sketch.operators(&[z]), ["Cast"]);
    assert_eq!(sketch.random(&[1]).dtype(), DType::F32);
}

#[test]
fn folding_stops_at_a_cost_and_leaves_the_rest() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[16, 16]);
    let (a, b) = (sketch.weights(&[16, 16]), sketch.weights(&[16, 16]));
    let first = sketch.node("MatMul", &[a, b]);
    let second = sketch.node("MatMul", &[first, b]);
    let y = sketch.node("Add", &[x, second]);
    sketch.graph.outputs = vec![y];
    let product = 16 * 16 * 16;
    for (most, folded) in [(product - 1, 0), (product, 1), (2 * product, 2)] {
        let mut graph = sketch.graph.clone();
        let report = simplify_within(&mut graph, &sketch.pool, most).unwrap();
        assert_eq!(
            (report.folded, report.after),
            (folded, 3 - folded),
            "{most}"
        );
    }
}
