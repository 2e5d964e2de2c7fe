//! Tensors, and what is declared of values.

use streampool_tensor::DType;

use super::*;
use crate::graph::{Dim, ValueKind};
use crate::onnx::{optional, sequence, tensor};

fn with_constant(tensor: TensorProto) -> ModelProto {
    let mut proto = graph(&[], &[], Vec::new());
    proto.initializers.push(tensor);
    model(proto)
}

fn raw(element: i32, sizes: &[i64], raw: &[u8]) -> TensorProto {
    TensorProto {
        name: "w".to_owned(),
        element,
        sizes: sizes.to_vec(),
        raw: Bytes::copy_from_slice(raw),
        ..TensorProto::default()
    }
}

#[test]
fn bytes_of_tensors_are_not_copied_by_the_parser() {
    let bytes = Bytes::from(with_constant(raw(2, &[9], b"on no acc")).encode_to_vec());
    let all = bytes.as_ptr_range();
    let decoded = ModelProto::decode(bytes.clone()).unwrap();
    let raw = &decoded.graph.unwrap().initializers[0].raw;
    assert_eq!(&raw[..], b"on no acc");
    assert!(all.contains(&raw.as_ptr()));
}

#[test]
fn sizes_that_the_bytes_belie_are_refused_by_name() {
    for (sizes, said) in [
        (&[1 << 40][..], "0 bytes"),
        (&[1 << 40, 1 << 40], "sizes that memory can hold"),
        (&[0, 1 << 62, 1 << 62], "sizes that memory can hold"),
        (&[i64::MAX], "sizes that memory can hold"),
        (&[-1], "not negative"),
        (&[1; 9], "at most 8"),
        (&[2], "0 bytes"),
    ] {
        assert_tells(
            &refusal(&with_constant(raw(1, sizes, b""))),
            &["\"w\"", said],
        );
    }
    let short = raw(1, &[2], &[0; 7]);
    assert_tells(
        &refusal(&with_constant(short)),
        &["\"w\"", "7 bytes", "8 bytes"],
    );
    assert!(read(&with_constant(raw(1, &[0, 1 << 20], b""))).is_ok());
}

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

#[test]
fn types_that_are_not_to_be_had_are_refused_by_name() {
    for (element, said) in [(24, "8-bit floats"), (14, "complex"), (0, "0"), (99, "99")] {
        assert_tells(
            &refusal(&with_constant(raw(element, &[1], &[0]))),
            &["\"w\"", said],
        );
    }
    let bools = raw(9, &[2], &[1, 2]);
    assert_tells(&refusal(&with_constant(bools)), &["\"w\"", "0 or 1"]);
}

#[test]
fn strings_are_places_in_a_list_and_refused_where_numbers_are_wanted() {
    let words = TensorProto {
        strings: ["b", "a", "b"].map(Bytes::from).to_vec(),
        ..raw(TensorProto::STRING, &[3], b"")
    };
    let with = |op: &str| {
        let mut proto = with_constant(words.clone());
        let graph = proto.graph.as_mut().unwrap();
        graph.nodes.push(named("n", op, &["w"], &["y"]));
        graph.outputs.push(value("y"));
        proto
    };
    let graph = read(&with("Identity")).unwrap().graph;
    let list = graph.value(graph.outputs[0]).strings.clone().unwrap();
    assert_eq!(list[..], ["b", "a"]);
    let places = graph.constants.values().next().unwrap();
    assert_eq!(places.to_vec::<i64>().unwrap(), [0, 1, 0]);
    assert_tells(&refusal(&with("Neg")), &["\"n\"", "strings"]);
    let mut few = with_constant(words.clone());
    few.graph.as_mut().unwrap().initializers[0].sizes = vec![4];
    assert_tells(&refusal(&few), &["\"w\"", "3 strings", "[4]"]);
}

