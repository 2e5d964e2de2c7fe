//! How graphs hold together.

use std::time::{Duration, Instant};

use super::*;
use crate::graph::{Attribute, Graph, ValueId, ValueInfo};

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| &node.name[..]).collect()
}

#[test]
fn nodes_are_sorted_and_constants_are_no_inputs() {
    let mut proto = graph(
        &["x", "w"],
        &["z"],
        vec![
            named("last", "Add", &["y", "w"], &["z"]),
            named("first", "Relu", &["x"], &["y"]),
        ],
    );
    proto.initializers.push(floats("w", &[2], &[1.0, 2.0]));
    let read = read(&model(proto)).unwrap().graph;
    assert_eq!(names(&read), ["first", "last"]);
    assert_eq!(read.inputs.len(), 1);
    assert_eq!(read.name(read.inputs[0]), "x");
    assert_eq!(read.name(read.outputs[0]), "z");
    let constants: Vec<_> = read.constants.iter().collect();
    let [(id, tensor)] = constants[..] else {
        panic!("{} constants", constants.len());
    };
    assert_eq!(read.name(*id), "w");
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(read.nodes[0].operator.version, 17);
    assert!(read.defaults.is_empty());
}

#[test]
fn constants_that_are_listed_may_be_given_from_version_4_on() {
    let nodes = vec![
        node("Add", &["x", "w"], &["s"]),
        node("Add", &["s", "v"], &["y"]),
    ];
    let mut proto = graph(&["w", "x"], &["y"], nodes);
    proto.initializers.push(floats("v", &[1], &[1.0]));
    proto.initializers.push(floats("w", &[2], &[1.0, 2.0]));
    for (version, count) in [(3, 0), (4, 1), (8, 1)] {
        let mut model = model(proto.clone());
        model.ir_version = version;
        let read = read(&model).unwrap().graph;
        assert_eq!((read.inputs.len(), read.constants.len()), (1, 2));
        assert_eq!(read.defaults.len(), count);
        let w = |(id, info): &(ValueId, ValueInfo)| read.name(*id) == "w" && info.name == "w";
        assert!(read.defaults.iter().all(w));
    }
}

#[test]
fn nodes_that_are_in_order_stay_so() {
    let nodes = ["d", "b", "a", "c"].map(|name| named(name, "Relu", &["x"], &[name]));
    let read = read(&model(graph(&["x"], &["a"], nodes.to_vec()))).unwrap();
    assert_eq!(names(&read.graph), ["d", "b", "a", "c"]);
}

#[test]
fn what_is_left_out_has_no_value() {
    let nodes = vec![node("Clip", &["x", "", "x"], &["y", ""])];
    let read = read(&model(graph(&["x"], &["y"], nodes))).unwrap().graph;
    assert!(read.nodes[0].inputs[1].is_none() && read.nodes[0].outputs[1].is_none());
    assert_eq!(read.nodes[0].name, "y");
}

#[test]
fn graphs_inside_capture_through_all_levels() {
    let innermost = graph(&[], &["c"], vec![node("Neg", &["x"], &["c"])]);
    let middle = graph(
        &[],
        &["b"],
        vec![with(
            node("If", &["flag"], &["b"]),
            inner("then_branch", innermost),
        )],
    );
    // What is captured is made after the node that captures it.
    let nodes = vec![
        with(
            named("if", "If", &["flag"], &["a"]),
            inner("then_branch", middle),
        ),
        named("maker", "Relu", &["i"], &["x"]),
    ];
    let read = read(&model(graph(&["i", "flag"], &["a"], nodes)))
        .unwrap()
        .graph;
    assert_eq!(names(&read), ["maker", "if"]);
    let middle = read.nodes[1].graphs().next().unwrap();
    let around: Vec<&str> = middle
        .captures
        .iter()
        .map(|capture| read.name(capture.around))
        .collect();
    assert_eq!(around, ["flag", "x"]);
    let Some(Attribute::Graph(innermost)) = middle.nodes[0].attribute("then_branch") else {
        panic!("no graph");
    };
    let [capture] = innermost.captures[..] else {
        panic!("{:?}", innermost.captures);
    };
    assert_eq!(capture.around, middle.captures[1].here);
    assert_eq!(innermost.nodes[0].inputs, [Some(capture.here)]);
    assert!(read.nodes[1].reads().any(|id| read.name(id) == "x"));
}

