//! What the device takes for itself is known, and counts within its capacity.
#![cfg(not(loom))]

mod common;

use common::raw::*;
use common::*;
use streampool_device::{Device, Error, Op, Queue, Sort, Space, Span};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Sorts so many numbers, by way of scratch memory of four times their size.
fn sort(queue: &mut dyn Queue, [src, dst]: [Span; 2]) -> Result<u64, Error> {
    let sort = Sort {
        src: floats(src),
        values: floats(dst),
        indices: None,
        axis: 0,
        descending: false,
    };
    encode(queue, &Op::Sort(sort))
}

#[test]
fn scratch_memory_counts_and_is_little_more_than_needed() {
    let Some(device) = device() else {
        return;
    };
    let mut queue = queue(&*device, 0).unwrap();
    let spans = [0, 1].map(|_| leaked(&*device, 40_000));
    let before = device.overhead().memory;
    sort(&mut *queue, spans).unwrap();
    let taken = device.overhead().memory - before;
    // Four stores of 40,000 bytes; a power of two would be 256 KiB.
    assert!((160_000..200 * KIB).contains(&taken), "{taken} bytes");
    let tick = sort(&mut *queue, spans).unwrap();
    assert_eq!(device.overhead().memory - before, taken, "taken twice");
    queue.progress().wait(tick, patience()).unwrap();
    drop(queue);
    let begun = std::time::Instant::now();
    while device.overhead().memory > before {
        assert!(begun.elapsed().as_secs() < 60, "it is never given back");
        std::thread::yield_now();
    }
}

#[test]
fn graphs_count_as_long_as_they_are_there() {
    let Some(device) = device() else {
        return;
    };
    let mut queue = queue(&*device, 0).unwrap();
    let spans = [0, 1].map(|_| leaked(&*device, 4 * KIB));
    let before = device.overhead().memory;
    queue.begin_capture().unwrap();
    for _ in 0..10 {
        encode(&mut *queue, &plus_one(spans[0], spans[1])).unwrap();
    }
    // SAFETY: there are no constants.
    let program = unsafe { queue.end_capture(&[], &[]) }.unwrap();
    assert_eq!(device.overhead().memory, before, "there is no graph yet");
    // SAFETY: nobody else uses the memory.
    let tick = unsafe { queue.replay(&program, &[]) }.unwrap();
    let taken = device.overhead().memory - before;
    assert!((100 * KIB..MIB).contains(&taken), "{taken} bytes");
    queue.progress().wait(tick, patience()).unwrap();
    drop(program);
    assert_eq!(device.overhead().memory, before);
}

#[test]
fn pinned_memory_is_told_apart() {
    let Some(device) = device() else {
        return;
    };
    let mut queue = queue(&*device, 0).unwrap();
    let span = leaked(&*device, MIB);
    let before = device.overhead();
    let values = vec![1.0; MIB / 4];
    let tick = upload(&mut *queue, span, &values).unwrap();
    queue.progress().wait(tick, patience()).unwrap();
    let after = device.overhead();
    assert_eq!(after.staging - before.staging, MIB);
    assert_eq!(after.memory, before.memory, "that is the host's");
}

#[test]
fn what_the_device_takes_for_itself_counts_within_its_capacity() {
    let Some(device) = device_with(options().capacity(MIB)) else {
        return;
    };
    let mut queue = queue(&*device, 0).unwrap();
    let spans = [0, 1].map(|_| leaked(&*device, 40_000));
    let memory = device.allocate(900_000, Space::Device).unwrap();
    let refused = sort(&mut *queue, spans).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    // SAFETY: no command names it.
    unsafe { device.free(memory) };
    let tick = sort(&mut *queue, spans).unwrap();
    queue.progress().wait(tick, patience()).unwrap();
    let refused = device.allocate(900_000, Space::Device);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
}

#[test]
fn what_the_driver_refuses_to_free_is_freed_with_the_next() {
    const TEST: &str = "what_the_driver_refuses_to_free_is_freed_with_the_next";
    if !is_child(TEST) {
        return match is_imitated() {
            true => run_as_child(TEST, |command| {
                command.env("CUDA_SIM_REFUSED_FREES", "1");
            }),
            false => skip("only the imitation of the driver refuses to free memory"),
        };
    }
    let device = device().expect("there is a device");
    let before = device.overhead().staging;
    let staging = || device.allocate(16 * MIB, Space::Staging).unwrap();
    let taken = || device.overhead().staging - before;
    // SAFETY: no command names it.
    unsafe { device.free(staging()) };
    assert_eq!(taken(), 16 * MIB, "what the driver keeps counts");
    let next = staging();
    assert_eq!(taken(), 16 * MIB, "it was not tried again");
    // SAFETY: as above.
    unsafe { device.free(next) };
    assert_eq!(taken(), 0);
}
