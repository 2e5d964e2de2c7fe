//! ONNX files: how they are read, and the graphs they hold.
//!
//! A file is read once, and never mapped: what others do to it meanwhile changes nothing that was read. The values of large
//! tensors are read into memory of their own, and stay there where the pool is the host's. Nothing is believed of a file: sizes are compared with the bytes that are there before memory is asked for,
//! and graphs are built only if each of their values is made once, and before it is read.

mod adopt;
mod attributes;
mod build;
mod external;
mod file;
mod functions;
mod old;
mod opsets;
mod pieces;
mod proto;
mod scan;
mod scopes;
mod small;
mod small_flow;
mod sparse;
mod tensors;
mod test_data;
#[cfg(test)]
mod tests;
mod types;
pub mod writer;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use streampool_tensor::{Pool, Tensor};

#[doc(hidden)]
pub use small::{Round, Small, powers};
pub use tensors::dtype;
#[doc(hidden)]
pub use test_data::{array, optional, sequence, tensor};

use crate::error::{Error, Result};
use crate::graph::Graph;
use build::Builder;
use external::External;
use opsets::Opsets;
use proto::{EntryProto, ModelProto, OpsetProto, decoded};
use tensors::Importer;

/// A model as its file has it.
#[derive(Clone)]
pub struct Model {
    /// What it computes.
    pub graph: Graph,
    /// The name of its graph.
    pub name: String,
    /// What it says of itself.
    pub doc: String,
    /// What wrote it, and that one's version.
    pub producer: String,
    /// The version of the file format.
    pub ir_version: i64,
    /// The version of each domain's operators; ONNX's own domain has an empty name.
    pub opsets: BTreeMap<String, i64>,
    /// What else it says, by keys.
    pub metadata: BTreeMap<String, String>,
}

/// The model in a file, with its tensors in the pool `known`.
pub fn read(path: &Path, known: &Pool) -> Result<Model> {
    read_with(path, None, &HashMap::new(), known)
}

/// As [`read`], where links beside the model may also lead to files below `data_folder`, and `given` has values of weights in the
/// pool `known`, in place of files.
pub fn read_with(
    path: &Path,
    data_folder: Option<&Path>,
    given: &HashMap<String, Tensor>,
    known: &Pool,
) -> Result<Model> {
    let (file, length) = file::open(path)?;
    if length == 0 {
        return Err(Error::file(path.display(), "empty", "an ONNX model"));
    }
    let external = External::beside(path, data_folder)?;
    let importer = Importer::new(known, external, Some(given));
    read_from(path, BufReader::new(file), length, importer)
}

/// The model in these bytes, with its tensors in the pool `known`. Data that it keeps in other files cannot be found.
pub fn read_bytes(bytes: Bytes, known: &Pool) -> Result<Model> {
    read_bytes_with(bytes, &HashMap::new(), known)
}

/// As [`read_bytes`], where `given` has values of weights in the pool `known`, in place of files.
pub fn read_bytes_with(
    bytes: Bytes,
    given: &HashMap<String, Tensor>,
    known: &Pool,
) -> Result<Model> {
    let name = Path::new("the model");
    let importer = Importer::new(known, External::none(), Some(given));
    read_from(name, &bytes[..], bytes.len(), importer)
}

/// The model in so many bytes, which errors call `path`.
fn read_from(path: &Path, from: impl Read, length: usize, importer: Importer<'_>) -> Result<Model> {
    let name = &path.display().to_string();
    let model: ModelProto = decoded(scan::read(path, from, length)?, name)?;
    let Some(graph) = &model.graph else {
        return Err(Error::file(
            name,
            "not an ONNX model: it has no graph",
            "one with a graph",
        ));
    };
    // Before version 3 of the format there was but one version of operators.
    let first = [OpsetProto {
        domain: String::new(),
        version: 1,
    }];
    let opsets = match model.ir_version < 3 && model.opsets.is_empty() {
        true => Opsets::read(&first)?,
        false => Opsets::read(&model.opsets)?,
    };
    let versions = opsets.versions();
    Ok(Model {
        graph: Builder::new(importer, &model.functions)?.model(graph, opsets, model.ir_version)?,
        name: graph.name.clone(),
        doc: model.doc,
        producer: format!("{} {}", model.producer, model.producer_version)
            .trim()
            .to_owned(),
        ir_version: model.ir_version,
        opsets: versions,
        metadata: model
            .metadata
            .into_iter()
            .map(|EntryProto { key, value }| (key, value))
            .collect(),
    })
}
