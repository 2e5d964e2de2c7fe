//! Models written as ONNX files, for who has no file: small ones, made from code.

use bytes::Bytes;
use prost::Message;
use streampool_tensor::{Array, DType};

use super::proto::{
    AttributeProto, EntryProto, GraphProto, ModelProto, NodeProto, OpsetProto, ShapeProto,
    SizeKind, SizeProto, TensorProto, TensorType, TypeProto, ValueProto,
};

/// A graph under construction: a model, or what a node holds. Nothing is checked before it is loaded.
///
/// ```
/// use streampool_host::{HostDevice, HostOptions};
/// use streampool_model::onnx::writer::Graph;
/// use streampool_model::{Session, SessionOptions};
/// use streampool_tensor::{Array, DType, Pool};
///
/// let model = Graph::new()
///     .input("x", DType::F32, "batch 2")
///     .constant("w", &Array::new(&[1.0f32, -1.0], &[2, 1])?)
///     .node("MatMul x w = y", &[])
///     .output("y", DType::F32, "batch 1")
///     .model(&[("", 18)]);
/// let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// let session = Session::from_bytes(&pool, model, &SessionOptions::default())?;
/// let outputs = session.run([("x", &Array::new(&[5.0f32, 3.0], &[1, 2])?)])?;
/// assert_eq!(outputs.get("y").expect("an output").values::<f32>()?, [2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default, Clone)]
pub struct Graph(GraphProto);

/// What a node says beside its inputs.
#[derive(Debug, Clone)]
pub struct Attribute(AttributeProto);

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

    /// With an input of strings.
    pub fn strings(mut self, name: &str, sizes: &str) -> Graph {
        self.0.inputs.push(of_strings(name, sizes));
        self
    }

    /// With a constant of this type and shape that lies in another file, of the same name, or is given when the model is loaded.
    pub fn external(mut self, name: &str, dtype: DType, shape: &[usize]) -> Graph {
        self.0.initializers.push(TensorProto {
            name: name.to_owned(),
            element: code(dtype),
            sizes: shape.iter().map(|&size| size as i64).collect(),
            location: TensorProto::EXTERNAL,
            external: vec![EntryProto {
                key: "location".to_owned(),
                value: name.to_owned(),
            }],
            ..TensorProto::default()
        });
        self
    }

    /// With an output of strings.
    pub fn string_output(mut self, name: &str, sizes: &str) -> Graph {
        self.0.outputs.push(of_strings(name, sizes));
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
        let sizes = array.shape().iter().map(|&size| size as i64).collect();
        let mut proto = TensorProto {
            name: name.to_owned(),
            sizes,
            ..TensorProto::default()
        };
        match array.as_strings() {
            Some(strings) => {
                proto.element = TensorProto::STRING;
                let each = strings.iter();
                proto.strings = each
                    .map(|string| Bytes::copy_from_slice(string.as_bytes()))
                    .collect();
            }
            None => {
                proto.element = code(array.dtype());
                proto.raw = Bytes::copy_from_slice(array.bytes());
            }
        }
        self.0.initializers.push(proto);
        self
    }

    /// With a node: `"Add a b = c"`, and its attributes. A dash stands for an input or an output that is left out.
    pub fn node(self, text: &str, attributes: &[Attribute]) -> Graph {
        self.node_of("", text, attributes)
    }

    /// As [`node`](Self::node), with an operator of a domain.
    pub fn node_of(mut self, domain: &str, text: &str, attributes: &[Attribute]) -> Graph {
        let (call, outputs) = text.split_once('=').unwrap_or((text, ""));
        let names = |words: &str| {
            let words = words.split_whitespace();
            words
                .map(|word| word.trim_matches('-').to_owned())
                .collect()
        };
        let (op, inputs) = call.trim().split_once(' ').unwrap_or((call.trim(), ""));
        self.0.nodes.push(NodeProto {
            op: op.to_owned(),
            domain: domain.to_owned(),
            inputs: names(inputs),
            outputs: names(outputs),
            attributes: attributes.iter().map(|each| each.0.clone()).collect(),
            ..NodeProto::default()
        });
        self
    }

    /// The bytes of a file with it as the model, and the version of the operators of each domain; that of ONNX itself has no
    /// name.
    pub fn model(self, opsets: &[(&str, i64)]) -> Vec<u8> {
        let opset = |&(domain, version): &(&str, i64)| OpsetProto {
            domain: domain.to_owned(),
            version,
        };
        let model = ModelProto {
            ir_version: 8,
            graph: Some(self.0),
            opsets: opsets.iter().map(opset).collect(),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }
}

/// An attribute that is an integer.
pub fn int(name: &str, int: i64) -> Attribute {
    Attribute(AttributeProto {
        int,
        ..attribute(name, AttributeProto::INT)
    })
}

/// An attribute that is a list of integers.
pub fn ints(name: &str, ints: &[i64]) -> Attribute {
    Attribute(AttributeProto {
        ints: ints.to_vec(),
        ..attribute(name, AttributeProto::INTS)
    })
}

/// An attribute that is a number.
pub fn float(name: &str, float: f32) -> Attribute {
    Attribute(AttributeProto {
        float,
        ..attribute(name, AttributeProto::FLOAT)
    })
}

/// An attribute that is a list of numbers.
pub fn floats(name: &str, floats: &[f32]) -> Attribute {
    Attribute(AttributeProto {
        floats: floats.to_vec(),
        ..attribute(name, AttributeProto::FLOATS)
    })
}

/// An attribute that is a text.
pub fn string(name: &str, text: &str) -> Attribute {
    Attribute(AttributeProto {
        string: Bytes::copy_from_slice(text.as_bytes()),
        ..attribute(name, AttributeProto::STRING)
    })
}

/// An attribute that is a graph.
pub fn graph(name: &str, graph: Graph) -> Attribute {
    Attribute(AttributeProto {
        // Others want a name of each graph.
        graph: Some(Box::new(GraphProto {
            name: name.to_owned(),
            ..graph.0
        })),
        ..attribute(name, AttributeProto::GRAPH)
    })
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
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

fn of_strings(name: &str, sizes: &str) -> ValueProto {
    let mut value = typed(name, DType::I64, sizes);
    let kind = value.kind.as_mut().and_then(|kind| kind.tensor.as_mut());
    if let Some(tensor) = kind {
        tensor.element = TensorProto::STRING;
    }
    value
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

/// The number of an element type in files.
fn code(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_they_are_read() {
        for dtype in DType::ALL {
            let read = crate::onnx::dtype(i64::from(code(dtype)));
            assert!(matches!(read, Ok(read) if read == dtype), "{dtype}");
        }
    }

    #[test]
    fn a_node_is_what_its_text_says() {
        let graph = Graph::new().node_of("mine", "Do a - c = x -", &[int("axis", -1)]);
        let node = &graph.0.nodes[0];
        assert_eq!((&node.op[..], &node.domain[..]), ("Do", "mine"));
        assert_eq!(node.inputs, ["a", "", "c"]);
        assert_eq!(node.outputs, ["x", ""]);
        assert_eq!(
            (node.attributes[0].int, node.attributes[0].kind),
            (-1, AttributeProto::INT)
        );
        // What is no node is found out by who loads it.
        assert_eq!(Graph::new().node("", &[]).0.nodes[0].op, "");
    }
}
