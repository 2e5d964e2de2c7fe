//! Tensors, and what is declared of values.

use super::*;
use crate::graph::{Dim, ValueKind};
use crate::onnx::{optional, sequence, tensor};

fn with_constant(tensor: TensorProto) -> ModelProto {
    let mut proto = graph(&[], &[], Vec::new());
    proto.initializers.push(tensor);
    model(proto)
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

#[test]
fn types_that_are_not_to_be_had_are_refused_by_name() {
    for (element, said) in [(14, "complex"), (0, "0"), (99, "99")] {
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
        (tensor_type(15, Vec::new()), "not supported"),
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
