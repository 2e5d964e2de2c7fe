//! What stays known, and what is unknown meeting what is known.

use streampool_tensor::{DType, Tensor};

use super::{One, expected, floats, given, onnx, pool};
use crate::graph::{Attribute, Dim, Domain, Graph, Node, Operator, ValueInfo};
use crate::nodes::{family, supports};
use crate::testing::{Value, evaluate_eagerly};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Whether the first result is known although the input is not.
fn stays_known(one: One) -> Result<bool, Box<dyn std::error::Error>> {
    let (known, work) = (pool(), pool());
    let input = Tensor::ones(&work, &[2, 3], DType::F32)?;
    let graph = one.graph(&[true], &[true]);
    let got = evaluate_eagerly(&graph, (&known, &work), &[Some(input.into())])?;
    Ok(got[0].tensor()?.pool() == &known)
}

#[test]
fn what_depends_on_shapes_alone_is_known() -> Outcome {
    for name in ["Shape", "Size", "EyeLike"] {
        assert!(stays_known(onnx(name, 17))?, "{name}");
    }
    assert!(!stays_known(onnx("Relu", 17))?);
    Ok(())
}

#[test]
fn numbers_that_are_known_meet_tensors_that_are_not() {
    for (name, results) in [
        ("Add", [3.0, 1.0]),
        ("Sub", [-1.0, -3.0]),
        ("Mul", [2.0, -2.0]),
        ("Div", [0.5, -0.5]),
        ("Pow", [1.0, 1.0]),
        ("Greater", [0.0, 0.0]),
        ("LessOrEqual", [1.0, 1.0]),
    ] {
        let operands = [given::<f32>(&[2], &[1.0, -1.0]), given::<f32>(&[], &[2.0])];
        onnx(name, 17).check(&operands, &[expected(&[2], &results)]);
    }
    // A number with more axes than the tensor gives the result those.
    let operands = [
        given::<f32>(&[2], &[1.0, -1.0]),
        given::<f32>(&[1, 1], &[2.0]),
    ];
    onnx("Mul", 17).check(&operands, &[expected(&[1, 2], &[2.0, -2.0])]);
    let operands = [
        given::<f32>(&[1, 1], &[2.0]),
        given::<f32>(&[2], &[1.0, -1.0]),
    ];
    onnx("Sub", 17).check(&operands, &[expected(&[1, 2], &[1.0, 3.0])]);
}

