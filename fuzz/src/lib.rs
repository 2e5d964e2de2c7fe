//! What each fuzz target does with its bytes. `crates/streampool/tests/corpus.rs` does the same with the corpus.
//!
//! Errors are what hostile bytes should come to, so they count for nothing here: panics, aborts, and what never ends do.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use streampool::host::{HostDevice, HostOptions};
use streampool::model::{Dim, RunOptions, ValueInfo};
use streampool::tensor::{NpzFile, SafeTensors, Tensor};
use streampool::{Array, DType, Pool, Session, SessionOptions, Settings};

/// What a model, its plans and its runs may take, and how long each of its runs may last.
const MEMORY: usize = 256 << 20;
const TIME: Duration = Duration::from_millis(500);

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let device = HostDevice::new(HostOptions::default().threads(1).capacity(MEMORY));
    let settings = Settings::builder().without_environment();
    let settings = settings.memory_limit(Some(MEMORY)).build();
    let pool = Pool::with_settings(device.expect("a host"), settings.expect("settings"));
    pool.expect("a pool")
});

/// A model: loaded, planned, and run on inputs that fit its ports and are hostile otherwise.
pub fn onnx(bytes: &[u8]) {
    let options = SessionOptions {
        program_memory: 16 << 20,
        ..SessionOptions::default()
    };
    let Ok(session) = Session::from_bytes(&POOL, bytes.to_vec(), &options) else {
        return;
    };
    let mut choices = Choices::of(bytes);
    for _ in 0..2 {
        let size = choices.pick(&[1, 2, 3, 5, 0]);
        let inputs = session.inputs().iter();
        let inputs = inputs.map(|port| Some((&*port.name, input(port, size, &mut choices)?)));
        let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else {
            return;
        };
        let inputs = inputs.iter().map(|(name, array)| (*name, array));
        // What it comes to is its own affair.
        let _ = session.run_with(inputs, &RunOptions::within(TIME));
    }
}

/// A file of weights: every tensor in it.
pub fn safetensors(bytes: &[u8]) {
    with_file("safetensors", bytes, |path| {
        let _ = SafeTensors::open(path).and_then(|file| file.read_all(&POOL));
    });
}

/// A file of NumPy's, read as one array and as an archive of several.
pub fn numpy(bytes: &[u8]) {
    with_file("npy", bytes, |path| {
        let _ = Tensor::read_npy(&POOL, path);
        let _ = NpzFile::open(path).and_then(|mut file| file.read_all(&POOL));
    });
}

/// An environment, one variable a line.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let variables = text
        .lines()
        .map(|line| line.split_once('=').unwrap_or((line, "")));
    let variables: Vec<(&str, &str)> = variables.collect();
    let read = |name: &str| {
        let mut found = variables.iter().filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| (*value).to_owned())
    };
    let names = variables.iter().map(|(name, _)| *name);
    if let Ok(settings) = Settings::builder().build_from(read, names) {
        settings.validate().expect("what is built is valid");
    }
}

/// Files are read from paths; this one is the process's own.
fn with_file(kind: &str, bytes: &[u8], read: impl FnOnce(&PathBuf)) {
    let name = format!("streampool-fuzz-{}.{kind}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("a file in the temporary folder");
    read(&path);
    let _ = std::fs::remove_file(&path);
}

/// An input for a port, whose free sizes are `size`. There is none for ports of no type, or of many elements.
fn input(port: &ValueInfo, size: usize, choices: &mut Choices) -> Option<Array> {
    let sizes = port.shape.iter().flatten().map(|dim| match dim {
        Dim::Fixed(fixed) => *fixed,
        Dim::Named(_) | Dim::Free => size,
    });
    let shape: Vec<usize> = sizes.collect();
    let count = shape
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size))?;
    let dtype = port.dtype?;
    if count > 1 << 16 {
        return None;
    }
    let values = (0..count).flat_map(|_| element(dtype, choices));
    let bytes: Vec<u8> = values.collect();
    Array::from_bytes(dtype, &bytes, &shape).ok()
}

/// One element: mostly small, sometimes at an edge of its type.
fn element(dtype: DType, choices: &mut Choices) -> Vec<u8> {
    let small = choices.next() % 7;
    let whole = match choices.next() % 4 {
        0 => choices.pick(&[
            i64::MAX,
            i64::MIN,
            1 << 40,
            -1,
            i64::from(i32::MAX),
            i64::from(i32::MIN),
        ]),
        _ => small as i64 - 2,
    };
    let real = match choices.next() % 4 {
        0 => choices.pick(&[
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            3e38,
            1e-40,
            -0.0,
        ]),
        _ => small as f64 / 2.0 - 1.0,
    };
    match dtype {
        DType::Bool => vec![u8::from(small > 3)],
        DType::F32 => (real as f32).to_le_bytes().to_vec(),
        DType::F64 => real.to_le_bytes().to_vec(),
        _ if dtype.is_float() => choices.next().to_le_bytes()[..dtype.size()].to_vec(),
        _ => whole.to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// Choices that are the same whenever the bytes are.
struct Choices(u64);

impl Choices {
    fn of(bytes: &[u8]) -> Choices {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        Choices(hash | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}
