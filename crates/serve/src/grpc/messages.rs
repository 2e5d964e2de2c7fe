//! The messages of the protocol, with the field numbers of `open_inference_grpc.proto` and of Triton's `grpc_service.proto`.

use std::collections::HashMap;

use bytes::Bytes;
use prost::{Message, Oneof};

/// A request without fields.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Whether something is so: `live` or `ready`.
#[derive(Clone, PartialEq, Message)]
pub struct Yes {
    #[prost(bool, tag = "1")]
    pub yes: bool,
}

/// A model, or a version of it.
#[derive(Clone, PartialEq, Message)]
pub struct Named {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub platform: String,
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Parameter {
    #[prost(oneof = "Choice", tags = "1, 2, 3, 4, 5")]
    pub choice: Option<Choice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Choice {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int64(i64),
    #[prost(string, tag = "3")]
    String(String),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

pub type Parameters = HashMap<String, Parameter>;

#[derive(Clone, PartialEq, Message)]
pub struct Contents {
    #[prost(bool, repeated, tag = "1")]
    pub bools: Vec<bool>,
    #[prost(int32, repeated, tag = "2")]
    pub ints: Vec<i32>,
    #[prost(int64, repeated, tag = "3")]
    pub int64s: Vec<i64>,
    #[prost(uint32, repeated, tag = "4")]
    pub uints: Vec<u32>,
    #[prost(uint64, repeated, tag = "5")]
    pub uint64s: Vec<u64>,
    #[prost(float, repeated, tag = "6")]
    pub fp32s: Vec<f32>,
    #[prost(double, repeated, tag = "7")]
    pub fp64s: Vec<f64>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub strings: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InferRequest {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(string, tag = "2")]
    pub model_version: String,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: Parameters,
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<InputTensor>,
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<RequestedOutput>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub raw_input_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InputTensor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: Parameters,
    #[prost(message, optional, tag = "5")]
    pub contents: Option<Contents>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestedOutput {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(map = "string, message", tag = "2")]
    pub parameters: Parameters,
}

#[derive(Clone, PartialEq, Message)]
pub struct InferResponse {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(string, tag = "2")]
    pub model_version: String,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: Parameters,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<OutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub raw_output_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OutputTensor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: Parameters,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamResponse {
    #[prost(string, tag = "1")]
    pub error_message: String,
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<InferResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub config: Option<ModelConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelConfig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub platform: String,
    #[prost(int32, tag = "4")]
    pub max_batch_size: i32,
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<ConfigInput>,
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<ConfigOutput>,
    #[prost(string, tag = "17")]
    pub backend: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigInput {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(int64, repeated, tag = "4")]
    pub dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigOutput {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatisticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub models: Vec<ModelStatistics>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelStatistics {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(uint64, tag = "3")]
    pub last_inference: u64,
    #[prost(uint64, tag = "4")]
    pub inference_count: u64,
    #[prost(uint64, tag = "5")]
    pub execution_count: u64,
    #[prost(message, optional, tag = "6")]
    pub inference: Option<InferStatistics>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InferStatistics {
    #[prost(message, optional, tag = "1")]
    pub success: Option<CountAndNanos>,
    #[prost(message, optional, tag = "2")]
    pub fail: Option<CountAndNanos>,
    #[prost(message, optional, tag = "3")]
    pub queue: Option<CountAndNanos>,
    #[prost(message, optional, tag = "4")]
    pub compute_input: Option<CountAndNanos>,
    #[prost(message, optional, tag = "5")]
    pub compute_infer: Option<CountAndNanos>,
    #[prost(message, optional, tag = "6")]
    pub compute_output: Option<CountAndNanos>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CountAndNanos {
    #[prost(uint64, tag = "1")]
    pub count: u64,
    #[prost(uint64, tag = "2")]
    pub ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct IndexRequest {
    #[prost(string, tag = "1")]
    pub repository_name: String,
    #[prost(bool, tag = "2")]
    pub ready: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct IndexResponse {
    #[prost(message, repeated, tag = "1")]
    pub models: Vec<Indexed>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Indexed {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub state: String,
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// Loads or unloads a model.
#[derive(Clone, PartialEq, Message)]
pub struct ControlRequest {
    #[prost(string, tag = "1")]
    pub repository_name: String,
    #[prost(string, tag = "2")]
    pub model_name: String,
    #[prost(map = "string, message", tag = "3")]
    pub parameters: Parameters,
}

/// Settings of the log; those that are not named stay.
#[derive(Clone, PartialEq, Message)]
pub struct LogSettings {
    #[prost(map = "string, message", tag = "1")]
    pub settings: HashMap<String, LogValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LogValue {
    #[prost(oneof = "LogChoice", tags = "1, 2, 3")]
    pub choice: Option<LogChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum LogChoice {
    #[prost(bool, tag = "1")]
    Flag(bool),
    #[prost(uint32, tag = "2")]
    Number(u32),
    #[prost(string, tag = "3")]
    Text(String),
}

/// What is traced, of a model or of all.
#[derive(Clone, PartialEq, Message)]
pub struct TraceRequest {
    #[prost(map = "string, message", tag = "1")]
    pub settings: HashMap<String, TraceValue>,
    #[prost(string, tag = "2")]
    pub model_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct TraceSettings {
    #[prost(map = "string, message", tag = "1")]
    pub settings: HashMap<String, TraceValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TraceValue {
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

/// A region of shared memory.
#[derive(Clone, PartialEq, Message)]
pub struct RegionStatus {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub key: String,
    #[prost(uint64, tag = "3")]
    pub offset: u64,
    #[prost(uint64, tag = "4")]
    pub byte_size: u64,
}

/// One region, or all if the name is empty.
#[derive(Clone, PartialEq, Message)]
pub struct RegionName {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Regions {
    #[prost(map = "string, message", tag = "1")]
    pub regions: HashMap<String, RegionStatus>,
}

/// Of `grpc.health.v1`.
#[derive(Clone, PartialEq, Message)]
pub struct HealthRequest {
    #[prost(string, tag = "1")]
    pub service: String,
}

/// Of `grpc.health.v1`: 1 is serving, 2 is not.
#[derive(Clone, PartialEq, Message)]
pub struct HealthResponse {
    #[prost(int32, tag = "1")]
    pub status: i32,
}
