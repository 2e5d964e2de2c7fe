//! Where the node tests are: models, inputs and expected outputs, as the Python package `onnx` carries them.

use std::path::{Path, PathBuf};

use prost::Message;
use streampool_conformance::packages;

use crate::proto::{Model, TensorProto};

/// Later versions no longer carry the data.
const VERSION: &str = "1.22.0";

/// A folder that holds what the package has in [`FOLDER`], where nothing can be installed.
const DATA: &str = "ONNX_DATA";

const FOLDER: &str = "onnx/backend/test/data/node";

/// One test: a model, and what its outputs are for certain inputs.
pub struct Case {
    pub name: String,
    folder: PathBuf,
}

/// Every test there is, by name; or why none can be had.
pub fn cases() -> Result<Vec<Case>, String> {
    let folder = match std::env::var_os(DATA) {
        Some(folder) => PathBuf::from(folder),
        None => packages::installed(env!("CARGO_TARGET_TMPDIR"), "onnx", VERSION)?.join(FOLDER),
    };
    let entries = std::fs::read_dir(&folder);
    let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut cases: Vec<Case> = entries
        .filter_map(|entry| {
            let folder = entry.expect("a folder of tests can be read").path();
            let name = folder
                .file_name()?
                .to_str()?
                .strip_prefix("test_")?
                .to_owned();
            Some(Case { name, folder })
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

impl Case {
    /// What is computed.
    pub fn model(&self) -> Model {
        decoded(&self.folder.join("model.onnx")).expect("each test has a model")
    }

    /// Input number `place`, if it is given.
    pub fn input(&self, place: usize) -> Option<TensorProto> {
        decoded(
            &self
                .folder
                .join(format!("test_data_set_0/input_{place}.pb")),
        )
    }

    /// What output number `place` is expected to be.
    pub fn output(&self, place: usize) -> Option<TensorProto> {
        decoded(
            &self
                .folder
                .join(format!("test_data_set_0/output_{place}.pb")),
        )
    }
}

fn decoded<T: Message + Default>(path: &Path) -> Option<T> {
    let bytes = std::fs::read(path).ok()?;
    Some(T::decode(&bytes[..]).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
