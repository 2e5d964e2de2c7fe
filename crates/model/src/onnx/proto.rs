//! The messages of the ONNX file format, as far as they are read.
//!
//! What may be large is `Bytes`: decoded from `Bytes` it is a part of them, not a copy.

use bytes::{Buf, Bytes};
use prost::Message;

use crate::error::{Error, Result};

/// The message in these bytes.
pub fn decoded<T: Message + Default>(bytes: impl Buf, what: &str) -> Result<T> {
    let broken = |error| {
        Error::file(
            what,
            format_args!("broken or cut off ({error})"),
            "as ONNX writes it",
        )
    };
    T::decode(bytes).map_err(broken)
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(string, tag = "6")]
    pub doc: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opsets: Vec<OpsetProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata: Vec<EntryProto>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EntryProto {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpsetProto {
    /// Empty for the operators of ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// An operator that the model defines by other operators.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub inputs: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub outputs: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub nodes: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub opsets: Vec<OpsetProto>,
    #[prost(string, tag = "10")]
    pub domain: String,
    /// What attributes are where a call leaves them out.
    #[prost(message, repeated, tag = "11")]
    pub defaults: Vec<AttributeProto>,
    #[prost(string, tag = "13")]
    pub overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub inputs: Vec<ValueProto>,
    #[prost(message, repeated, tag = "12")]
    pub outputs: Vec<ValueProto>,
    #[prost(message, repeated, tag = "13")]
    pub values: Vec<ValueProto>,
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializers: Vec<SparseProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SparseProto {
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Where they are, for each its number in row-major order, or a row of places along the axes.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    #[prost(int64, repeated, tag = "3")]
    pub sizes: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<TypeProto>,
}

/// What a value is; some exporters write none of these.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
    #[prost(message, optional, boxed, tag = "4")]
    pub sequence: Option<Box<HolderType>>,
    #[prost(message, optional, boxed, tag = "9")]
    pub optional: Option<Box<HolderType>>,
    #[prost(message, optional, boxed, tag = "5")]
    pub map: Option<Box<MapType>>,
    #[prost(message, optional, tag = "7")]
    pub opaque: Option<()>,
    #[prost(message, optional, tag = "8")]
    pub sparse: Option<()>,
}

/// Pairs of a key and a value.
#[derive(Clone, PartialEq, Message)]
pub struct MapType {
    #[prost(int32, tag = "1")]
    pub key: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub value: Option<Box<TypeProto>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub element: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HolderType {
    #[prost(message, optional, tag = "1")]
    pub element: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub sizes: Vec<SizeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SizeProto {
    #[prost(oneof = "SizeKind", tags = "1, 2")]
    pub size: Option<SizeKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum SizeKind {
    #[prost(int64, tag = "1")]
    Fixed(i64),
    #[prost(string, tag = "2")]
    Named(String),
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// The names of the inputs; empty for one that is left out.
    #[prost(string, repeated, tag = "1")]
    pub inputs: Vec<String>,
    /// The names of the outputs; empty for one that is not asked for.
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op: String,
    #[prost(message, repeated, tag = "5")]
    pub attributes: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub domain: String,
    #[prost(string, tag = "8")]
    pub overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Which of the others holds the value: see [`AttributeProto::FLOAT`] and its like.
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// In a function: the attribute of the call that it stands for, if it does.
    #[prost(string, tag = "21")]
    pub reference: String,
    #[prost(float, tag = "2")]
    pub float: f32,
    #[prost(int64, tag = "3")]
    pub int: i64,
    #[prost(bytes = "bytes", tag = "4")]
    pub string: Bytes,
    #[prost(message, optional, boxed, tag = "5")]
    pub tensor: Option<Box<TensorProto>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub graph: Option<Box<GraphProto>>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
}

impl AttributeProto {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
    /// The type of what an empty optional would hold.
    pub const TYPE: i32 = 13;
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub sizes: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub element: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    /// The bytes of all elements, little-endian; if empty, the field of their type holds them.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw: Bytes,
    #[prost(float, repeated, tag = "4")]
    pub floats: Vec<f32>,
    /// Also holds narrower integers, truth values, and the bits of 16-bit floats.
    #[prost(int32, repeated, tag = "5")]
    pub ints: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub strings: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub longs: Vec<i64>,
    #[prost(double, repeated, tag = "10")]
    pub doubles: Vec<f64>,
    /// Also holds `u32`.
    #[prost(uint64, repeated, tag = "11")]
    pub unsigned: Vec<u64>,
    /// Where in another file the bytes are.
    #[prost(message, repeated, tag = "13")]
    pub external: Vec<EntryProto>,
    #[prost(int32, tag = "14")]
    pub location: i32,
}

impl TensorProto {
    /// The location of data that is in another file.
    pub const EXTERNAL: i32 = 1;
    /// The element type of strings.
    pub const STRING: i32 = 8;
}

#[derive(Clone, PartialEq, Message)]
pub struct SequenceProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub kind: i32,
    #[prost(message, repeated, tag = "3")]
    pub tensors: Vec<TensorProto>,
}

impl SequenceProto {
    /// The kind of a sequence of tensors, and of an optional tensor.
    pub const TENSOR: i32 = 1;
}

#[derive(Clone, PartialEq, Message)]
pub struct OptionalProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub kind: i32,
    #[prost(message, optional, tag = "3")]
    pub tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "5")]
    pub sequence: Option<SequenceProto>,
}