#[test]
fn a_branch_may_give_a_value_from_around() {
    let branch = graph(&[], &["x"], Vec::new());
    let nodes = vec![with(
        node("If", &["flag"], &["a"]),
        inner("then_branch", branch),
    )];
    let read = read(&model(graph(&["x", "flag"], &["a"], nodes)))
        .unwrap()
        .graph;
    let branch = read.nodes[0].graphs().next().unwrap();
    assert_eq!(branch.outputs, [branch.captures[0].here]);
}

#[test]
fn a_name_inside_hides_the_one_around() {
    let branch = graph(&[], &["y"], vec![node("Neg", &["x"], &["y"])]);
    let nodes = vec![
        node("Relu", &["x"], &["y"]),
        with(node("If", &["flag"], &["a"]), inner("then_branch", branch)),
    ];
    let read = read(&model(graph(&["x", "flag"], &["a", "y"], nodes)))
        .unwrap()
        .graph;
    assert_eq!(read.nodes[1].graphs().next().unwrap().captures.len(), 1);
}

#[test]
fn cycles_are_told_by_the_names_of_their_nodes() {
    let nodes = vec![
        named("one", "Add", &["x", "c"], &["a"]),
        named("two", "Relu", &["a"], &["b"]),
        named("three", "Relu", &["b"], &["c"]),
        named("after", "Relu", &["c"], &["d"]),
    ];
    let said = refusal(&model(graph(&["x"], &["d"], nodes)));
    assert_tells(&said, &["cycle", "\"one\"", "\"two\"", "\"three\""]);
    assert!(!said.contains("after"), "{said}");
    let itself = vec![named("self", "Add", &["x", "a"], &["a"])];
    assert_tells(
        &refusal(&model(graph(&["x"], &["a"], itself))),
        &["cycle", "\"self\""],
    );
}

#[test]
fn a_name_stands_for_one_value() {
    let relu = |output| node("Relu", &["x"], &[output]);
    let twice = vec![relu("y"), relu("y")];
    assert_tells(
        &refusal(&model(graph(&["x"], &["y"], twice))),
        &["\"y\"", "two values"],
    );
    assert_tells(
        &refusal(&model(graph(&["x", "x"], &[], Vec::new()))),
        &["\"x\"", "two values"],
    );
    assert_tells(
        &refusal(&model(graph(&["x"], &[], vec![relu("x")]))),
        &["\"x\"", "two values"],
    );
    let mut proto = graph(&[], &[], Vec::new());
    proto.initializers = vec![floats("w", &[], &[1.0]), floats("w", &[], &[1.0])];
    assert_tells(&refusal(&model(proto)), &["\"w\"", "two values"]);
}

#[test]
fn what_is_missing_is_told() {
    let said = refusal(&model(graph(
        &["x"],
        &["y"],
        vec![named("n", "Add", &["x", "ghost"], &["y"])],
    )));
    assert_tells(&said, &["node \"n\" (Add)", "\"ghost\"", "made nowhere"]);
    assert_tells(
        &refusal(&model(graph(&[], &["y"], Vec::new()))),
        &["\"y\"", "made nowhere"],
    );
    assert_tells(&refusal(&ModelProto::default()), &["the model", "no graph"]);
    assert_tells(
        &refusal(&model(graph(&[""], &[], Vec::new()))),
        &["name", "empty"],
    );
    let nameless = vec![named("n", "", &[], &["y"])];
    assert_tells(
        &refusal(&model(graph(&[], &["y"], nameless))),
        &["\"n\"", "operator", "empty"],
    );
}

