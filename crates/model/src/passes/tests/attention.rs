//! Attention from its pieces, and several products of one input.

use super::{Sketch, int, ints};
use crate::graph::ValueId;
use streampool_tensor::Tensor;

/// How a test asks for attention.
#[derive(Clone, Copy, Default)]
struct Form {
    scale_query: bool,
    mask: Option<&'static [usize]>,
    fill: Option<f32>,
    axis: Option<i64>,
    leak: bool,
    given_scale: bool,
}

fn heads(sketch: &mut Sketch, perm: [i64; 4]) -> ValueId {
    let x = sketch.input(&[2, 5, 3, 4]);
    sketch.with("Transpose", &[x], &[ints("perm", &perm)])
}

fn operators(form: Form) -> Vec<String> {
    let mut sketch = Sketch::new();
    let (mut query, key) = (
        heads(&mut sketch, [0, 2, 1, 3]),
        heads(&mut sketch, [0, 2, 3, 1]),
    );
    let value = heads(&mut sketch, [0, 2, 1, 3]);
    let two = if form.given_scale {
        sketch.input(&[])
    } else {
        sketch.number(2.0)
    };
    if form.scale_query {
        query = sketch.node("Mul", &[query, two]);
    }
    let mut scores = sketch.node("MatMul", &[query, key]);
    if !form.scale_query {
        scores = sketch.node("Div", &[scores, two]);
    }
    if let Some(shape) = form.mask {
        let mask = sketch.input(shape);
        scores = match form.fill {
            None => sketch.node("Add", &[mask, scores]),
            Some(fill) => {
                let (zero, fill) = (sketch.number(0.0), sketch.number(fill));
                let condition = sketch.node("Less", &[mask, zero]);
                sketch.node("Where", &[condition, fill, scores])
            }
        };
    }
    let weights = sketch.with(
        "Softmax",
        &[scores],
        &[int("axis", form.axis.unwrap_or(-1))],
    );
    let y = sketch.node("MatMul", &[weights, value]);
    let outputs = if form.leak { vec![y, weights] } else { vec![y] };
    let mut left = sketch.operators(&outputs);
    left.retain(|op| op != "Transpose");
    left
}

#[test]
fn attention_is_one_node() {
    let plain = Form::default();
    for form in [
        plain,
        Form {
            scale_query: true,
            ..plain
        },
        Form {
            mask: Some(&[2, 1, 1, 5]),
            ..plain
        },
        Form {
            mask: Some(&[5, 5]),
            axis: Some(3),
            ..plain
        },
    ] {
        let mut left = operators(form);
        left.retain(|op| op != "fused.EmptyRows");
        assert_eq!(left, ["fused.Attention"]);
    }
}

#[test]
fn a_mask_that_fills_is_part_of_attention() {
    let form = Form {
        mask: Some(&[2, 1, 5, 5]),
        fill: Some(f32::MIN),
        ..Form::default()
    };
    assert_eq!(operators(form), ["Less", "fused.Attention"]);
}

#[test]
fn attention_is_left_where_a_condition_is_broken() {
    let plain = Form::default();
    for form in [
        Form {
            leak: true,
            ..plain
        },
        Form {
            axis: Some(2),
            ..plain
        },
        Form {
            given_scale: true,
            ..plain
        },
        Form {
            mask: Some(&[2, 1, 5, 5]),
            fill: Some(-5.0),
            ..plain
        },
        Form {
            mask: Some(&[2, 1, 5, 5]),
            fill: Some(-1e10),
            ..plain
        },
        Form {
            mask: Some(&[1, 2, 3, 5, 5]),
            ..plain
        },
    ] {
        assert!(!operators(form).contains(&"fused.Attention".to_owned()));
    }
}

#[test]
fn a_key_that_is_transposed_by_itself_is_read_as_it_was() {
    let mut sketch = Sketch::new();
    let [query, key, value] = [(); 3].map(|()| sketch.input(&[2, 3, 5, 4]));
    let turned = sketch.with("Transpose", &[key], &[ints("perm", &[0, 1, 3, 2])]);
    let scores = sketch.node("MatMul", &[query, turned]);
    let weights = sketch.node("Softmax", &[scores]);
    let y = sketch.node("MatMul", &[weights, value]);
    assert_eq!(sketch.operators(&[y]), ["fused.Attention"]);
}