#[test]
fn one_known_index_picks_a_view() {
    let x = || given::<f32>(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for index in [1, -2] {
        let scalar = [x(), given::<i64>(&[], &[index])];
        let results = [expected(&[2], &[2.0, 5.0])];
        onnx("Gather", 17).int("axis", 1).check(&scalar, &results);
        let list = [x(), given::<i64>(&[1, 1], &[index])];
        let results = [expected(&[2, 1, 1], &[2.0, 5.0])];
        onnx("Gather", 17).int("axis", -1).check(&list, &results);
    }
}

#[test]
fn what_is_around_need_not_be_known() {
    let x = given::<i32>(&[2], &[1, 2]);
    let amounts = given::<i64>(&[2], &[1, 1]);
    let results = [expected(&[4], &[7.0, 1.0, 2.0, 7.0])];
    onnx("Pad", 17).check(&[x, amounts, given::<i32>(&[], &[7])], &results);
}

#[test]
fn operands_lie_along_a_named_axis_before_version_7() {
    let slope = given::<f32>(&[2], &[0.5, 2.0]);
    let x = given::<f32>(&[1, 2, 2], &[-1.0, 1.0, -1.0, 1.0]);
    onnx("PRelu", 6).check(
        &[x, slope],
        &[expected(&[1, 2, 2], &[-0.5, 1.0, -2.0, 1.0])],
    );
    let (x, y) = (floats(&[2, 1, 2], 0), given::<f32>(&[2], &[10.0, 20.0]));
    let along = onnx("Add", 6).int("axis", 0).int("broadcast", 1);
    along.check(&[x, y], &[expected(&[2, 1, 2], &[8.5, 10.25, 18.75, 20.5])]);
}

#[test]
fn batch_norm_7_may_have_numbers_for_each_place() {
    let each = |value: f32| given::<f32>(&[2, 1], &[value, 2.0 * value]);
    let x = given::<f32>(&[1, 2, 1], &[3.0, 4.0]);
    let by_place = onnx("BatchNormalization", 7)
        .int("spatial", 0)
        .float("epsilon", 0.0);
    let results = [expected(&[1, 2, 1], &[3.0, 4.828427])];
    by_place.check(&[x, each(1.0), each(1.0), each(1.0), each(1.0)], &results);
}

#[test]
fn scans_of_version_8_take_each_batch_by_itself() -> Outcome {
    // What is scanned goes straight to the list.
    let mut body = Graph::default();
    let value = body.add_value(ValueInfo::default());
    body.inputs = vec![value];
    body.outputs = vec![value];
    let scan = onnx("Scan", 8)
        .int("num_scan_inputs", 1)
        .ints("directions", &[1])
        .with("body", Attribute::Graph(Box::new(body)));
    let x = given::<f32>(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    scan.check(&[None, x], &[expected(&[2, 2], &[2.0, 1.0, 4.0, 3.0])]);
    Ok(())
}

/// A loop whose body makes the condition it is given, and lists a value of this type and shape.
fn listing(info: ValueInfo) -> One {
    let mut body = Graph::default();
    let round = body.add_value(info);
    let more = body.add_value(ValueInfo::default());
    body.inputs = vec![round, more];
    body.outputs = vec![more, round];
    onnx("Loop", 17).with("body", Attribute::Graph(Box::new(body)))
}

#[test]
fn loops_without_rounds_list_nothing_of_the_declared_type() -> Outcome {
    let info = ValueInfo {
        dtype: Some(DType::I64),
        shape: Some(vec![Dim::Fixed(3), Dim::Free]),
        ..ValueInfo::default()
    };
    let none = || given::<i64>(&[], &[0]);
    listing(info).check(&[none()], &[expected(&[0, 3, 0], &[])]);
    // As ONNX Runtime has it.
    let typed = ValueInfo {
        dtype: Some(DType::I64),
        ..ValueInfo::default()
    };
    listing(typed).check(&[none()], &[expected(&[0], &[])]);
    let graph = listing(ValueInfo::default()).graph(&[true], &[true]);
    let known = pool();
    let zero = Tensor::scalar(&known, 0i64)?;
    let error = evaluate_eagerly(&graph, (&known, &known), &[Some(zero.into())]).err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("a list without rounds"), "{error}");
    Ok(())
}

#[test]
fn loops_list_each_round() {
    let two = given::<i64>(&[], &[2]);
    listing(ValueInfo::default()).check(&[two], &[expected(&[2], &[0.0, 1.0])]);
}

#[test]
fn sequences_mix_what_is_known_with_what_is_not() -> Outcome {
    let (known, work) = (pool(), pool());
    let mut graph = Graph::default();
    let mut value = || graph.add_value(ValueInfo::default());
    let (a, b, both, joined) = (value(), value(), value(), value());
    let node = |name: &str, inputs: &[_], output, attributes: Vec<(String, Attribute)>| Node {
        name: name.to_owned(),
        operator: Operator::onnx(name, 17),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(output)],
        attributes,
    };
    graph
        .nodes
        .push(node("SequenceConstruct", &[a, b], both, Vec::new()));
    let axis = vec![("axis".to_owned(), Attribute::Int(0))];
    graph
        .nodes
        .push(node("ConcatFromSequence", &[both], joined, axis));
    graph.inputs = vec![a, b];
    graph.outputs = vec![joined];
    let inputs = [
        Some(Value::from(Tensor::from_slice(&known, &[1.0f32], &[1])?)),
        Some(Value::from(Tensor::from_slice(&work, &[2.0f32], &[1])?)),
    ];
    let got = evaluate_eagerly(&graph, (&known, &work), &inputs)?;
    assert_eq!(got[0].tensor()?.to_vec::<f32>()?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn operators_are_known_by_domain() {
    let operator = |domain, name: &str| Operator {
        domain,
        name: name.to_owned(),
        version: 1,
    };
    assert!(supports(&operator(Domain::Microsoft, "FastGelu")));
    assert!(!supports(&operator(Domain::Onnx, "FastGelu")));
    assert!(supports(&operator(Domain::Fused, "Linear")));
    assert!(!supports(&operator(Domain::Onnx, "Linear")));
    assert_eq!(family(&operator(Domain::Onnx, "Loop")), Some("control"));
}
