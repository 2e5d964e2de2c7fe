//! Types of less than eight bits, and 8-bit floats, in graphs.

use streampool_tensor::DType;

use super::*;

/// What a node makes of a constant of this type and of two scales.
fn of_small(op: &str, element: i32, packed: &[u8]) -> std::result::Result<Vec<f32>, String> {
    let mut proto = graph(&[], &["y"], vec![node(op, &["w", "s"], &["y"])]);
    proto.initializers = vec![raw(element, &[4], packed), floats("s", &[1], &[0.5])];
    ran(proto, &[])
}

/// The output `y` of a graph, as floats.
fn ran(
    proto: GraphProto,
    inputs: &[(&str, &crate::Array)],
) -> std::result::Result<Vec<f32>, String> {
    let bytes = model(proto).encode_to_vec();
    let options = crate::SessionOptions::default();
    let session = crate::Session::from_bytes(&pool(), bytes, &options);
    let session = session.map_err(|error| error.to_string())?;
    let outputs = session.run(inputs.iter().copied());
    let outputs = outputs.map_err(|error| error.to_string())?;
    let y = outputs.get("y").ok_or("no output")?;
    let wide = y
        .tensor(&pool())
        .and_then(|y| y.to_dtype(DType::F32)?.to_vec());
    wide.map_err(|error| error.to_string())
}

#[test]
fn small_types_are_made_moved_and_given_at_run_time() {
    let x = crate::Array::new(&[0.3f32, 5.1, -70.0, 1e4], &[4]).unwrap();
    let input = |element: i32| ValueProto {
        kind: Some(tensor_type(element, vec![Some(SizeKind::Fixed(4))])),
        ..value("x")
    };
    // Activations in 8-bit floats, as quantisers of models write them.
    let mut nodes = vec![
        node("QuantizeLinear", &["x", "s", "w"], &["q"]),
        node("Identity", &["q"], &["moved"]),
        node("DequantizeLinear", &["moved", "s", "w"], &["y"]),
    ];
    let mut proto = graph(&[], &["y"], nodes.clone());
    proto.inputs = vec![input(1)];
    proto.initializers = vec![raw(17, &[1], &[0]), floats("s", &[1], &[0.5])];
    assert_eq!(
        ran(proto.clone(), &[("x", &x)]).unwrap(),
        [0.3125, 5.0, -72.0, 224.0]
    );
    // The same in four bits, with an output of these.
    proto.initializers[0] = raw(22, &[1], &[1]);
    assert_eq!(
        ran(proto.clone(), &[("x", &x)]).unwrap(),
        [0.5, 3.0, -4.5, 3.0]
    );
    proto.nodes[1] = node("Identity", &["q"], &["y"]);
    proto.nodes.truncate(2);
    assert_eq!(ran(proto, &[("x", &x)]).unwrap(), [2.0, 7.0, -8.0, 7.0]);
    // An input of these, whose numbers are made those of the type.
    nodes = vec![node("CastLike", &["x", "s"], &["y"])];
    let mut proto = graph(&[], &["y"], nodes);
    proto.inputs = vec![input(19)];
    proto.initializers = vec![floats("s", &[1], &[0.5])];
    let x = x
        .tensor(&pool())
        .and_then(|x| crate::Array::of(&x.to_dtype(DType::BF16)?))
        .unwrap();
    assert_eq!(
        ran(proto.clone(), &[("x", &x)]).unwrap(),
        [0.3125, 5.0, -64.0, 10240.0]
    );
    proto.nodes = vec![node("CastLike", &["s", "x"], &["y"])];
    assert_eq!(ran(proto.clone(), &[("x", &x)]).unwrap(), [0.5]);
    proto.nodes = vec![node("Add", &["x", "x"], &["y"])];
    assert_tells(
        &ran(proto, &[("x", &x)]).unwrap_err(),
        &["Add", "less than 8 bits"],
    );
}

#[test]
fn constants_of_few_bits_are_taken_by_what_says_their_scale() {
    let scaled = |element, packed: &[u8]| of_small("DequantizeLinear", element, packed).unwrap();
    assert_eq!(scaled(22, &[0x7f, 0x08]), [-0.5, 3.5, -4.0, 0.0]);
    assert_eq!(scaled(21, &[0x7f, 0x08]), [7.5, 3.5, 4.0, 0.0]);
    assert_eq!(scaled(26, &[0b11_10_01_00]), [0.0, 0.5, -1.0, -0.5]);
    assert_eq!(scaled(17, &[0x38, 0x7e, 0xb8, 0]), [0.5, 224.0, -0.5, 0.0]);
    // A cast reads the numbers as they are.
    let mut proto = graph(&[], &["y"], vec![node("Cast", &["w"], &["y"])]);
    proto.nodes[0].attributes = vec![int("to", 1)];
    proto.initializers = vec![raw(17, &[2], &[0x38, 0x7e])];
    assert_eq!(ran(proto, &[]).unwrap(), [1.0, 448.0]);
    let refused = of_small("Add", 22, &[0x7f, 0x08]).unwrap_err();
    assert_tells(&refused, &["Add", "less than 8 bits"]);
    let short = of_small("DequantizeLinear", 22, &[0x7f]).unwrap_err();
    assert_tells(&short, &["\"w\"", "1 bytes", "2 bytes"]);
}