#[test]
fn a_key_whose_matrices_are_transposed_is_read_as_it_was() {
    for swapped in [true, false] {
        let mut sketch = Sketch::new();
        let [query, value] = [(); 2].map(|()| sketch.input(&[2, 3, 4, 4]));
        let key = sketch.input(&[2, 3, 4, 4]);
        let sizes = sketch.node("Shape", &[key]);
        let mut part = |start: i64, end: i64| {
            let [start, end] = [start, end].map(|place| sketch.integers(&[place]));
            sketch.node("Slice", &[sizes, start, end])
        };
        let (others, rows, columns) = (part(0, -2), part(-2, -1), part(-1, i64::MAX));
        let all = sketch.integers(&[-1]);
        let before = sketch.with("Concat", &[all, rows, columns], &[int("axis", 0)]);
        // The sizes are the same: only which they are tells that the matrices stay transposed.
        let after = if swapped {
            [others, columns, rows]
        } else {
            [others, rows, columns]
        };
        let after = sketch.with("Concat", &after, &[int("axis", 0)]);
        let matrices = sketch.node("Reshape", &[key, before]);
        let turned = sketch.with("Transpose", &[matrices], &[ints("perm", &[0, 2, 1])]);
        let turned = sketch.node("Reshape", &[turned, after]);
        let scores = sketch.node("MatMul", &[query, turned]);
        let weights = sketch.node("Softmax", &[scores]);
        let y = sketch.node("MatMul", &[weights, value]);
        let left = sketch.operators(&[y]);
        assert_eq!(left == ["fused.Attention"], swapped, "{left:?}");
    }
}

#[test]
fn what_feeds_attention_is_packed_whatever_its_width() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 5, 6]);
    let part = |sketch: &mut Sketch, heads: i64, perm: [i64; 4]| {
        let weight = sketch.weights(&[6, heads as usize * 4]);
        let y = sketch.node("MatMul", &[x, weight]);
        let shape = sketch.integers(&[0, 0, heads, 4]);
        let y = sketch.node("Reshape", &[y, shape]);
        sketch.with("Transpose", &[y], &[ints("perm", &perm)])
    };
    let query = part(&mut sketch, 3, [0, 2, 1, 3]);
    let (key, value) = (
        part(&mut sketch, 1, [0, 2, 3, 1]),
        part(&mut sketch, 1, [0, 2, 1, 3]),
    );
    let scores = sketch.node("MatMul", &[query, key]);
    let weights = sketch.node("Softmax", &[scores]);
    let y = sketch.node("MatMul", &[weights, value]);
    let operators = sketch.operators(&[y]);
    let linear = operators.iter().filter(|op| *op == "fused.Linear");
    assert_eq!(linear.count(), 1, "{operators:?}");
    assert!(operators.contains(&"Split".to_owned()));
}

