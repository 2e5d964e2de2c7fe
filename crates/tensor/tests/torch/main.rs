//! What the operators give, beside what PyTorch gave for the same inputs: `reference/make.py` wrote it down.

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod distributions;
mod index;
mod linalg;
mod multi;
mod norm;
mod order;
mod recurrent;
mod spatial;

use std::path::Path;

use streampool_tensor::{DType, NpzFile, Pool, Tensor};

/// The cases of one file.
struct Reference {
    pool: Pool,
    file: NpzFile,
}

impl Reference {
    fn open(name: &str) -> Reference {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
        Reference {
            pool: common::pool(),
            file: NpzFile::open(folder.join(format!("{name}.npz"))).unwrap(),
        }
    }

    /// An array of a case.
    #[track_caller]
    fn get(&mut self, case: &str, name: &str) -> Tensor {
        self.file
            .read(&self.pool, &format!("{case}.{name}"))
            .unwrap()
    }

    /// An array that not every case has.
    fn find(&mut self, case: &str, name: &str) -> Option<Tensor> {
        let name = format!("{case}.{name}");
        let known = self.file.names().any(|known| known == name);
        known.then(|| self.file.read(&self.pool, &name).unwrap())
    }

    /// Asserts that `got` is the array of a case, each element up to `tolerance` of its size, or of one.
    #[track_caller]
    fn assert_close(&mut self, case: &str, name: &str, got: &Tensor, tolerance: f64) {
        let expected = self.get(case, name);
        assert_eq!(got.shape(), expected.shape(), "the shape of {case}.{name}");
        assert_eq!(got.dtype(), expected.dtype(), "the type of {case}.{name}");
        for (place, (got, expected)) in floats(got).into_iter().zip(floats(&expected)).enumerate() {
            let near = (got - expected).abs() <= tolerance * expected.abs().max(1.0);
            assert!(
                near || got == expected || (got.is_nan() && expected.is_nan()),
                "element {place} of {case}.{name}: {got}, expected {expected}"
            );
        }
    }

    /// Asserts that `got` is the array of a case.
    #[track_caller]
    fn assert_same(&mut self, case: &str, name: &str, got: &Tensor) {
        self.assert_close(case, name, got, 0.0);
    }
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.to_dtype(DType::F64).unwrap();
    wide.to_vec().unwrap()
}
