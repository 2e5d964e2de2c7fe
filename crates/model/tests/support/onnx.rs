//! Small models, written as a test needs them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use prost::Message;
use streampool_model::{Array, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

#[path = "../../src/onnx/proto.rs"]
#[allow(dead_code, reason = "tests write less than the reader reads")]
mod proto;

use proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OpsetProto, ShapeProto, SizeKind, SizeProto,
    TensorProto, TensorType, TypeProto, ValueProto,
};

/// The operators' version.
const OPSET: i64 = 18;

/// A graph under construction: a model, or what a node holds.
#[derive(Default, Clone)]
pub struct Graph(GraphProto);

/// What a node says beside its inputs.
pub type Attribute = AttributeProto;

impl Graph {
    /// Nothing so far.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// With an input of these sizes, divided by blanks: numbers, or names.
    pub fn input(mut self, name: &str, dtype: DType, sizes: &str) -> Graph {
        self.0.inputs.push(typed(name, dtype, sizes));
        self
    }

    /// With an output of these sizes.
    pub fn output(mut self, name: &str, dtype: DType, sizes: &str) -> Graph {
        self.0.outputs.push(typed(name, dtype, sizes));
        self
    }

    /// With an input of which nothing is said.
    pub fn untyped(mut self, name: &str) -> Graph {
        self.0.inputs.push(value(name));
        self
    }

    /// With these outputs, divided by blanks, of which nothing is said.
    pub fn outputs(mut self, names: &str) -> Graph {
        self.0.outputs.extend(names.split_whitespace().map(value));
        self
    }

    /// With a value that is always the same.
    pub fn constant(mut self, name: &str, array: &Array) -> Graph {
        self.0.initializers.push(TensorProto {
            name: name.to_owned(),
            ..tensor(array)
        });
        self
    }

    /// With a node: `"Add a b = c"`, and its attributes.
    pub fn node(self, text: &str, attributes: &[Attribute]) -> Graph {
        self.node_of("", text, attributes)
    }

    /// As [`node`](Self::node), with an operator of a domain.
    pub fn node_of(mut self, domain: &str, text: &str, attributes: &[Attribute]) -> Graph {
        let (call, outputs) = text.split_once('=').expect("a node has a =");
        let mut words = call.split_whitespace();
        let op = words.next().expect("a node has an operator");
        self.0.nodes.push(NodeProto {
            op: op.to_owned(),
            domain: domain.to_owned(),
            // A dash stands for what is left out.
            inputs: words
                .map(|word| word.trim_matches('-').to_owned())
                .collect(),
            outputs: outputs.split_whitespace().map(str::to_owned).collect(),
            attributes: attributes.to_vec(),
            ..NodeProto::default()
        });
        self
    }

    /// Its session.
    pub fn session(self, pool: &Pool) -> Session {
        self.load(pool, &SessionOptions::default())
            .expect("a good model")
    }

    /// Its session with options, if it can be loaded.
    pub fn load(self, pool: &Pool, options: &SessionOptions) -> streampool_model::Result<Session> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let opset = |domain: &str| OpsetProto {
            domain: domain.to_owned(),
            version: OPSET,
        };
        let model = ModelProto {
            ir_version: 8,
            graph: Some(self.0),
            opsets: vec![opset(""), opset("of.nobody")],
            ..ModelProto::default()
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("model-{}-{number}.onnx", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, model.encode_to_vec()).expect("the target directory can be written");
        let session = Session::load_with(pool, &path, options);
        // Where a file that is mapped cannot be removed it stays.
        let _ = std::fs::remove_file(&path);
        session
    }
}

/// An attribute that is an integer.
pub fn int(name: &str, int: i64) -> Attribute {
    AttributeProto {
        int,
        ..attribute(name, AttributeProto::INT)
    }
}

/// An attribute that is a graph.
pub fn graph(name: &str, graph: Graph) -> Attribute {
    AttributeProto {
        graph: Some(Box::new(graph.0)),
        ..attribute(name, AttributeProto::GRAPH)
    }
}

fn attribute(name: &str, kind: i32) -> Attribute {
    AttributeProto {
        name: name.to_owned(),
        kind,
        ..AttributeProto::default()
    }
}

fn value(name: &str) -> ValueProto {
    ValueProto {
        name: name.to_owned(),
        kind: None,
    }
}

fn typed(name: &str, dtype: DType, sizes: &str) -> ValueProto {
    let size = |text: &str| match text.parse() {
        Ok(fixed) => SizeKind::Fixed(fixed),
        Err(_) => SizeKind::Named(text.to_owned()),
    };
    let sizes = sizes.split_whitespace().map(|text| SizeProto {
        size: Some(size(text)),
    });
    let tensor = TensorType {
        element: code(dtype),
        shape: Some(ShapeProto {
            sizes: sizes.collect(),
        }),
    };
    ValueProto {
        kind: Some(TypeProto {
            tensor: Some(tensor),
            ..TypeProto::default()
        }),
        ..value(name)
    }
}

fn tensor(array: &Array) -> TensorProto {
    TensorProto {
        sizes: array.shape().iter().map(|&size| size as i64).collect(),
        element: code(array.dtype()),
        raw: Bytes::copy_from_slice(array.bytes()),
        ..TensorProto::default()
    }
}

/// The number of an element type in files.
fn code(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        other => panic!("no test writes {other}"),
    }
}