#[test]
fn a_scale_of_several_numbers_is_none() {
    let mut sketch = Sketch::new();
    let [query, key, value] = [(); 3].map(|()| sketch.input(&[2, 3, 4, 4]));
    let scales = Tensor::from_slice(&sketch.pool, &[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    let scales = sketch.constant(scales);
    let scores = sketch.node("MatMul", &[query, key]);
    let scores = sketch.node("Mul", &[scores, scales]);
    let weights = sketch.node("Softmax", &[scores]);
    let y = sketch.node("MatMul", &[weights, value]);
    assert_eq!(
        sketch.operators(&[y]),
        ["MatMul", "Mul", "Softmax", "MatMul"]
    );
}

#[test]
fn a_mask_of_positions_is_part_of_attention() {
    let mut sketch = Sketch::new();
    let (query, key) = (
        heads(&mut sketch, [0, 2, 1, 3]),
        heads(&mut sketch, [0, 2, 3, 1]),
    );
    let value = heads(&mut sketch, [0, 2, 1, 3]);
    let scores = sketch.node("MatMul", &[query, key]);
    let ends = [(); 3].map(|()| sketch.input(&[]));
    let places = sketch.node("Range", &ends);
    let rows = sketch.with("Unsqueeze", &[places], &[ints("axes", &[1])]);
    let seen = sketch.node("LessOrEqual", &[places, rows]);
    let (zero, lowest) = (sketch.number(0.0), sketch.number(f32::MIN));
    let mask = sketch.node("Where", &[seen, zero, lowest]);
    let masked = sketch.node("Add", &[scores, mask]);
    let weights = sketch.with("Softmax", &[masked], &[int("axis", -1)]);
    let y = sketch.node("MatMul", &[weights, value]);
    let left = sketch.operators(&[y]);
    assert!(left.iter().any(|op| op == "fused.Attention"), "{left:?}");
    assert!(left.iter().all(|op| op != "Softmax"), "{left:?}");
}

#[test]
fn masks_that_are_added_one_after_the_other_become_one_for_all_layers() {
    let mut sketch = Sketch::new();
    let bias = sketch.input(&[1, 3, 5, 5]);
    let mask = sketch.input(&[2, 1, 1, 5]);
    let mut layer = |swapped: bool| {
        let (query, key) = (
            heads(&mut sketch, [0, 2, 1, 3]),
            heads(&mut sketch, [0, 2, 3, 1]),
        );
        let value = heads(&mut sketch, [0, 2, 1, 3]);
        let mut scores = sketch.node("MatMul", &[query, key]);
        for added in [bias, mask] {
            let order = if swapped {
                [added, scores]
            } else {
                [scores, added]
            };
            scores = sketch.node("Add", &order);
        }
        let weights = sketch.with("Softmax", &[scores], &[int("axis", -1)]);
        sketch.node("MatMul", &[weights, value])
    };
    let outputs = [layer(false), layer(true)];
    let mut left = sketch.operators(&outputs);
    left.retain(|op| op != "Transpose");
    left.sort();
    let fused = [
        "Add",
        "fused.Attention",
        "fused.Attention",
        "fused.EmptyRows",
    ];
    assert_eq!(left, fused);
}

/// What is left of `x` times cosines plus its halves, from `halves` on swapped and one negated, times sines.
fn rotary(halves: [i64; 4], swapped: bool) -> Vec<String> {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 3, 5, 8]);
    let [cos, sin] = [(); 2].map(|()| sketch.input(&[5, 8]));
    let (axis, step) = (sketch.integers(&[-1]), sketch.integers(&[1]));
    let [start, middle, from, end] = halves.map(|place| sketch.integers(&[place]));
    let first = sketch.node("Slice", &[x, start, middle, axis, step]);
    let second = sketch.node("Slice", &[x, from, end, axis, step]);
    let negated = sketch.node("Neg", &[second]);
    let turned = sketch.with("Concat", &[negated, first], &[int("axis", 3)]);
    let pairs = if swapped {
        [[cos, x], [sin, turned]]
    } else {
        [[x, cos], [turned, sin]]
    };
    let mut terms = pairs.map(|pair| sketch.node("Mul", &pair));
    if swapped {
        terms.reverse();
    }
    let y = sketch.node("Add", &terms);
    sketch.operators(&[y])
}

#[test]
fn a_rotation_is_one_node() {
    for end in [8, 100, i64::MAX] {
        for swapped in [false, true] {
            assert_eq!(rotary([0, 4, 4, end], swapped), ["fused.Rotary"]);
        }
    }
    // Not of halves: it is computed as it stands.
    assert_eq!(rotary([0, 3, 3, i64::MAX], false), ["fused.Rotary"]);
    for halves in [[1, 5, 4, 8], [0, -4, -4, 8]] {
        let left = rotary(halves, false);
        assert!(left.contains(&"Concat".to_owned()), "{left:?}");
    }
}

