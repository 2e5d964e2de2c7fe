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
    let replay = |queue: &mut dyn Queue| {
        // SAFETY: nobody else uses the memory.
        let tick = unsafe { queue.replay(&program, &[]) }.unwrap();
        let taken = device.overhead().memory - before;
        queue.progress().wait(tick, patience()).unwrap();
        taken
    };
    assert_eq!(replay(&mut *queue), 0, "the first replay needs no graph");
    let graph = 100 * KIB..MIB;
    let taken = replay(&mut *queue);
    assert!(graph.contains(&taken), "{taken} bytes");
    drop(queue);
    assert_eq!(device.overhead().memory, before, "it goes with its queue");
    let mut queue = self::queue(&*device, 0).unwrap();
    let taken = replay(&mut *queue);
    assert!(graph.contains(&taken), "{taken} bytes");
    drop(program);
    assert_eq!(device.overhead().memory, before, "and with its program");
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
    if !is_refused("what_the_driver_refuses_to_free_is_freed_with_the_next", 1) {
        return;
    }
    let device = device().unwrap();
    let before = device.overhead().staging;
    // More than is kept for its next use.
    let bytes = 65 * MIB;
    let staging = || device.allocate(bytes, Space::Staging).unwrap();
    let taken = || device.overhead().staging - before;
    // SAFETY: no command names it.
    unsafe { device.free(staging()) };
    assert_eq!(taken(), bytes, "what the driver keeps counts");
    let next = staging();
    assert_eq!(taken(), bytes, "it was not tried again");
    // SAFETY: as above.
    unsafe { device.free(next) };
    assert_eq!(taken(), 0);
}

/// Runs the rest of a test in a process of its own, where the first calls that free or destroy are refused. Whether this is
/// that process.
fn is_refused(test: &str, first: u32) -> bool {
    if is_child(test) {
        return true;
    }
    match is_imitated() {
        true => run_as_child(test, |command| {
            command.env("CUDA_SIM_REFUSED_FREES", first.to_string());
        }),
        false => skip("only the imitation of the driver refuses to free"),
    }
    false
}

/// How much of each kind the imitation has: streams, events, graphs, executable graphs, modules, allocations, contexts.
fn live() -> [usize; 7] {
    // SAFETY: it is loaded already, as the driver.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    let mut live = [0; 7];
    type Tell = extern "C" fn(*mut [usize; 7]) -> i32;
    // SAFETY: it is such a function, which writes so many numbers.
    let told = unsafe { driver.get::<Tell>(b"cudaSimLive") }.unwrap()(&mut live);
    assert_eq!(told, 0);
    live
}

#[test]
fn device_memory_that_the_driver_keeps_counts_until_it_is_freed() {
    if !is_refused(
        "device_memory_that_the_driver_keeps_counts_until_it_is_freed",
        1,
    ) {
        return;
    }
    let device = device().unwrap();
    let before = device.overhead().memory;
    let taken = || device.overhead().memory - before;
    let memory = || device.allocate(16 * MIB, Space::Device).unwrap();
    // SAFETY: no command names it.
    unsafe { device.free(memory()) };
    assert_eq!(taken(), 16 * MIB, "what the driver keeps counts");
    let next = memory();
    assert_eq!(taken(), 0, "it was not tried again");
    // SAFETY: as above.
    unsafe { device.free(next) };
    assert_eq!(taken(), 0);
}

#[test]
fn a_graph_that_the_driver_keeps_is_destroyed_with_the_next() {
    // The graph of the first program, and twice what was made of it.
    if !is_refused(
        "a_graph_that_the_driver_keeps_is_destroyed_with_the_next",
        3,
    ) {
        return;
    }
    let device = device().unwrap();
    let mut queue = queue(&*device, 0).unwrap();
    let spans = [0, 1].map(|_| leaked(&*device, 4 * KIB));
    let mut graphs = || {
        queue.begin_capture().unwrap();
        encode(&mut *queue, &plus_one(spans[0], spans[1])).unwrap();
        // SAFETY: there are no constants.
        let program = unsafe { queue.end_capture(&[], &[]) }.unwrap();
        // The second replay makes one that can be launched.
        for _ in 0..2 {
            // SAFETY: nobody else uses the memory.
            let tick = unsafe { queue.replay(&program, &[]) }.unwrap();
            queue.progress().wait(tick, patience()).unwrap();
        }
        drop(program);
        let [_, _, graphs, execs, ..] = live();
        [graphs, execs]
    };
    // One that can be launched is left for the next to destroy, which is refused.
    assert_eq!(graphs(), [1, 1]);
    assert_eq!(graphs(), [1, 2]);
    assert_eq!(graphs(), [0, 1], "it was not tried again");
}

#[test]
fn a_closed_device_leaves_nothing_that_the_driver_kept_at_first() {
    // A module, pinned memory, all streams, and some events.
    if !is_refused(
        "a_closed_device_leaves_nothing_that_the_driver_kept_at_first",
        40,
    ) {
        return;
    }
    // Another one is kept open, or the context would end with all that is in it.
    let _kept = device().unwrap();
    let before = live();
    let device = device().unwrap();
    let mut queue = queue(&*device, 0).unwrap();
    let tick = encode(&mut *queue, &Op::Nop).unwrap();
    queue.progress().wait(tick, patience()).unwrap();
    assert!(live()[4] > before[4], "no module was loaded");
    drop(queue);
    drop(device);
    // Another thread may be the last to let go of it.
    let begun = std::time::Instant::now();
    while live() != before {
        assert!(begun.elapsed().as_secs() < 20, "{:?}, {before:?}", live());
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_that_the_driver_keeps_is_destroyed_with_the_next() {
    if !is_refused(
        "a_stream_that_the_driver_keeps_is_destroyed_with_the_next",
        1,
    ) {
        return;
    }
    let kept = device().unwrap();
    let [before, ..] = live();
    let device = device().unwrap();
    let queues: Vec<_> = (0..132).map(|index| queue(&*device, index)).collect();
    drop(queues);
    // So many wait for their next use.
    assert_eq!(live()[0] - before, 128);
    drop(kept);
}