#[test]
fn attributes_are_what_they_say() {
    let of = |attribute| {
        let nodes = vec![with(named("n", "Constant", &[], &["y"]), attribute)];
        model(graph(&[], &["y"], nodes))
    };
    let empty = AttributeProto {
        name: "value".to_owned(),
        kind: AttributeProto::TENSOR,
        ..AttributeProto::default()
    };
    assert_tells(
        &refusal(&of(empty)),
        &["\"n\"", "\"value\"", "without a value"],
    );
    let unknown = AttributeProto {
        kind: 99,
        ..int("value", 1)
    };
    assert_tells(&refusal(&of(unknown)), &["\"n\"", "\"value\"", "kind 99"]);
    let reference = AttributeProto {
        reference: "other".to_owned(),
        ..int("value", 1)
    };
    assert_tells(&refusal(&of(reference)), &["\"n\"", "\"other\""]);
    let twice = with(with(node("Relu", &[], &["y"]), int("a", 1)), int("a", 2));
    assert_tells(
        &refusal(&model(graph(&[], &["y"], vec![twice]))),
        &["\"a\"", "twice"],
    );
}

#[test]
fn only_versions_that_are_understood_are_read() {
    let of = |opsets: Vec<OpsetProto>| ModelProto {
        opsets,
        ..model(graph(&["x"], &["y"], vec![node("Relu", &["x"], &["y"])]))
    };
    assert_tells(
        &refusal(&of(vec![opset("", 0)])),
        &["is 0", "1 to 27", "convert"],
    );
    // Older files do not say it: there was but one.
    let oldest = read(&of(Vec::new())).unwrap();
    assert_eq!(oldest.opsets.get(""), Some(&1));
    assert_tells(&refusal(&of(vec![opset("ai.onnx", 28)])), &["is 28"]);
    assert_tells(
        &refusal(&of(vec![opset("", 7), opset("ai.onnx", 8)])),
        &["7 and 8"],
    );
    let unsaid = ModelProto {
        ir_version: 3,
        ..of(Vec::new())
    };
    assert_tells(&refusal(&unsaid), &["Relu", "left out"]);
    assert!(read(&of(vec![opset("ai.onnx", 7), opset("", 7)])).is_ok());
}

#[test]
fn operators_of_other_domains_are_told_with_all_places() {
    let foreign = |name, output| NodeProto {
        domain: "my.own".to_owned(),
        ..named(name, "Magic", &["x"], &[output])
    };
    let proto = graph(
        &["x"],
        &["b"],
        vec![foreign("one", "a"), foreign("two", "b")],
    );
    assert_tells(
        &refusal(&model(proto)),
        &["my.own.Magic", "\"one\"", "\"two\""],
    );
}

#[test]
fn nesting_has_an_end() {
    let mut proto = graph(&[], &["y"], vec![node("Relu", &["x"], &["y"])]);
    for _ in 0..60 {
        let node = with(node("If", &["x"], &["y"]), inner("then_branch", proto));
        proto = graph(&[], &["y"], vec![node]);
    }
    assert_tells(&refusal(&model(proto)), &["the model", "100 messages deep"]);
}

#[test]
fn a_hundred_thousand_nodes_backwards_are_sorted_at_once() {
    const COUNT: usize = 100_000;
    let link = |place: usize| {
        node(
            "Relu",
            &[&format!("v{place}")],
            &[&format!("v{}", place + 1)],
        )
    };
    let nodes = (0..COUNT).rev().map(link).collect();
    let proto = model(graph(&["v0"], &[&format!("v{COUNT}")], nodes));
    let begin = Instant::now();
    let read = read(&proto).unwrap().graph;
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(read.nodes[0].name, "v1");
    assert_eq!(read.nodes.len(), COUNT);
}