#[test]
fn sparse_tensors_are_read_as_dense_ones() {
    let of = |shape: &[i64], sizes: &[i64], places: &[i64]| {
        let mut proto = graph(&[], &[], Vec::new());
        proto.sparse_initializers.push(SparseProto {
            values: Some(floats("w", &[2], &[1.0, 2.0])),
            indices: Some(TensorProto {
                longs: places.to_vec(),
                ..raw(7, shape, b"")
            }),
            sizes: sizes.to_vec(),
        });
        model(proto)
    };
    for model in [
        of(&[2], &[2, 3], &[1, 5]),
        of(&[2, 2], &[2, 3], &[0, 1, 1, 2]),
    ] {
        let graph = read(&model).unwrap().graph;
        let tensor = graph.constants.values().next().unwrap();
        assert_eq!(tensor.shape(), [2, 3]);
        assert_eq!(
            tensor.to_vec::<f32>().unwrap(),
            [0.0, 1.0, 0.0, 0.0, 0.0, 2.0]
        );
    }
    for (model, said) in [
        (of(&[2], &[2, 3], &[1, 6]), "index"),
        (of(&[2], &[2, 3], &[-1, 0]), "index"),
        (of(&[2, 2], &[2, 3], &[0, 3, 0, 0]), "index"),
        (of(&[2], &[1 << 40, 1 << 40], &[0, 1]), "shape"),
        (of(&[1, 2], &[2, 3], &[0, 1]), "indices"),
    ] {
        assert_tells(&refusal(&model), &["\"w\"", "sparse", said]);
    }
}

#[test]
fn sparse_tensors_without_places_are_refused_by_name() {
    let mut proto = graph(&[], &[], Vec::new());
    proto.sparse_initializers.push(SparseProto {
        values: Some(floats("w", &[1], &[1.0])),
        ..SparseProto::default()
    });
    assert_tells(&refusal(&model(proto)), &["\"w\"", "sparse"]);
}

#[test]
fn listed_values_are_read_by_their_type() {
    let of = |proto: TensorProto| tensor(&proto.encode_to_vec(), &pool()).unwrap().1;
    let listed = |element, ints: &[i32]| TensorProto {
        ints: ints.to_vec(),
        ..raw(element, &[ints.len() as i64], b"")
    };
    assert_eq!(of(listed(3, &[-1, 2])).to_vec::<i8>().unwrap(), [-1, 2]);
    assert_eq!(of(listed(4, &[65535])).to_vec::<u16>().unwrap(), [65535]);
    assert_eq!(
        of(listed(9, &[1, 0])).to_vec::<bool>().unwrap(),
        [true, false]
    );
    let half = of(listed(10, &[0x3c00]));
    assert_eq!(half.to_vec::<half::f16>().unwrap(), [half::f16::ONE]);
    let unsigned = TensorProto {
        unsigned: vec![u64::from(u32::MAX)],
        ..raw(12, &[1], b"")
    };
    assert_eq!(of(unsigned).to_vec::<u32>().unwrap(), [u32::MAX]);
    assert_eq!(of(floats("w", &[], &[0.5])).item::<f32>().unwrap(), 0.5);
}

#[test]
fn test_data_may_be_a_sequence_or_nothing() {
    let proto = SequenceProto {
        name: "s".to_owned(),
        kind: SequenceProto::TENSOR,
        tensors: vec![floats("", &[1], &[1.0]), floats("", &[2], &[1.0, 2.0])],
    };
    let (name, tensors) = sequence(&proto.encode_to_vec(), &pool()).unwrap();
    assert_eq!((&name[..], tensors.len()), ("s", 2));
    let nothing = OptionalProto::default();
    assert!(
        optional(&nothing.encode_to_vec(), &pool())
            .unwrap()
            .1
            .is_none()
    );
    let something = OptionalProto {
        sequence: Some(proto),
        ..OptionalProto::default()
    };
    let held = optional(&something.encode_to_vec(), &pool()).unwrap().1;
    assert_eq!(held.map(|held| held.len()), Some(2));
}

fn tensor_type(element: i32, sizes: Vec<Option<SizeKind>>) -> TypeProto {
    let sizes = sizes.into_iter().map(|size| SizeProto { size });
    TypeProto {
        tensor: Some(TensorType {
            element,
            shape: Some(ShapeProto {
                sizes: sizes.collect(),
            }),
        }),
        ..TypeProto::default()
    }
}