/// A node with this body.
fn with_body(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    bodies: &[(&str, GraphProto)],
) -> NodeProto {
    let mut made = node(op, inputs, outputs);
    made.attributes = bodies
        .iter()
        .map(|(name, body)| inner(name, body.clone()))
        .collect();
    made
}

fn constant_node(tensor: TensorProto, output: &str) -> NodeProto {
    let mut made = node("Constant", &[], &[output]);
    made.attributes = vec![AttributeProto {
        name: "value".to_owned(),
        kind: AttributeProto::TENSOR,
        tensor: Some(Box::new(tensor)),
        ..AttributeProto::default()
    }];
    made
}

#[test]
fn powers_of_two_are_scales() {
    let mut proto = graph(
        &[],
        &["y"],
        vec![node("DequantizeLinear", &["w", "s"], &["y"])],
    );
    proto.nodes[0].attributes = vec![int("output_dtype", 1)];
    proto.initializers = vec![raw(22, &[4], &[0x7f, 0x08]), raw(24, &[1], &[126])];
    proto.initializers[1].name = "s".to_owned();
    assert_eq!(ran(proto.clone(), &[]).unwrap(), [-0.5, 3.5, -4.0, 0.0]);
    // Other floats of eight bits are no scales.
    proto.initializers[1].element = 17;
    assert_tells(
        &ran(proto, &[]).unwrap_err(),
        &["DequantizeLinear", "less than 8 bits"],
    );
    let mut proto = graph(&[], &["y"], vec![node("Cast", &["x"], &["y"])]);
    proto.initializers = vec![floats("x", &[3], &[0.124, 1.1, 3.0])];
    proto.nodes[0].attributes = vec![int("to", 24)];
    assert_eq!(ran(proto, &[]).unwrap(), [0.125, 2.0, 4.0]);
}

#[test]
fn small_types_are_followed_into_graphs_inside_nodes() {
    let yes = TensorProto {
        name: "yes".to_owned(),
        ..raw(9, &[], &[1])
    };
    let scaled = |from: &str| node("DequantizeLinear", &[from, "s"], &["z"]);
    let packed = raw(22, &[4], &[0x7f, 0x08]);
    let right = [-0.5, 3.5, -4.0, 0.0];
    let outer = |nodes: Vec<NodeProto>| {
        let mut proto = graph(&[], &["y"], nodes);
        proto.initializers = vec![floats("s", &[1], &[0.5]), yes.clone()];
        proto
    };
    let if_of = |body: GraphProto| {
        let bodies = [("then_branch", body.clone()), ("else_branch", body)];
        outer(vec![with_body("If", &["yes"], &["y"], &bodies)])
    };
    // A constant of the body, that of a node in it, and one from around it.
    let mut body = graph(&[], &["z"], vec![scaled("w")]);
    body.initializers = vec![packed.clone()];
    assert_eq!(ran(if_of(body), &[]).unwrap(), right);
    let nodes = vec![constant_node(packed.clone(), "w"), scaled("w")];
    assert_eq!(ran(if_of(graph(&[], &["z"], nodes)), &[]).unwrap(), right);
    let around = |nodes| {
        let mut proto = if_of(graph(&[], &["z"], nodes));
        proto.initializers.push(packed.clone());
        ran(proto, &[])
    };
    assert_eq!(around(vec![scaled("w")]).unwrap(), right);
    let refused = around(vec![node("Neg", &["w"], &["z"])]).unwrap_err();
    assert_tells(&refused, &["Neg", "less than 8 bits"]);
    // What a branch gives is of the type, too.
    let mut proto = if_of(graph(&[], &["z"], vec![node("Identity", &["w"], &["z"])]));
    proto.initializers.push(packed.clone());
    proto.nodes[0].outputs = vec!["out".to_owned()];
    proto.nodes.push(node("Neg", &["out"], &["y"]));
    assert_tells(
        &ran(proto.clone(), &[]).unwrap_err(),
        &["Neg", "less than 8 bits"],
    );
    proto.nodes[1] = node("DequantizeLinear", &["out", "s"], &["y"]);
    assert_eq!(ran(proto.clone(), &[]).unwrap(), right);
    // Branches that differ are refused.
    let other = graph(
        &[],
        &["z"],
        vec![constant_node(floats("", &[4], &[0.0; 4]), "z")],
    );
    proto.nodes[0].attributes[1] = inner("else_branch", other);
    assert_tells(&ran(proto, &[]).unwrap_err(), &["If", "different"]);
}

