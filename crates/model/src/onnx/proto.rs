//! The messages of the ONNX file format, as far as they are read.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opsets: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Opset {
    /// Empty for the operators of ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NodeProto>,
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub inputs: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub outputs: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<ValueKind>,
}

/// What a value is; without a tensor type, something that is no tensor.
#[derive(Clone, PartialEq, Message)]
pub struct ValueKind {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorKind>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorKind {
    #[prost(int32, tag = "1")]
    pub element: i32,
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
    pub attributes: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Which of the others holds the value: see [`Attribute::FLOAT`] and its like.
    #[prost(int32, tag = "20")]
    pub kind: i32,
    #[prost(float, tag = "2")]
    pub float: f32,
    #[prost(int64, tag = "3")]
    pub int: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub string: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    pub graph: Option<Graph>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
}

impl Attribute {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
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
    #[prost(bytes = "vec", tag = "9")]
    pub raw: Vec<u8>,
    #[prost(float, repeated, tag = "4")]
    pub floats: Vec<f32>,
    /// Also holds narrower integers, truth values, and the bits of 16-bit floats.
    #[prost(int32, repeated, tag = "5")]
    pub ints: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub longs: Vec<i64>,
    #[prost(double, repeated, tag = "10")]
    pub doubles: Vec<f64>,
    /// Also holds `u32`.
    #[prost(uint64, repeated, tag = "11")]
    pub unsigned: Vec<u64>,
}
