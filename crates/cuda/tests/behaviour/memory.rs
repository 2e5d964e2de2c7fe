//! Memory of a GPU when it is short, limited, or idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::Device;
use streampool_runtime::{Buffer, Error, MemorySnapshot, Pool, Stream};

use crate::common::{device, device_with, options};
use crate::work::*;
use crate::{PATIENCE, assert_all_freed, keep_busy, pool, pool_with};

const MIB: usize = 1 << 20;

/// A device that gives no more than this.
fn device_of(capacity: usize) -> Option<Arc<CudaDevice>> {
    device_with(CudaOptions {
        capacity: Some(capacity),
        ..options()
    })
}

/// As many buffers of 4 MiB as there is room for.
fn use_up(stream: &Stream) -> (Vec<Buffer>, Error) {
    let mut buffers = Vec::new();
    loop {
        match stream.allocate(4 * MIB) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => return (buffers, error),
        }
    }
}

fn measure(pool: &Pool) -> MemorySnapshot {
    pool.snapshot().unwrap().memory
}

#[test]
fn out_of_memory_carries_the_figures_and_leaves_the_pool_usable() {
    let Some(device) = device_of(16 * MIB) else {
        return;
    };
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    for _ in 0..3 {
        let (mut buffers, error) = use_up(stream);
        assert_eq!(buffers.len(), 4);
        let expected = Error::OutOfMemory {
            requested: 4 * MIB,
            reserved: 16 * MIB,
            in_use: 16 * MIB,
            pending: 0,
            limit: 16 * MIB,
        };
        assert_eq!(error, expected);
        buffers.pop();
        // What one stream freed serves another.
        let other = pool.stream(2).unwrap();
        let again = other.allocate(4 * MIB).unwrap();
        drop((buffers, again));
        let small = filled(other, 3.0);
        assert_eq!(value_of(other, &small), Ok(3.0));
    }
}

#[test]
fn a_gpu_that_is_really_full_says_so_and_goes_on() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let capacity = device.properties().memory_capacity;
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        // The context itself takes some of it: the driver refuses what the account would bear.
        let error = stream.allocate(capacity).map(drop).unwrap_err();
        let Error::OutOfMemory {
            requested, limit, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((requested, limit), (capacity, capacity));
        let small = filled(stream, 1.0);
        assert_eq!(value_of(stream, &small), Ok(1.0));
    });
}

#[test]
fn the_limit_of_the_settings_counts_if_it_is_the_lower_one() {
    let Some(device) = device_of(64 * MIB) else {
        return;
    };
    let pool = pool_with(&device, settings().memory_limit(Some(8 * MIB)));
    let (buffers, error) = use_up(pool.stream(1).unwrap());
    assert_eq!(buffers.len(), 2);
    assert!(
        matches!(error, Error::OutOfMemory { limit, .. } if limit == 8 * MIB),
        "{error}"
    );
    assert!(device.memory_use().in_use <= 8 * MIB);
}

#[test]
fn an_allocation_waits_for_pending_frees_before_it_fails() {
    let Some(device) = device_of(192 * MIB) else {
        return;
    };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let (home, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        keep_busy(user);
        let (mut buffers, _) = use_up(home);
        let mut foreign = buffers.pop().unwrap();
        fill(user, &mut foreign, 1.0).unwrap();
        drop(foreign);
        assert_eq!(home.allocate(4 * MIB).map(drop), Ok(()));
    });
}

#[test]
fn trimming_gives_everything_unused_back_to_the_gpu() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let kept = filled(stream, 1.0);
    let buffers: Vec<_> = (0..20)
        .map(|size| stream.allocate(size * 1_000_000).unwrap())
        .collect();
    let before = device.memory_use().in_use;
    drop(buffers);
    stream.synchronize().unwrap();
    let trimmed = pool.trim().unwrap();
    assert!(trimmed > 0);
    assert_eq!(device.memory_use().in_use, before - trimmed);
    assert_eq!(measure(&pool).reserved, before - trimmed);
    assert_eq!(value_of(stream, &kept), Ok(1.0));
    drop(kept);
    pool.trim().unwrap();
    assert_all_freed(&device);
    let again = filled(stream, 2.0);
    assert_eq!(value_of(stream, &again), Ok(2.0));
}

#[test]
fn callbacks_that_let_go_of_buffers_save_an_allocation() {
    let Some(device) = device_of(16 * MIB) else {
        return;
    };
    let pool = pool_with(&device, settings().high_watermark(1.0).low_watermark(1.0));
    let cache = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::new(AtomicUsize::new(0));
    let (inside, count) = (cache.clone(), calls.clone());
    pool.on_pressure(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        inside.lock().unwrap().clear();
    });
    for stream in [1, 2] {
        let stream = pool.stream(stream).unwrap();
        for value in 0..2 {
            let mut buffer = stream.allocate(4 * MIB).unwrap();
            // They are in use on the GPU when they are let go.
            fill(stream, &mut buffer, value as f32).unwrap();
            cache.lock().unwrap().push(buffer);
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let large = pool.stream(3).unwrap().allocate(12 * MIB).unwrap();
    assert!(calls.load(Ordering::SeqCst) >= 1);
    drop(large);
}

#[test]
fn many_threads_share_what_little_there_is() {
    let Some(device) = device_of(32 * MIB) else {
        return;
    };
    within(PATIENCE, || {
        let pool = pool(&device, 32);
        // Each at most one megabyte at a time: it always fits.
        on_threads(24, |number| {
            let stream = pool.current().unwrap();
            for round in 0..150 {
                let bytes = MIB / 2 + (number * round * 1000) % (MIB / 2);
                let mut buffer = stream.allocate(bytes).unwrap();
                fill(stream, &mut buffer, round as f32).unwrap();
                let mut values = [0f32; N];
                stream.download_into(&buffer, &mut values).unwrap();
                assert_eq!(values, [round as f32; N]);
            }
        });
        assert_all_returned(&pool);
        drop(pool);
        assert_all_freed(&device);
    });
}

#[test]
fn changing_sizes_do_not_make_memory_grow() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    on_thread(|| {
        let stream = pool.current().unwrap();
        let mut most = 0;
        for round in 0..2000 {
            let (count, bytes) = match round % 3 {
                0 => (60, 20_000 + round),
                1 => (6, 200_000 + round),
                _ => (1, 900_000 + round),
            };
            let mut buffers: Vec<_> = (0..count)
                .map(|_| stream.allocate(bytes).unwrap())
                .collect();
            fill(stream, &mut buffers[0], 1.0).unwrap();
            drop(buffers);
            if round == 30 {
                most = measure(&pool).reserved;
            }
        }
        let now = measure(&pool);
        assert!(now.reserved <= most, "it grew: {now:?}");
    });
}
