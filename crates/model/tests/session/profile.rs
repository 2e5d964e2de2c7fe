//! What a profile says of the nodes of a model.

use streampool_device::DeviceKind;
use streampool_model::{Array, NodeTime, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{first, pool};
use crate::onnx::{Graph, Load};
use streampool_model::testing::Random;

fn layers(pool: &Pool) -> Session {
    graph().session(pool)
}

fn graph() -> Graph {
    let mut random = Random::new(5);
    Graph::new()
        .input("x", DType::F32, "n 16")
        .constant("w", &random.reals(&[16, 32]))
        .constant("b", &random.reals(&[32]))
        .node("MatMul x w = xw", &[])
        .node("Add xw b = h", &[])
        .node("Softmax h = s", &[])
        .node("Neg s = n", &[])
        .node("Exp n = e", &[])
        .node("Transpose e = y", &[])
        .outputs("y")
}

fn of<'a>(nodes: &'a [NodeTime], name: &str) -> &'a NodeTime {
    let found = nodes.iter().find(|node| node.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {nodes:?}"))
}

#[test]
fn each_node_is_told_with_what_it_was_made_of() {
    let Some(pool) = pool() else { return };
    let session = layers(&pool);
    let x = Random::new(1).reals(&[4, 16]);
    let expected = first(&session, &[&x]);
    let recording = session.profile(1000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..5).for_each(|_| assert_eq!(first(&session, &[&x]), expected)));
        }
    });
    let profiled = recording.finish().unwrap();
    let nodes = &profiled.nodes;
    let linear = of(nodes, "xw");
    assert_eq!(linear.operator, "fused.Linear");
    assert_eq!(linear.made_of, ["xw", "h"]);
    assert_eq!(of(nodes, "s").made_of, ["s"]);
    // The negation is computed along with the exponential.
    let last = of(nodes, "e");
    assert!(
        last.made_of.starts_with(&["e".to_owned(), "n".to_owned()]),
        "{last:?}"
    );
    assert!(nodes.iter().all(|node| node.count == 15), "{nodes:?}");
    assert!(nodes.is_sorted_by_key(|node| std::cmp::Reverse(node.total)));
    let labels: Vec<&str> = profiled
        .ops
        .labelled()
        .filter_map(|(_, label)| label)
        .collect();
    let named = |label: &str| labels.iter().filter(|other| **other == label).count();
    assert_eq!(named("xw: fused.Linear of xw, h"), 15);
    assert_eq!(named("s: Softmax"), 15);
    if pool.device().properties().kind == DeviceKind::Host {
        assert_eq!(labels.len(), profiled.ops.intervals().len());
    }
}

#[test]
fn what_is_not_profiled_is_not_told() {
    let Some(pool) = pool() else { return };
    let (session, other) = (layers(&pool), layers(&pool));
    let x = Random::new(1).reals(&[4, 16]);
    first(&session, &[&x]);
    drop(session.profile(1000).unwrap());
    first(&session, &[&x]);
    let recording = session.profile(1000).unwrap();
    first(&other, &[&x]);
    let profiled = recording.finish().unwrap();
    assert!(profiled.nodes.is_empty());
    assert!(profiled.ops.labelled().all(|(_, label)| label.is_none()));
    let recording = session.profile(2).unwrap();
    first(&session, &[&x]);
    let few = recording.finish().unwrap();
    assert!(few.nodes.len() <= 2 && few.ops.dropped() > 0);
}

#[test]
fn a_graph_that_is_not_simplified_keeps_its_nodes() {
    let Some(pool) = pool() else { return };
    let options = SessionOptions {
        simplify: false,
        ..SessionOptions::default()
    };
    let plain = graph().load(&pool, &options).unwrap();
    let x = Random::new(1).reals(&[4, 16]);
    let multiplies = |session: &Session| {
        first(session, &[&x]);
        let recording = session.profile(1000).unwrap();
        first(session, &[&x]);
        let nodes = recording.finish().unwrap().nodes;
        nodes.iter().any(|node| node.operator == "MatMul")
    };
    // Else product and sum are one node.
    assert!(multiplies(&plain) && !multiplies(&layers(&pool)));
    let (one, other) = (first(&plain, &[&x]), first(&layers(&pool), &[&x]));
    let values = |array: &Array| array.values::<f32>().unwrap().to_vec();
    let mut pairs = values(&one).into_iter().zip(values(&other));
    assert!(pairs.all(|(one, other)| (one - other).abs() < 1e-5));
}
