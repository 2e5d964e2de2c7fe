//! Where the tests are: models, inputs and expected outputs, as the Python package `onnx` carries them.

use std::path::{Path, PathBuf};

use streampool_conformance::packages;
use streampool_model::Error;
use streampool_model::graph::{ValueInfo, ValueKind};
use streampool_model::onnx::{self, Model};
use streampool_model::testing::Value;
use streampool_tensor::Pool;

/// Later versions no longer carry the data.
const VERSION: &str = "1.22.0";

/// A folder that holds what the package has in [`FOLDER`], where nothing can be installed.
const DATA: &str = "ONNX_DATA";

const FOLDER: &str = "onnx/backend/test/data";

/// Tests of one node each, of a few, and of what PyTorch wrote of its layers and operators.
const SETS: [&str; 4] = ["node", "simple", "pytorch-converted", "pytorch-operator"];

/// One test: a model, and what its outputs are for certain inputs.
pub struct Case {
    pub name: String,
    folder: PathBuf,
}

/// Every test there is, by name; or why none can be had.
pub fn cases() -> Result<Vec<Case>, String> {
    let home = match std::env::var_os(DATA) {
        Some(folder) => PathBuf::from(folder),
        None => packages::installed(env!("CARGO_TARGET_TMPDIR"), "onnx", VERSION)?.join(FOLDER),
    };
    let mut cases = Vec::new();
    for set in SETS {
        let folder = home.join(set);
        let entries = std::fs::read_dir(&folder);
        let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let folder = entry.expect("a folder of tests can be read").path();
            let name = folder.file_name().and_then(|name| name.to_str());
            if let Some(name) = name.and_then(|name| name.strip_prefix("test_")) {
                let name = name.to_owned();
                cases.push(Case { name, folder });
            }
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

impl Case {
    /// The model's file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("model.onnx")
    }

    /// What is computed, with its constants in `known`; none, if it is of a version of operators that is not read.
    pub fn model(&self, known: &Pool) -> Result<Option<Model>, String> {
        match onnx::read(&self.file(), known) {
            Ok(model) => Ok(Some(model)),
            Err(Error::File { what, .. }) if what == "the version of ONNX's operators" => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The folders of inputs and what is expected for them.
    pub fn data_sets(&self) -> impl Iterator<Item = PathBuf> {
        let sets = (0..).map(|set| self.folder.join(format!("test_data_set_{set}")));
        sets.take_while(|folder| folder.exists())
    }
}

/// A value from a file, if there is one.
pub fn value(
    folder: &Path,
    file: &str,
    info: &ValueInfo,
    pool: &Pool,
) -> Result<Option<Value>, String> {
    let Ok(bytes) = std::fs::read(folder.join(file)) else {
        return Ok(None);
    };
    let value = match info.kind {
        ValueKind::Tensor => onnx::tensor(&bytes, pool).map(|(_, tensor)| Value::Tensor(tensor)),
        ValueKind::Sequence => {
            onnx::sequence(&bytes, pool).map(|(_, tensors)| Value::Sequence(tensors))
        }
        // The tests write what is there as the value itself.
        ValueKind::Optional => onnx::optional(&bytes, pool).map(|(_, held)| {
            match held.and_then(|held| held.into_iter().next()) {
                Some(tensor) => Value::Tensor(tensor),
                None => Value::Nothing,
            }
        }),
        ValueKind::OptionalSequence => onnx::optional(&bytes, pool)
            .map(|(_, held)| held.map_or(Value::Nothing, Value::Sequence)),
    };
    value.map(Some).map_err(|error| format!("{file}: {error}"))
}
