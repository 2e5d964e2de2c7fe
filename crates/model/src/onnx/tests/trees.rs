//! Ensembles of trees whose lists contradict each other.

use super::*;

/// The lists of a tree: a test, and two leaves.
fn lists() -> Vec<AttributeProto> {
    let ints = |name: &str, ints: &[i64]| AttributeProto {
        name: name.to_owned(),
        kind: AttributeProto::INTS,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    };
    let floats = |name: &str, floats: &[f32]| AttributeProto {
        name: name.to_owned(),
        kind: AttributeProto::FLOATS,
        floats: floats.to_vec(),
        ..AttributeProto::default()
    };
    let modes = ["BRANCH_LEQ", "LEAF", "LEAF"].map(Bytes::from).to_vec();
    vec![
        ints("nodes_treeids", &[7, 7, 7]),
        ints("nodes_nodeids", &[10, 11, 12]),
        ints("nodes_featureids", &[1, 0, 0]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        ints("nodes_truenodeids", &[11, 0, 0]),
        ints("nodes_falsenodeids", &[12, 0, 0]),
        AttributeProto {
            name: "nodes_modes".to_owned(),
            kind: AttributeProto::STRINGS,
            strings: modes,
            ..AttributeProto::default()
        },
        ints("target_treeids", &[7, 7]),
        ints("target_nodeids", &[11, 12]),
        ints("target_ids", &[0, 0]),
        floats("target_weights", &[1.0, 2.0]),
    ]
}

fn ensemble(change: impl Fn(&mut AttributeProto)) -> ModelProto {
    let mut node = named("forest", "TreeEnsembleRegressor", &["x"], &["y"]);
    node.domain = "ai.onnx.ml".to_owned();
    node.attributes = lists();
    node.attributes.iter_mut().for_each(change);
    let mut model = model(graph(&["x"], &["y"], vec![node]));
    model.opsets.push(opset("ai.onnx.ml", 3));
    model
}

/// With another number in the place of one.
fn changed(list: &str, place: usize, value: i64) -> ModelProto {
    ensemble(|attribute| {
        if attribute.name == list {
            attribute.ints[place] = value;
        }
    })
}

#[test]
fn trees_become_records_when_they_are_read() {
    let graph = read(&ensemble(|_| {})).unwrap().graph;
    let records = graph.constants.values().next().unwrap();
    assert_eq!(records.shape(), [3, 4]);
    let words = records.to_vec::<i32>().unwrap();
    let (half, one, two) = (
        0.5f32.to_bits() as i32,
        1f32.to_bits() as i32,
        2f32.to_bits() as i32,
    );
    let test = 1 + 4 + 8 + (1 << 8);
    assert_eq!(words, [test, 1, half, 0, 0, 1, one, 0, 0, 2, two, 0]);
}

#[test]
fn what_contradicts_itself_is_refused_with_the_node() {
    for (model, said) in [
        (changed("nodes_truenodeids", 0, 10), "tree 7"),
        (changed("nodes_truenodeids", 0, 99), "node 10 of tree 7"),
        (changed("nodes_nodeids", 2, 11), "node 11 of tree 7"),
        (changed("nodes_featureids", 0, -1), "nodes_featureids"),
        (changed("nodes_featureids", 0, 1 << 40), "nodes_featureids"),
        (changed("target_nodeids", 0, 10), "node 10 of tree 7"),
        (changed("target_ids", 0, i64::MAX), "target_ids"),
    ] {
        assert_tells(&refusal(&model), &["\"forest\"", said]);
    }
    for short in lists() {
        let model = ensemble(|attribute| {
            if attribute.name == short.name {
                let _ = (
                    attribute.ints.pop(),
                    attribute.floats.pop(),
                    attribute.strings.pop(),
                );
            }
        });
        assert_tells(&refusal(&model), &["\"forest\""]);
    }
}

/// Two tests that lead to each other, below a root.
#[test]
fn a_circle_is_refused_with_a_node_of_it() {
    let model = ensemble(|attribute| match &attribute.name[..] {
        "nodes_modes" => attribute.strings = vec!["BRANCH_LT".into(); 3],
        "nodes_truenodeids" => attribute.ints = vec![11, 12, 11],
        "nodes_falsenodeids" => attribute.ints = vec![11, 12, 11],
        "target_treeids" | "target_nodeids" | "target_ids" => attribute.ints.clear(),
        "target_weights" => attribute.floats.clear(),
        _ => {}
    });
    assert_tells(
        &refusal(&model),
        &["\"forest\"", "node 11 of tree 7", "twice"],
    );
}