#[test]
fn attention_written_as_einstein_sums_is_one_node() {
    for (of_scores, of_values, shape) in [
        ("bhid,bhjd->bhij", "bhij,bhjd->bhid", &[2, 3, 5, 4][..]),
        (
            "b h j d, b h i d -> b h i j",
            "b h i j, b h j d -> b h i d",
            &[2, 3, 5, 4],
        ),
        ("BGHID,BGHJD->BGHIJ", "BGHIJ,BGHJD->BGHID", &[2, 3, 2, 5, 4]),
    ] {
        let mut sketch = Sketch::new();
        let [query, key, value] = [(); 3].map(|()| sketch.input(shape));
        let bias = sketch.input(&[1, shape[shape.len() - 3], 5, 5]);
        let equation = |equation: &str| ("equation", super::string(equation));
        let pair = match of_scores.contains("j d,") {
            true => [key, query],
            false => [query, key],
        };
        let scores = sketch.with("Einsum", &pair, &[equation(of_scores)]);
        let scores = sketch.node("Add", &[scores, bias]);
        let weights = sketch.with("Softmax", &[scores], &[int("axis", -1)]);
        let y = sketch.with("Einsum", &[weights, value], &[equation(of_values)]);
        let left = sketch.operators(&[y]);
        assert_eq!(left, ["fused.EmptyRows", "fused.Attention"]);
    }
}

#[test]
fn an_einstein_sum_that_is_no_product_of_matrices_stays() {
    for (equation, a, b) in [
        ("ij,ij->ij", [3, 4], [3, 4]),
        ("ij,kj->ki", [3, 4], [5, 4]),
        ("ij,jk->ijk", [3, 4], [4, 5]),
        ("ij,jk->ki", [3, 4], [4, 5]),
        ("ii,ij->ij", [3, 3], [3, 4]),
        ("ij,jk", [3, 4], [4, 5]),
    ] {
        let mut sketch = Sketch::new();
        let (a, b) = (sketch.input(&a), sketch.input(&b));
        let y = sketch.with("Einsum", &[a, b], &[("equation", super::string(equation))]);
        let left = sketch.operators(&[y]);
        let is_product = equation == "ij,kj->ki";
        assert_eq!(left == ["Einsum"], !is_product, "{equation}: {left:?}");
    }
}

#[test]
fn a_mask_for_each_window_is_part_of_attention() {
    let plain = [6, 2, 5, 4];
    for (query, value, mask, sizes, back, fuses) in [
        (
            plain,
            plain,
            [1, 3, 1, 5, 5],
            [2, 3, 2, 5, 5],
            [-1, 2, 5, 5],
            true,
        ),
        (
            plain,
            plain,
            [1, 3, 2, 5, 5],
            [-1, 3, 2, 5, 5],
            [-1, 2, 5, 5],
            true,
        ),
        (
            plain,
            plain,
            [2, 3, 1, 1, 5],
            [2, 3, 2, 5, 5],
            [6, 2, 5, 5],
            true,
        ),
        // Heads change with the windows: it is computed as it stands.
        (
            plain,
            [3, 4, 5, 4],
            [1, 3, 1, 5, 5],
            [1, 3, 4, 5, 5],
            [-1, 4, 5, 5],
            true,
        ),
        (
            plain,
            plain,
            [1, 3, 1, 5, 5],
            [1, 3, 4, 5, 5],
            [-1, 2, 5, 5],
            false,
        ),
    ] {
        for has_bias in [false, true] {
            let mut sketch = Sketch::new();
            let [q, v] = [query, value].map(|shape| sketch.input(&shape));
            let key = sketch.input(&[6, 2, 4, 5]);
            let mask = sketch.input(&mask);
            let (sizes, back) = (sketch.integers(&sizes), sketch.integers(&back));
            let mut scores = sketch.node("MatMul", &[q, key]);
            if has_bias {
                let bias = sketch.input(&[1, 2, 5, 5]);
                scores = sketch.node("Add", &[scores, bias]);
            }
            let parted = sketch.node("Reshape", &[scores, sizes]);
            let masked = sketch.node("Add", &[parted, mask]);
            let joined = sketch.node("Reshape", &[masked, back]);
            let weights = sketch.with("Softmax", &[joined], &[int("axis", -1)]);
            let y = sketch.node("MatMul", &[weights, v]);
            let left = sketch.operators(&[y]);
            assert_eq!(left == ["fused.Attention"], fuses, "{left:?}");
        }
    }
}
