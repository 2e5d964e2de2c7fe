//! `ai.onnx.ml` against ONNX Runtime: models by a fixed seed, or those that `bench/models/classical.py` left in the folder that
//! `CLASSICAL_DATA` names. Labels have to be equal, and all else within 1e-5.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use streampool_conformance::packages;
use streampool_model::testing::host_pool;
use streampool_model::{Array, Session};
use streampool_tensor::{DType, NpzFile, Tensor};

/// What makes the models.
const PACKAGES: [(&str, &str); 6] = [
    ("onnxruntime", "1.31.1"),
    ("numpy", "2.4.6"),
    ("onnx", "1.22.0"),
    ("protobuf", "7.36.2"),
    ("ml_dtypes", "0.6.0"),
    ("typing_extensions", "4.16.0"),
];

/// How far a number may be off, where it is not large.
const ROOM: f64 = 1e-5;

/// The folder of the models; or why there is none.
fn folder() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("CLASSICAL_DATA") {
        return Ok(folder.into());
    }
    let home = env!("CARGO_TARGET_TMPDIR");
    let installed = PACKAGES.map(|(package, version)| packages::installed(home, package, version));
    let path = installed.into_iter().collect::<Result<Vec<_>, _>>()?;
    let folder = Path::new(home).join("classical");
    // What an older script made is not read.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target directory can be written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classical/make.py");
    let output = Command::new("python3")
        .env(
            "PYTHONPATH",
            std::env::join_paths(path).expect("no odd folders"),
        )
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(script)
        .arg(&folder)
        .output()
        .map_err(|error| format!("models are made by python3: {error}"))?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(folder)
}

/// Arrays by name.
fn arrays(path: &Path) -> BTreeMap<String, Array> {
    let pool = host_pool();
    let mut file = NpzFile::open(path).expect("a file of arrays");
    let all = file.read_all(&pool).expect("arrays");
    let array = |(name, tensor): (String, Tensor)| {
        (name, Array::of(&tensor).expect("a tensor on the host"))
    };
    all.into_iter().map(array).collect()
}

/// Strings and their shape, if there are any.
fn strings(path: &Path) -> Option<(Vec<usize>, Vec<String>)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let shape = lines.next()?.split_whitespace();
    let shape = shape.map(|size| size.parse().expect("a size")).collect();
    Some((shape, lines.map(str::to_owned).collect()))
}

/// How an output differs from what is expected, if it does.
fn difference(got: &Array, want: &Array) -> Option<String> {
    if got.shape() != want.shape()
        && got.shape().iter().product::<usize>() != want.shape().iter().product::<usize>()
    {
        return Some(format!("shape {:?}, not {:?}", got.shape(), want.shape()));
    }
    let numbers = |array: &Array| -> Vec<f64> {
        let tensor = array.tensor(&host_pool()).expect("a tensor on the host");
        let wide = tensor.to_dtype(DType::F64).expect("a number type");
        wide.to_vec().expect("a tensor on the host")
    };
    let pairs = numbers(got).into_iter().zip(numbers(want));
    let room = if want.dtype().is_float() { ROOM } else { 0.0 };
    let near = |(got, want): &(f64, f64)| {
        (got - want).abs() <= room * want.abs().max(1.0)
            || got.is_nan() && want.is_nan()
            || got == want
    };
    let place = pairs.clone().position(|pair| !near(&pair))?;
    let (got, want) = pairs.clone().nth(place)?;
    let worse = pairs.filter(|pair| !near(pair)).count();
    Some(format!("{got} at {place}, not {want}; {worse} are wrong"))
}

/// Why a model is not answered as ONNX Runtime does.
fn wrong(model: &Path) -> Option<String> {
    let stem = model.with_extension("");
    let beside = |end: &str| PathBuf::from(format!("{}{end}", stem.display()));
    let session = match Session::load(&host_pool(), model) {
        Ok(session) => session,
        Err(error) => return Some(error.to_string()),
    };
    let mut inputs = arrays(&beside("_in.npz"));
    for port in session.inputs() {
        if let Some((shape, values)) = strings(&beside(&format!(".in.{}.txt", port.name))) {
            let array = Array::from_strings(&values, &shape).expect("as many as the shape has");
            inputs.insert(port.name.clone(), array);
        }
    }
    let given = inputs.iter().map(|(name, array)| (&name[..], array));
    let outputs = match session.run(given) {
        Ok(outputs) => outputs,
        Err(error) => return Some(error.to_string()),
    };
    let wanted = arrays(&beside("_out.npz"));
    let mut compared = 0;
    for (name, _) in outputs.iter() {
        if let Some((_, want)) = strings(&beside(&format!(".out.{name}.txt"))) {
            compared += 1;
            if outputs.strings(name).is_none_or(|got| got != want) {
                return Some(format!("{name}: {:?}, not {want:?}", outputs.strings(name)));
            }
        } else if let Some(want) = wanted.get(name) {
            compared += 1;
            if let Some(why) = difference(&outputs[name], want) {
                return Some(format!("{name}: {why}"));
            }
        } else {
            return Some(format!("{name}: nobody expects it"));
        }
    }
    (compared == 0).then(|| "nothing was compared".to_owned())
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "installs packages, and takes long"
)]
fn classical_models_answer_as_in_onnx_runtime() {
    let folder = match folder() {
        Ok(folder) => folder,
        Err(why) => return println!("skipped: {why}"),
    };
    let entries = std::fs::read_dir(&folder).expect("a folder of models");
    let paths = entries.map(|entry| entry.expect("a folder that can be read").path());
    let mut models: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() > 10, "there are {} models", models.len());
    let failed: Vec<String> = models
        .iter()
        .filter_map(|model| {
            Some(format!(
                "{}: {}",
                model.file_stem()?.display(),
                wrong(model)?
            ))
        })
        .collect();
    println!(
        "{} of {} models are right",
        models.len() - failed.len(),
        models.len()
    );
    assert!(
        failed.is_empty(),
        "{} wrong:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
