//! The runtime over a Metal device: events, faults, memory and the end of things, as users meet them.
#![cfg(any(target_vendor = "apple", metal_sim))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

mod against_host;
mod archive;
mod events;
#[cfg(metal_sim)]
mod faults;
mod instruments;
mod lifecycle;
mod memory;
mod mixed;
mod transfers;

use std::sync::Arc;
use std::time::Duration;

use streampool_device::Device;
use streampool_metal::MetalDevice;
use streampool_runtime::{DType, Op, Pool, SettingsBuilder, Stream};

/// Longer than any of these tests takes, unless it hangs.
const PATIENCE: Duration = work::FOREVER;

/// A pool of so many streams.
fn pool(device: &Arc<MetalDevice>, streams: usize) -> Pool {
    pool_with(device, work::settings().streams(streams))
}

/// A pool with these settings.
fn pool_with(device: &Arc<MetalDevice>, settings: SettingsBuilder) -> Pool {
    Pool::with_settings(device.clone(), settings.build().unwrap()).unwrap()
}

/// Keeps `stream` busy for some milliseconds, so that whatever is encoded on it next is late.
fn keep_busy(stream: &Stream) {
    const FLOATS: usize = 1 << 20;
    let src = stream.allocate(FLOATS * 4).unwrap();
    let mut dst = stream.allocate(FLOATS * 4).unwrap();
    for _ in 0..20 {
        let src = src.read(DType::F32, &[FLOATS]).unwrap();
        let dst = dst.write(DType::F32, &[FLOATS]).unwrap();
        stream.encode(Op::Copy { src, dst }).unwrap();
    }
}

/// Asserts that the device has all its memory back.
fn assert_all_freed(device: &MetalDevice) {
    let left = device.memory_use();
    assert_eq!((left.in_use, left.allocations), (0, 0), "memory is left");
}
