//! Kernels: compiled once however many threads ask, and kept on disk.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use common::raw::*;
use common::{device_with, skip};
use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::{Binary, CacheReport, Device};
use streampool_runtime::{DType, Expr, Op, Pool, Stream};

const N: usize = 256;
const THREADS: usize = 32;

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("streampool-kernels-{}-{number}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    /// Its files, always in the same order.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is no folder where the test was skipped.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A device that has compiled nothing yet and finds only what is in `folder`.
fn open(folder: Option<&Path>) -> Option<Arc<CudaDevice>> {
    let options = CudaOptions {
        cache_dir: folder.map(Path::to_owned),
        ..CudaOptions::default()
    };
    let device = device_with(options)?;
    let features = &device.properties().features;
    let version = |feature: &String| {
        let version = feature.strip_prefix("NVRTC ")?;
        version.parse::<f64>().ok()
    };
    if features.iter().any(|feature| version(feature).is_some()) {
        return Some(device);
    }
    skip(&features.join("; "));
    None
}

fn report(device: &CudaDevice) -> CacheReport {
    let caches = device.caches();
    let kernels = caches.into_iter().find(|cache| cache.name == "kernels");
    kernels.expect("the device has kernels")
}

/// How many kernels it compiled, and how many it loaded from disk.
fn made(device: &CudaDevice) -> (u64, u64) {
    let report = report(device);
    assert_eq!(report.problem, None);
    assert_eq!(report.entries as u64, report.compiled + report.loaded);
    (report.compiled, report.loaded)
}

/// Adds `amount` to `x` so many times, on whatever stream this thread has: each number of steps has a kernel of its
/// own.
fn compute(stream: &Stream, steps: usize, amount: f32) {
    let expr = || {
        let mut expr = Expr::builder();
        let mut sum = expr.input(DType::F32)?;
        let amount = expr.constant(amount, DType::F32)?;
        for _ in 0..steps {
            sum = expr.binary(Binary::Add, sum, amount)?;
        }
        expr.finish(&[sum])
    };
    let values: Vec<f32> = (0..N).map(|place| place as f32).collect();
    let mut x = stream.allocate(N * 4).unwrap();
    let mut y = stream.allocate(N * 4).unwrap();
    stream.upload(&mut x, &values).unwrap();
    let op = Op::Map {
        expr: Arc::new(expr().unwrap()),
        inputs: vec![x.read(DType::F32, &[N]).unwrap()],
        outputs: vec![y.write(DType::F32, &[N]).unwrap()],
    };
    stream.encode(op).unwrap();
    let added = steps as f32 * amount;
    let expected: Vec<f32> = values.iter().map(|x| x + added).collect();
    assert_eq!(stream.download::<f32>(&y).unwrap(), expected);
}

/// Computes in each number of steps on a device that is opened for it; gives what that device had to make.
fn compute_anew(folder: &Folder, steps: &[usize]) -> Option<(u64, u64)> {
    let device = open(Some(&folder.0))?;
    let pool = Pool::new(device.clone()).unwrap();
    for &steps in steps {
        compute(pool.current().unwrap(), steps, 1.0);
    }
    Some(made(&device))
}

#[test]
fn a_kernel_is_compiled_once_however_many_threads_ask() {
    let Some(device) = open(None) else { return };
    let pool = Pool::new(device.clone()).unwrap();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stream = pool.current().unwrap();
                start.wait();
                compute(stream, 2, 1.0);
            });
        }
    });
    assert_eq!(made(&device), (1, 0));
    compute(pool.current().unwrap(), 2, 1.0);
    compute(pool.current().unwrap(), 4, 1.0);
    assert_eq!(made(&device), (2, 0));
    assert!(report(&device).hits >= 1);
}

#[test]
fn a_kernel_serves_all_constants() {
    let Some(device) = open(None) else { return };
    let pool = Pool::new(device.clone()).unwrap();
    for amount in [1.0, 0.5, -3.0, 1024.0] {
        compute(pool.current().unwrap(), 2, amount);
    }
    assert_eq!(made(&device), (1, 0));
}

#[test]
fn what_one_device_compiled_another_loads() {
    let folder = Folder::new();
    let Some(first) = compute_anew(&folder, &[2, 4]) else {
        return;
    };
    assert_eq!(first, (2, 0));
    assert_eq!(folder.files().len(), 2);
    assert_eq!(compute_anew(&folder, &[4, 2, 4]), Some((0, 2)));
    assert_eq!(compute_anew(&folder, &[2, 8]), Some((1, 1)));
}

#[test]
fn a_damaged_file_is_ignored_and_replaced() {
    let folder = Folder::new();
    if compute_anew(&folder, &[2]).is_none() {
        return;
    }
    let file = folder.files().remove(0);
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0xff;
    for damaged in [
        &flipped[..],
        &whole[..whole.len() - 1],
        b"",
        b"not a kernel",
    ] {
        fs::write(&file, damaged).unwrap();
        assert_eq!(compute_anew(&folder, &[2]), Some((1, 0)));
        assert_eq!(compute_anew(&folder, &[2]), Some((0, 1)));
    }
    assert_eq!(folder.files(), [file]);
}

#[test]
fn the_file_of_another_kernel_is_ignored_and_replaced() {
    let folder = Folder::new();
    if compute_anew(&folder, &[2, 4]).is_none() {
        return;
    }
    let files = folder.files();
    fs::copy(&files[0], &files[1]).unwrap();
    assert_eq!(compute_anew(&folder, &[2, 4]), Some((1, 1)));
    assert_eq!(compute_anew(&folder, &[2, 4]), Some((0, 2)));
}

#[test]
fn a_folder_that_cannot_be_used_is_reported_and_costs_only_the_compile() {
    let folder = Folder::new();
    fs::write(&folder.0, "in the way").unwrap();
    if let Some(device) = open(Some(&folder.0)) {
        let pool = Pool::new(device.clone()).unwrap();
        compute(pool.current().unwrap(), 2, 1.0);
        let report = report(&device);
        assert_eq!((report.compiled, report.loaded), (1, 0));
        let problem = report.problem.expect("the folder is a file");
        assert!(problem.contains(folder.0.to_str().unwrap()), "{problem}");
    }
    fs::remove_file(&folder.0).unwrap();
}

#[test]
fn a_kernel_that_is_missing_is_told_before_anything_changes() {
    let Some(device) = open(None) else {
        return;
    };
    let mut queue = queue(&*device, 0).unwrap();
    let [src, dst] = [0, 1].map(|_| leaked(&*device, 4 * N));
    let op = plus_one(src, dst);
    upload(&mut *queue, src, &[1.0; N]).unwrap();
    let made = || report(&device).compiled + report(&device).loaded;
    // SAFETY: the memory is never freed, and only this queue uses it; what was prepared was made of this op.
    let mut encode = |prepared| unsafe { queue.encode_ready(&op, prepared) };
    assert_eq!(encode(None), Ok(None));
    assert_eq!(made(), 0);
    let prepared = device.prepare(&op).unwrap();
    assert_eq!(made(), 1);
    assert_eq!(
        encode(prepared),
        Ok(Some(2)),
        "the upload is the first command"
    );
    assert_eq!(encode(None), Ok(Some(3)));
    assert_eq!(made(), 1);
    assert_eq!(download(&mut *queue, dst).unwrap(), [2.0; N]);
}
