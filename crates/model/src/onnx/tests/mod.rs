//! Models made for the tests, good ones and bad ones.

mod external;
mod files;
mod functions;
mod graphs;
mod random;
mod small_types;
mod trees;
mod values;

use bytes::Bytes;
use prost::Message;
use streampool_tensor::Pool;

use super::proto::*;
use super::{Model, read_bytes};
use crate::error::Result;

fn pool() -> Pool {
    crate::testing::host_pool()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op: op.to_owned(),
        inputs: strings(inputs),
        outputs: strings(outputs),
        ..NodeProto::default()
    }
}

/// A node of this name, otherwise as [`node`].
fn named(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        name: name.to_owned(),
        ..node(op, inputs, outputs)
    }
}

fn with(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
    node.attributes.push(attribute);
    node
}

fn inner(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: AttributeProto::GRAPH,
        graph: Some(Box::new(graph)),
        ..AttributeProto::default()
    }
}

fn int(name: &str, int: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: AttributeProto::INT,
        int,
        ..AttributeProto::default()
    }
}

fn value(name: &str) -> ValueProto {
    ValueProto {
        name: name.to_owned(),
        kind: None,
    }
}

fn floats(name: &str, sizes: &[i64], floats: &[f32]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        element: 1,
        sizes: sizes.to_vec(),
        floats: floats.to_vec(),
        ..TensorProto::default()
    }
}

fn graph(inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto {
        nodes,
        inputs: inputs.iter().map(|name| value(name)).collect(),
        outputs: outputs.iter().map(|name| value(name)).collect(),
        ..GraphProto::default()
    }
}

fn opset(domain: &str, version: i64) -> OpsetProto {
    OpsetProto {
        domain: domain.to_owned(),
        version,
    }
}

fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        graph: Some(graph),
        opsets: vec![opset("", 17)],
        ..ModelProto::default()
    }
}

fn read(model: &ModelProto) -> Result<Model> {
    read_bytes(Bytes::from(model.encode_to_vec()), &pool())
}

/// What is said of a model that is refused.
#[track_caller]
fn refusal(model: &ModelProto) -> String {
    match read(model) {
        Ok(_) => panic!("the model is read"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_tells(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
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
