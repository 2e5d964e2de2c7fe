//! Graphs wired at random, from few names, so that most of what can be wrong with them is.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// A name, seldom empty.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 12 => (0..8u8).prop_map(|place| format!("v{place}"))]
}

fn names(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name(), 0..most)
}

fn operator() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        Just((String::new(), "Add".to_owned())),
        (0..3u8).prop_map(|place| ("my.own".to_owned(), format!("F{place}"))),
    ]
}

fn nodes(inside: BoxedStrategy<Option<GraphProto>>) -> impl Strategy<Value = Vec<NodeProto>> {
    let node = (operator(), names(3), names(2), inside).prop_map(
        |((domain, op), inputs, outputs, inside)| NodeProto {
            domain,
            op,
            inputs,
            outputs,
            attributes: inside
                .map(|graph| inner("body", graph))
                .into_iter()
                .collect(),
            ..NodeProto::default()
        },
    );
    prop::collection::vec(node, 0..4)
}

fn tensors() -> impl Strategy<Value = Vec<TensorProto>> {
    let tensor = (
        name(),
        0..12i32,
        prop::collection::vec(-1..4i64, 0..3),
        0..9usize,
    );
    let tensor = tensor.prop_map(|(name, element, sizes, bytes)| TensorProto {
        name,
        element,
        sizes,
        raw: Bytes::from(vec![0; bytes]),
        ..TensorProto::default()
    });
    prop::collection::vec(tensor, 0..2)
}

fn graphs(inside: BoxedStrategy<Option<GraphProto>>) -> impl Strategy<Value = GraphProto> {
    let parts = (nodes(inside), names(4), names(2), tensors());
    parts.prop_map(|(nodes, inputs, outputs, initializers)| GraphProto {
        nodes,
        inputs: inputs.iter().map(|name| value(name)).collect(),
        outputs: outputs.iter().map(|name| value(name)).collect(),
        initializers,
        ..GraphProto::default()
    })
}

fn models() -> impl Strategy<Value = ModelProto> {
    let none = Just(None).boxed();
    let innermost = prop::option::weighted(0.3, graphs(none.clone())).boxed();
    let inside = prop::option::weighted(0.3, graphs(innermost)).boxed();
    let function =
        (0..3u8, names(3), names(2), nodes(none)).prop_map(|(place, inputs, outputs, nodes)| {
            FunctionProto {
                name: format!("F{place}"),
                domain: "my.own".to_owned(),
                inputs,
                outputs,
                nodes,
                opsets: vec![opset("", 17)],
                ..FunctionProto::default()
            }
        });
    let functions = prop::collection::vec(function, 0..3);
    (graphs(inside), functions).prop_map(|(graph, functions)| ModelProto {
        functions,
        ..model(graph)
    })
}

#[test]
fn graphs_wired_at_random_are_sound_or_refused() {
    let pool = pool();
    let config = Config {
        cases: 5000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]));
    let count = std::cell::Cell::new(0);
    let test = |proto: ModelProto| {
        if let Ok(model) = read_bytes(Bytes::from(proto.encode_to_vec()), &pool) {
            count.set(count.get() + 1);
            for (place, node) in model.graph.nodes.iter().enumerate() {
                let later = &model.graph.nodes[place..];
                let mut made = later.iter().flat_map(|node| node.outputs.iter().flatten());
                let reads: Vec<_> = node.reads().collect();
                prop_assert!(
                    !made.any(|id| reads.contains(id)),
                    "{} reads too early",
                    node.name
                );
            }
        }
        Ok(())
    };
    runner.run(&models(), test).unwrap();
    assert!(count.get() > 100, "only {} of them are good", count.get());
}
