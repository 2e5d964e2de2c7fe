//! Memory when it is short, limited, or idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use streampool_device::Device;
use streampool_runtime::{Buffer, Error, MemorySnapshot, Pool, Stream};

use super::*;

const MIB: usize = 1 << 20;

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
    // Room for four, and for what the device takes for itself.
    with_device_of(17 * MIB, |device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for _ in 0..3 {
            let (mut buffers, error) = use_up(stream);
            assert_eq!(buffers.len(), 4);
            let expected = Error::OutOfMemory {
                requested: 4 * MIB,
                reserved: 16 * MIB,
                overhead: device.overhead().memory,
                in_use: 16 * MIB,
                pending: 0,
                limit: 17 * MIB,
                is_setting: false,
            };
            assert_eq!(error, expected);
            // What limits is what it says to raise.
            assert!(
                error.to_string().contains("the device's own limit"),
                "{error}"
            );
            buffers.pop();
            // What one stream freed serves another.
            let other = pool.stream(2).unwrap();
            let again = other.allocate(4 * MIB).unwrap();
            drop((buffers, again));
            let small = filled(other, 3.0);
            assert_eq!(value_of(other, &small), Ok(3.0));
        }
    });
}

#[test]
fn the_limit_of_the_settings_counts_if_it_is_the_lower_one() {
    with_device_of(64 * MIB, |device| {
        let pool = pool_with(&device, settings().memory_limit(Some(8 * MIB)));
        let (buffers, error) = use_up(pool.stream(1).unwrap());
        assert_eq!(buffers.len(), 2);
        assert!(
            matches!(error, Error::OutOfMemory { limit, .. } if limit == 8 * MIB),
            "{error}"
        );
        assert!(device.memory_use().in_use <= 8 * MIB);
    });
}

#[test]
fn an_allocation_waits_for_pending_frees_before_it_fails() {
    with_device_of(192 * MIB, |device| {
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
fn trimming_gives_everything_unused_back_to_the_device() {
    with_device(|device| {
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
    });
}

#[test]
fn callbacks_that_let_go_of_buffers_save_an_allocation() {
    with_device_of(16 * MIB, |device| {
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
                // They are in use when they are let go.
                fill(stream, &mut buffer, value as f32).unwrap();
                cache.lock().unwrap().push(buffer);
            }
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        let large = pool.stream(3).unwrap().allocate(12 * MIB).unwrap();
        assert!(calls.load(Ordering::SeqCst) >= 1);
        drop(large);
    });
}

#[test]
fn many_threads_share_what_little_there_is() {
    with_device_of(32 * MIB, |device| {
        let pool = pool(&device, 32);
        // A megabyte for each always fits.
        share_what_there_is(&pool, 24);
        drop(pool);
        assert_all_freed(&device);
    });
}

#[test]
fn changing_sizes_do_not_make_memory_grow() {
    with_device(|device| {
        let pool = pool(&device, 4);
        on_thread(|| {
            let stream = pool.current().unwrap();
            let mut most = 0;
            for round in 0..rounds(2000) {
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
    });
}
