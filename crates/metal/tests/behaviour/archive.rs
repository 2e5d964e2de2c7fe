//! Compiled kernels that are kept on disk between runs.

use std::path::PathBuf;
use std::sync::Arc;

use streampool_device::{CacheReport, Device};
use streampool_metal::{MetalDevice, MetalOptions};

use crate::common::{Stage, device_with};
use crate::gpu::*;

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("streampool-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// What the cache of a device with its kernels in `folder` says after a little work.
fn work_with(folder: &PathBuf) -> Option<CacheReport> {
    let device = device_with(MetalOptions::default().cache_dir(folder))?;
    Some(work_on(&device))
}

fn work_on(device: &Arc<MetalDevice>) -> CacheReport {
    within(FOREVER, || {
        let pool = pool(device, 4);
        let stream = pool.stream(1).unwrap();
        let one = filled(stream, 1.0);
        let mut two = buffer(stream);
        add(stream, &one, &mut two, 1.0).unwrap();
        assert_eq!(value_of(stream, &two), Ok(2.0));
    });
    device.caches().pop().unwrap()
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

#[test]
fn what_was_compiled_is_kept_though_the_device_never_ends() {
    let _stage = Stage::new();
    let folder = folder("endless");
    let Some(device) = device_with(MetalOptions::default().cache_dir(&folder)) else {
        return;
    };
    let first = work_on(&device);
    until("the archive is on disk", || {
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.path());
        names.any(|name| name.extension().is_some_and(|end| end == "metalarchive"))
    });
    let second = work_with(&folder).unwrap();
    assert!(first.compiled > 0 && second.loaded > 0, "{second:?}");
    drop(device);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(metal_sim)]
#[test]
fn nobody_who_compiles_waits_for_the_archive() {
    let stage = Stage::new();
    let folder = folder("busy");
    stage.0.busy_archives(true);
    let device = device_with(MetalOptions::default().cache_dir(&folder)).unwrap();
    let first = work_on(&device);
    assert!(first.compiled > 1, "{first:?}");
    stage.0.busy_archives(false);
    drop(device);
    let second = work_with(&folder).unwrap();
    assert_eq!((second.compiled, second.loaded), (0, first.compiled));
    std::fs::remove_dir_all(&folder).unwrap();
}
