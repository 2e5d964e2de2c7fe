//! Compiled kernels that are kept on disk between runs.

use std::path::PathBuf;

use streampool_device::{CacheReport, Device};
use streampool_metal::MetalOptions;

use crate::common::{Stage, device_with};
use crate::work::*;
use crate::{PATIENCE, pool};

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("streampool-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// What the cache of a device with its kernels in `folder` says after a little work.
fn work_with(folder: &PathBuf) -> Option<CacheReport> {
    let device = device_with(MetalOptions::default().cache_dir(folder))?;
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let one = filled(stream, 1.0);
        let mut two = buffer(stream);
        add(stream, &one, &mut two, 1.0).unwrap();
        assert_eq!(value_of(stream, &two), Ok(2.0));
    });
    device.caches().pop()
}

#[test]
fn the_second_device_finds_what_the_first_compiled() {
    let _stage = Stage::new();
    let folder = folder("archive");
    let Some(first) = work_with(&folder) else {
        return;
    };
    assert!(first.compiled > 0 && first.loaded == 0, "{first:?}");
    let second = work_with(&folder).unwrap();
    assert_eq!((second.compiled, second.loaded), (0, first.compiled));
    assert_eq!((first.problem, second.problem), (None, None));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_archive_that_is_damaged_is_begun_anew() {
    let _stage = Stage::new();
    let folder = folder("damaged");
    let Some(first) = work_with(&folder) else {
        return;
    };
    for file in std::fs::read_dir(&folder).unwrap() {
        std::fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    let second = work_with(&folder).unwrap();
    assert_eq!((second.compiled, second.loaded), (first.compiled, 0));
    let third = work_with(&folder).unwrap();
    assert_eq!((third.compiled, third.loaded), (0, first.compiled));
    std::fs::remove_dir_all(&folder).unwrap();
}