fn holder(element: TypeProto) -> Option<Box<HolderType>> {
    Some(Box::new(HolderType {
        element: Some(element),
    }))
}

#[test]
fn declared_types_are_kept() {
    let batch = SizeKind::Named("batch".to_owned());
    let plain = tensor_type(1, vec![Some(SizeKind::Fixed(3)), Some(batch), None]);
    let sequence = TypeProto {
        sequence: holder(plain.clone()),
        ..TypeProto::default()
    };
    let kinds = [
        (plain.clone(), ValueKind::Tensor),
        (sequence.clone(), ValueKind::Sequence),
        (
            TypeProto {
                optional: holder(plain),
                ..TypeProto::default()
            },
            ValueKind::Optional,
        ),
        (
            TypeProto {
                optional: holder(sequence),
                ..TypeProto::default()
            },
            ValueKind::OptionalSequence,
        ),
    ];
    for (proto, kind) in kinds {
        let mut graph = graph(&["x"], &[], Vec::new());
        graph.inputs[0].kind = Some(proto);
        let read = read(&model(graph)).unwrap().graph;
        let info = read.value(read.inputs[0]);
        assert_eq!(info.kind, kind);
        assert_eq!(info.dtype, Some(streampool_tensor::DType::F32));
        let shape = vec![Dim::Fixed(3), Dim::Named("batch".to_owned()), Dim::Free];
        assert_eq!(info.shape, Some(shape));
    }
}

#[test]
fn what_stands_for_any_size_is_no_name() {
    let sizes = ["?", "", "-1", "None", "n"].map(|name| Some(SizeKind::Named(name.to_owned())));
    let mut graph = graph(&["x"], &[], Vec::new());
    graph.inputs[0].kind = Some(tensor_type(1, sizes.to_vec()));
    let read = read(&model(graph)).unwrap().graph;
    let mut shape = vec![Dim::Free; 4];
    shape.push(Dim::Named("n".to_owned()));
    assert_eq!(read.value(read.inputs[0]).shape, Some(shape));
}

#[test]
fn inputs_of_other_types_are_refused_by_name() {
    let map = TypeProto {
        map: Some(Box::default()),
        ..TypeProto::default()
    };
    let held = HolderType {
        element: Some(map.clone()),
    };
    let maps = TypeProto {
        sequence: Some(Box::new(held)),
        ..TypeProto::default()
    };
    // A map of something is two inputs; this one does not say of what.
    for (kind, why) in [
        (tensor_type(24, Vec::new()), "not supported"),
        (map, "without that of its elements"),
        (maps, "not supported"),
    ] {
        let mut graph = graph(&["x"], &[], Vec::new());
        graph.inputs[0].kind = Some(kind);
        assert_tells(&refusal(&model(graph)), &["\"x\"", why]);
    }
}

#[test]
fn a_type_may_say_nothing() {
    let mut graph = graph(&["x"], &[], Vec::new());
    graph.inputs[0].kind = Some(TypeProto::default());
    let read = read(&model(graph)).unwrap().graph;
    let info = read.value(read.inputs[0]);
    assert_eq!(
        (info.kind, info.dtype, &info.shape),
        (ValueKind::Tensor, None, &None)
    );
}

#[test]
fn what_a_model_says_of_itself_is_kept() {
    let entry = EntryProto {
        key: "labels".to_owned(),
        value: "cat,dog".to_owned(),
    };
    let read = read(&ModelProto {
        ir_version: 8,
        producer: "maker".to_owned(),
        producer_version: "1.2".to_owned(),
        doc: "a model".to_owned(),
        metadata: vec![entry],
        ..model(graph(&[], &[], Vec::new()))
    });
    let read = read.unwrap();
    assert_eq!(
        (read.ir_version, &read.producer[..], &read.doc[..]),
        (8, "maker 1.2", "a model")
    );
    assert_eq!(read.metadata["labels"], "cat,dog");
    assert_eq!(read.opsets[""], 17);
}