#[test]
fn states_of_loops_are_of_small_types() {
    let number = |name: &str, number: i64| TensorProto {
        name: name.to_owned(),
        ..raw(7, &[], &number.to_le_bytes())
    };
    let body = |nodes| {
        let mut body = graph(&["i", "go", "state"], &["go", "next", "list"], nodes);
        body.outputs[0] = value("on");
        body.nodes.insert(0, node("Identity", &["go"], &["on"]));
        body
    };
    let looped = |nodes| {
        let body = [("body", body(nodes))];
        let outer = with_body("Loop", &["count", "", "w"], &["last", "all"], &body);
        let mut proto = graph(
            &[],
            &["y"],
            vec![outer, node("DequantizeLinear", &["all", "s"], &["y"])],
        );
        proto.initializers = vec![
            floats("s", &[1], &[0.5]),
            number("count", 2),
            raw(22, &[2], &[0x7f]),
        ];
        proto
    };
    let moved = vec![
        node("Identity", &["state"], &["next"]),
        node("Identity", &["state"], &["list"]),
    ];
    assert_eq!(
        ran(looped(moved.clone()), &[]).unwrap(),
        [-0.5, 3.5, -0.5, 3.5]
    );
    let mut computed = moved.clone();
    computed[1] = node("Neg", &["state"], &["list"]);
    assert_tells(
        &ran(looped(computed), &[]).unwrap_err(),
        &["Neg", "less than 8 bits"],
    );
    let mut changed = moved;
    changed[0] = node("DequantizeLinear", &["state", "s"], &["next"]);
    assert_tells(
        &ran(looped(changed), &[]).unwrap_err(),
        &["Loop", "different"],
    );
}

#[test]
fn quantisation_of_another_domain_takes_small_types() {
    let mut proto = graph(
        &[],
        &["y"],
        vec![node("DequantizeLinear", &["w", "s", "z"], &["y"])],
    );
    proto.nodes[0].domain = "com.microsoft".to_owned();
    proto.initializers = vec![
        raw(22, &[4], &[0x7f, 0x08]),
        floats("s", &[], &[0.5]),
        TensorProto {
            name: "z".to_owned(),
            ..raw(22, &[], &[1])
        },
    ];
    assert_eq!(ran(proto.clone(), &[]).unwrap(), [-1.0, 3.0, -4.5, -0.5]);
    proto.nodes[0].op = "QuantizeLinear".to_owned();
    proto.initializers[0] = floats("w", &[4], &[-9.0, 0.5, 2.0, 9.0]);
    assert_eq!(ran(proto, &[]).unwrap(), [-8.0, 2.0, 5.0, 7.0]);

    // Rows of a table of embeddings, as ONNX Runtime's quantiser writes them.
    let chosen = |element: i32, zeros: Option<&[u8]>| {
        let inputs = ["w", "rows", "s", "z"];
        let given = 3 + usize::from(zeros.is_some());
        let mut gather = node("GatherBlockQuantized", &inputs[..given], &["y"]);
        gather.domain = "com.microsoft".to_owned();
        gather.attributes = vec![
            int("gather_axis", 0),
            int("quantize_axis", 1),
            int("block_size", 16),
        ];
        let mut proto = graph(&[], &["y"], vec![gather]);
        let packed: Vec<u8> = [vec![0; 8], vec![0xf1; 8]].concat();
        let row = 1i64.to_le_bytes();
        proto.initializers = vec![
            raw(element, &[2, 16], &packed),
            TensorProto {
                name: "rows".to_owned(),
                ..raw(7, &[1], &row)
            },
            floats("s", &[2, 1], &[1.0, 0.5]),
        ];
        proto.initializers.extend(zeros.map(|zeros| TensorProto {
            name: "z".to_owned(),
            ..raw(element, &[2, 1], zeros)
        }));
        ran(proto, &[]).map(|y| [y[0], y[1]])
    };
    assert_eq!(chosen(22, None).unwrap(), [0.5, -0.5]);
    assert_eq!(chosen(22, Some(&[0x20])).unwrap(), [-0.5, -1.5]);
    assert_eq!(chosen(21, Some(&[0x80])).unwrap(), [-3.5, 3.5]);
    assert_tells(
        &chosen(21, None).unwrap_err(),
        &["GatherBlockQuantized", "less than 8 bits"],
    );
}
