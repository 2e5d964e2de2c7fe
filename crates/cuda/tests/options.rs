//! Options that make no sense, and GPUs that are not there: refused with what would be right, with or without
//! a GPU.

mod common;

use common::device_with;
use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::{Device, Error};

#[test]
fn absurd_options_are_refused_before_a_gpu_is_looked_for() {
    for options in [
        CudaOptions::default().capacity(0),
        CudaOptions::default().program_memory(0),
    ] {
        match CudaDevice::new(options) {
            Err(Error::Invalid { got, expected, .. }) => {
                assert_eq!((got.as_str(), expected.as_str()), ("0", "at least 1 byte"));
            }
            other => panic!("expected Invalid, got {other:?}"),
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_refused_with_how_many_there_are() {
    for ordinal in [1_000_000, usize::MAX] {
        let why = match CudaDevice::new(CudaOptions::default().ordinal(ordinal)) {
            Err(Error::Unavailable { why, .. }) => why,
            other => panic!("expected Unavailable, got {other:?}"),
        };
        match CudaDevice::count() {
            Ok(count) => {
                let expected = format!("no GPU {ordinal}: the driver shows {count}");
                assert!(why.contains(&expected), "{why}");
            }
            Err(no_driver) => assert!(no_driver.to_string().contains(&why), "{why}"),
        }
    }
}

#[test]
fn the_capacity_is_at_most_the_gpus_memory() {
    let capacity = |options| Some(device_with(options)?.properties().memory_capacity);
    let Some(whole) = capacity(CudaOptions::default()) else {
        return;
    };
    assert!(whole >= 1 << 30, "{whole}");
    let small = CudaOptions::default().capacity(64 << 20);
    assert_eq!(capacity(small), Some(64 << 20));
    let huge = CudaOptions::default().capacity(usize::MAX);
    assert_eq!(capacity(huge), Some(whole));
}
