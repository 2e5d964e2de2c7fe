//! Files that NumPy and the safetensors package wrote are read, and what is written here is read again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::pool;
use half::f16;
use streampool_tensor::{
    DType, Error, NpzFile, Pool, SafeTensors, Tensor, write_npz, write_safetensors,
};

/// A file that `tests/data/make.py` wrote.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A file for one test.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

const GRID: [f32; 6] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5];

#[test]
fn what_numpy_wrote_is_read() {
    let pool = pool();
    let read = |name| Tensor::read_npy(&pool, data(name)).unwrap();
    let grid = read("grid.npy");
    assert_eq!((grid.shape(), grid.dtype()), (&[2, 3][..], DType::F32));
    assert_eq!(grid.to_vec::<f32>().unwrap(), GRID);
    let fortran = read("fortran.npy");
    assert_eq!(fortran.shape(), [2, 3, 4]);
    let expected: Vec<i16> = (0..24).collect();
    assert_eq!(fortran.to_vec::<i16>().unwrap(), expected);
    assert_eq!(
        read("big_endian.npy").to_vec::<i64>().unwrap(),
        [1, -2, 1 << 40]
    );
    assert_eq!(read("scalar.npy").item::<f64>().unwrap(), 2.5);
    assert_eq!(read("scalar.npy").rank(), 0);
    assert_eq!(read("empty.npy").shape(), [3, 0]);
    for name in ["version2.npy", "version3.npy"] {
        assert_eq!(read(name).to_vec::<bool>().unwrap(), [true, false]);
    }
    let refused = Tensor::read_npy(&pool, data("text.npy"))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("text.npy: `descr` of the header is `<U7`"),
        "{refused}"
    );
}

#[test]
fn archives_that_numpy_wrote_are_read() {
    let pool = pool();
    for name in ["stored.npz", "deflated.npz"] {
        let mut file = NpzFile::open(data(name)).unwrap();
        assert_eq!(
            file.read(&pool, "grid").unwrap().to_vec::<f32>().unwrap(),
            GRID
        );
        assert_eq!(file.read(&pool, "count").unwrap().item::<u32>().unwrap(), 7);
        let half = file
            .read(&pool, "inner/half")
            .unwrap()
            .item::<f16>()
            .unwrap();
        assert_eq!(half, f16::from_f32(0.5));
        let all = file.read_all(&pool).unwrap();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, file.names().collect::<Vec<_>>());
        let refused = file.read(&pool, "other").unwrap_err().to_string();
        assert!(
            refused.contains("other") && refused.contains("grid, count"),
            "{refused}"
        );
    }
}

#[test]
fn what_the_safetensors_package_wrote_is_read() {
    let pool = pool();
    let file = SafeTensors::open(data("some.safetensors")).unwrap();
    assert_eq!(
        file.names().collect::<Vec<_>>(),
        ["grid", "half", "none", "truth"]
    );
    assert_eq!(file.metadata()["format"], "np");
    assert_eq!(file.shape("grid"), Some(&[2, 3][..]));
    assert_eq!(
        file.read(&pool, "grid").unwrap().to_vec::<f32>().unwrap(),
        GRID
    );
    assert_eq!(
        file.read(&pool, "truth").unwrap().to_vec::<bool>().unwrap(),
        [true, false]
    );
    let half = file.read(&pool, "half").unwrap().item::<f16>().unwrap();
    assert_eq!(half, f16::from_f32(1.5));
    assert_eq!(file.read_all(&pool).unwrap().len(), 4);
    let refused = file.read(&pool, "absent").unwrap_err().to_string();
    assert!(refused.contains("`absent`"), "{refused}");
}

/// A tensor of every type, some of them views.
fn samples(pool: &Pool) -> Vec<(&'static str, Tensor)> {
    DType::ALL
        .into_iter()
        .map(|dtype| {
            let count = Tensor::arange(pool, 0, 12, 1, DType::I64).unwrap();
            let x = count.to_dtype(dtype).unwrap().reshape(&[3, 4]).unwrap();
            let seen = match dtype.size() {
                1 => x.transpose(0, 1).unwrap(),
                2 => x.narrow(0, 1, 2).unwrap(),
                4 => x.narrow(1, 4, 0).unwrap(),
                _ => x.flip(&[1]).unwrap(),
            };
            (dtype.name(), seen)
        })
        .collect()
}

#[track_caller]
fn same(left: &Tensor, right: &Tensor) {
    assert_eq!((left.dtype(), left.shape()), (right.dtype(), right.shape()));
    assert_eq!(left.to_bytes().unwrap(), right.to_bytes().unwrap());
}

#[test]
fn every_type_is_written_and_read_again() {
    let pool = pool();
    let samples = samples(&pool);
    let listed = || samples.iter().map(|(name, tensor)| (*name, tensor));

    let path = scratch("every.safetensors");
    let about = BTreeMap::from([("by".to_owned(), "a test \"of\" names".to_owned())]);
    write_safetensors(&path, listed(), &about).unwrap();
    let file = SafeTensors::open(&path).unwrap();
    assert_eq!(file.metadata(), &about);
    for (name, tensor) in listed() {
        same(&file.read(&pool, name).unwrap(), tensor);
    }

    let known = || listed().filter(|(name, _)| *name != "bf16");
    for compressed in [false, true] {
        let path = scratch(if compressed {
            "deflated.npz"
        } else {
            "stored.npz"
        });
        write_npz(&path, known(), compressed).unwrap();
        let mut file = NpzFile::open(&path).unwrap();
        assert_eq!(file.names().count(), DType::ALL.len() - 1);
        for (name, tensor) in known() {
            same(&file.read(&pool, name).unwrap(), tensor);
        }
    }
    for (name, tensor) in known() {
        let path = scratch(&format!("{name}.npy"));
        tensor.write_npy(&path).unwrap();
        same(&Tensor::read_npy(&pool, &path).unwrap(), tensor);
        let head = std::fs::read(&path).unwrap();
        assert_eq!(head.len() % 64, tensor.to_bytes().unwrap().len() % 64);
    }
}

#[test]
fn what_cannot_be_written_or_found_is_told() {
    let pool = pool();
    let brain = Tensor::zeros(&pool, &[2], DType::BF16).unwrap();
    let refused = brain.write_npy(scratch("brain.npy")).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::DType {
                got: DType::BF16,
                ..
            }
        ),
        "{refused}"
    );
    let twice = [("x", &brain), ("x", &brain)];
    assert!(write_safetensors(scratch("twice.safetensors"), twice, &BTreeMap::new()).is_err());
    let reserved = [("__metadata__", &brain)];
    assert!(
        write_safetensors(scratch("reserved.safetensors"), reserved, &BTreeMap::new()).is_err()
    );
    for refused in [
        Tensor::read_npy(&pool, scratch("absent")).unwrap_err(),
        NpzFile::open(scratch("absent")).map(drop).unwrap_err(),
        SafeTensors::open(scratch("absent")).map(drop).unwrap_err(),
    ] {
        let Error::Io { kind, .. } = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(*kind, std::io::ErrorKind::NotFound);
        assert!(refused.to_string().contains("absent"));
    }
}
