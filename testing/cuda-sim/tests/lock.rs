//! The driver's lock: launches pass each other, and who wants it alone waits for all of them.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use streampool_cuda_sim::api::*;
use streampool_cuda_sim::lock::Lock;

#[test]
fn who_comes_to_share_passes_who_waits_to_be_alone() {
    let lock = Lock::new();
    let (waits, alone) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let first = lock.share();
        scope.spawn(|| {
            waits.store(true, Ordering::Release);
            let held = lock.alone();
            alone.store(true, Ordering::Release);
            drop(held);
        });
        while !waits.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        // There is always one inside, and each of these came after who waits.
        let mut inside = first;
        for _ in 0..100 {
            inside = lock.share();
            assert!(!alone.load(Ordering::Acquire) && lock.try_alone().is_none());
        }
        drop(inside);
    });
    assert!(alone.load(Ordering::Acquire));
}

#[test]
fn alone_is_alone() {
    let lock = Lock::new();
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let held = lock.alone();
                    most.fetch_max(inside.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                    inside.fetch_sub(1, Ordering::AcqRel);
                    drop(held);
                    drop(lock.share());
                }
            });
        }
    });
    assert_eq!(most.load(Ordering::Acquire), 1);
    assert!(lock.try_alone().is_some());
}

/// Runs in a process of its own, where launches are slow.
#[test]
fn threads_that_launch_keep_an_allocation_waiting() {
    const NAME: &str = "threads_that_launch_keep_an_allocation_waiting";
    const SLOW: &str = "CUDA_SIM_LAUNCH_US";
    if std::env::var_os(SLOW).is_none() {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = std::process::Command::new(program);
        let outcome = child.args([NAME, "--exact"]).env(SLOW, "500").status();
        assert!(outcome.expect("this program runs").success());
        return;
    }
    let driver = alone();
    let (module, nothing) = nothing();
    let (stop, allocated) = (AtomicBool::new(false), AtomicBool::new(false));
    let streams: Vec<usize> = (0..8).map(|_| stream()).collect();
    std::thread::scope(|scope| {
        for &stream in &streams {
            let stop = &stop;
            scope.spawn(move || {
                ok(cuCtxSetCurrent(driver.context));
                while !stop.load(Ordering::Acquire) {
                    ok(launch(nothing, [1; 3], [32, 1, 1], stream));
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        let allocates = scope.spawn(|| {
            ok(cuCtxSetCurrent(driver.context));
            let begun = Instant::now();
            let memory = device_memory();
            allocated.store(true, Ordering::Release);
            (memory, begun.elapsed())
        });
        std::thread::sleep(Duration::from_millis(300));
        let starved = !allocated.load(Ordering::Acquire);
        stop.store(true, Ordering::Release);
        let (memory, waited) = allocates.join().expect("it does not panic");
        ok(cuMemFree_v2(memory));
        assert!(starved, "it got through after {waited:?}");
    });
    for stream in streams {
        ok(cuStreamSynchronize(stream));
        ok(cuStreamDestroy_v2(stream));
    }
    ok(cuModuleUnload(module));
}
