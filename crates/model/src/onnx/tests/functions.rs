//! Operators that models define.

use super::*;
use crate::graph::Attribute;

fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.to_owned(),
        domain: "my.own".to_owned(),
        inputs: strings(inputs),
        outputs: strings(outputs),
        opsets: vec![opset("", 18)],
        nodes,
        ..FunctionProto::default()
    }
}

fn call(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        domain: "my.own".to_owned(),
        ..named(name, op, inputs, outputs)
    }
}

fn reference(name: &str, reference: &str) -> AttributeProto {
    AttributeProto {
        reference: reference.to_owned(),
        ..int(name, 0)
    }
}

#[test]
fn bodies_take_the_place_of_calls() {
    let body = vec![
        with(node("Softmax", &["a"], &["t"]), reference("axis", "where")),
        node("Clip", &["t", "low"], &["r"]),
    ];
    let mut soft = function("Soft", &["a", "low"], &["r"], body);
    soft.defaults.push(int("where", 3));
    let nodes = vec![
        with(call("one", "Soft", &["x", "x"], &["y"]), int("where", 1)),
        call("two", "Soft", &["y"], &["z"]),
    ];
    let mut proto = model(graph(&["x"], &["z"], nodes));
    proto.functions.push(soft);
    let graph = read(&proto).unwrap().graph;
    let ops: Vec<&str> = graph
        .nodes
        .iter()
        .map(|node| &node.operator.name[..])
        .collect();
    assert_eq!(
        ops,
        ["Softmax", "Clip", "Identity", "Softmax", "Clip", "Identity"]
    );
    assert_eq!(graph.nodes[0].name, "one/t");
    assert_eq!(graph.nodes[0].operator.version, 18);
    let axis = |place: usize| match graph.nodes[place].attribute("axis") {
        Some(Attribute::Int(axis)) => *axis,
        _ => panic!("no axis"),
    };
    assert_eq!((axis(0), axis(3)), (1, 3));
    assert_eq!(graph.nodes[1].inputs[1], Some(graph.inputs[0]));
    assert_eq!(graph.nodes[4].inputs[1], None);
    assert_eq!(graph.nodes[5].outputs, [Some(graph.outputs[0])]);
}

#[test]
fn graphs_inside_bodies_read_what_the_body_has() {
    let branch = graph(&[], &["n"], vec![node("Neg", &["t"], &["n"])]);
    let body = vec![
        node("Relu", &["a"], &["t"]),
        with(node("If", &["a"], &["r"]), inner("then_branch", branch)),
    ];
    let mut proto = model(graph(
        &["x"],
        &["y"],
        vec![call("one", "F", &["x"], &["y"])],
    ));
    proto.functions.push(function("F", &["a"], &["r"], body));
    let graph = read(&proto).unwrap().graph;
    let branch = graph.nodes[1].graphs().next().unwrap();
    assert_eq!(Some(branch.captures[0].around), graph.nodes[0].outputs[0]);
}

#[test]
fn bodies_know_nothing_from_around() {
    let body = vec![node("Add", &["a", "x"], &["r"])];
    let mut proto = model(graph(
        &["x"],
        &["y"],
        vec![call("one", "F", &["x"], &["y"])],
    ));
    proto.functions.push(function("F", &["a"], &["r"], body));
    assert_tells(&refusal(&proto), &["\"one\"", "\"x\"", "made nowhere"]);
}

#[test]
fn calls_have_to_fit() {
    let body = vec![node("Relu", &["a"], &["r"])];
    let of = |node| {
        let mut proto = model(graph(&["x"], &["y"], vec![node]));
        proto
            .functions
            .push(function("F", &["a"], &["r"], body.clone()));
        proto
    };
    assert_tells(
        &refusal(&of(call("one", "F", &["x", "x"], &["y"]))),
        &["\"one\"", "inputs", "at most 1"],
    );
    assert_tells(
        &refusal(&of(call("one", "F", &["x"], &["y", "z"]))),
        &["\"one\"", "outputs", "at most 1"],
    );
    let mut twice = of(call("one", "F", &["x"], &["y"]));
    twice.functions.push(twice.functions[0].clone());
    assert_tells(&refusal(&twice), &["\"F\"", "defined twice"]);
}

#[test]
fn a_function_cannot_call_itself() {
    let mut proto = model(graph(
        &["x"],
        &["y"],
        vec![call("one", "F", &["x"], &["y"])],
    ));
    proto.functions = vec![
        function("F", &["a"], &["r"], vec![call("", "G", &["a"], &["r"])]),
        function("G", &["a"], &["r"], vec![call("", "F", &["a"], &["r"])]),
    ];
    assert_tells(&refusal(&proto), &["\"one\"", "calls itself"]);
}

/// Functions of which each calls the next `times` over.
fn chain(count: usize, times: usize) -> ModelProto {
    let mut proto = model(graph(
        &["x"],
        &["y"],
        vec![call("one", "F0", &["x"], &["y"])],
    ));
    for place in 0..count {
        let next = format!("F{}", place + 1);
        let name = |link: usize| format!("v{link}");
        let links = (0..times).map(|link| match place + 1 < count {
            true => call("", &next, &[&name(link)], &[&name(link + 1)]),
            false => node("Relu", &[&name(link)], &[&name(link + 1)]),
        });
        let body = links.collect();
        let name = format!("F{place}");
        proto
            .functions
            .push(function(&name, &["v0"], &[&format!("v{times}")], body));
    }
    proto
}

#[test]
fn functions_cannot_grow_without_end() {
    assert_eq!(read(&chain(3, 2)).unwrap().graph.nodes.len(), 8 + 7);
    assert_tells(&refusal(&chain(40, 2)), &["functions come to", "less"]);
    assert_tells(&refusal(&chain(100, 1)), &["nesting"]);
    let copied = AttributeProto {
        kind: AttributeProto::INTS,
        ints: vec![1; 1 << 20],
        ..int("big", 0)
    };
    let reference = |place: usize| {
        let node = node("Relu", &["a"], &[&format!("r{place}")]);
        with(node, reference("copy", "big"))
    };
    let call = with(call("one", "F", &["x"], &["y"]), copied);
    let mut proto = model(graph(&["x"], &["y"], vec![call]));
    let body = (0..100).map(reference).collect();
    proto.functions.push(function("F", &["a"], &["r0"], body));
    assert_tells(&refusal(&proto), &["functions come to", "less"]);
}
