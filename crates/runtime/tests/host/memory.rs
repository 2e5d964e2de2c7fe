//! Memory when it is short, shared, foreign or fragmented.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use streampool_device::{Device, Space};
use streampool_runtime::{Budget, Buffer, Capture, DType, Error, Op, Pool, Pressure, Stream};

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

#[test]
fn who_has_a_deadline_is_told_by_then_that_memory_is_out() {
    let device = device_of(2, 64 * MIB);
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let (buffers, _) = use_up(stream);
    // A little of each chunk stays in use: there is room enough, but not in one piece.
    let held: Vec<Buffer> = buffers.into_iter().step_by(3).collect();
    let tries = (0..3).map(|_| {
        let begun = Instant::now();
        let budget = Budget {
            deadline: Some(begun + Duration::from_millis(20)),
            ..Budget::UNLIMITED
        };
        let told = budget.spend(|| stream.allocate(30 * MIB)).unwrap_err();
        assert!(matches!(told, Error::OutOfMemory { .. }), "{told}");
        begun.elapsed()
    });
    assert!(tries.min() < Some(Duration::from_secs(1)));
    drop(held);
    assert!(stream.allocate(30 * MIB).is_ok());
}

fn measure(pool: &Pool) -> streampool_runtime::MemorySnapshot {
    pool.snapshot().unwrap().memory
}

#[test]
fn trimming_leaves_what_the_stream_still_uses() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let stream = pool.stream(1).unwrap();
    gate.hold(stream);
    drop(filled(stream, 1.0));
    assert_eq!(pool.trim(), Ok(0));
    assert!(in_use(&device) > 0);
    gate.open_all();
    stream.synchronize().unwrap();
    assert!(pool.trim().unwrap() > 0);
    assert_eq!(in_use(&device), 0);
}

#[test]
fn above_the_high_watermark_idle_memory_is_trimmed_and_callbacks_are_asked() {
    let device = device_of(2, 64 * MIB);
    let settings = settings().high_watermark(0.5).low_watermark(0.25);
    let pool = pool_with(&device, settings);
    let cache = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (inside, tell, weak) = (cache.clone(), told.clone(), pool.stream(3).unwrap().clone());
    pool.on_pressure(move |pressure: &Pressure| {
        tell.lock().unwrap().push(*pressure);
        inside.lock().unwrap().clear();
        // It may use the pool.
        let small = filled(&weak, 1.0);
        assert_eq!(value_of(&weak, &small), Ok(1.0));
    });
    // Idle memory of another stream goes first.
    drop(pool.stream(2).unwrap().allocate(8 * MIB).unwrap());
    let stream = pool.stream(1).unwrap();
    for _ in 0..30 {
        let buffer = stream.allocate(11 * MIB).unwrap();
        cache.lock().unwrap().push(buffer);
        assert!(measure(&pool).reserved <= 48 * MIB);
    }
    let told = told.lock().unwrap();
    assert!(!told.is_empty());
    for pressure in told.iter() {
        assert_eq!(pressure.limit, 64 * MIB);
        assert!(pressure.reserved > 16 * MIB, "{pressure:?}");
        assert!(pressure.needed >= 11 * MIB);
    }
}

#[test]
fn a_recorded_stream_keeps_memory_from_being_reused() {
    let device = device();
    let pool = pool(&device, 4);
    let gate = Gate::new(&device);
    let (home, foreign) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let buffer_of_home = buffer(home);
    let place = buffer_of_home.span();
    gate.hold(foreign);
    // What is on that stream now was encoded by means that the runtime does not see.
    buffer_of_home.record_stream(foreign).unwrap();
    drop(buffer_of_home);
    let other = buffer(home);
    assert_ne!(other.span(), place);
    assert!(measure(&pool).pending > 0);
    gate.open_all();
    foreign.synchronize().unwrap();
    assert_eq!(buffer(home).span(), place);
    let elsewhere = crate::common::pool(&device, 2);
    let outcome = other.record_stream(elsewhere.stream(1).unwrap());
    assert_eq!(outcome, Err(Error::ForeignBuffer));
}

/// Memory of the device that is given back when its adopter releases it, and how often that was.
fn adopt(device: &Arc<streampool_host::HostDevice>, pool: &Pool) -> (Buffer, Arc<AtomicUsize>) {
    let memory = device.allocate(N * 4, Space::Device).unwrap();
    let released = Arc::new(AtomicUsize::new(0));
    let (count, owner, span) = (released.clone(), device.clone(), memory.span());
    let release = move || {
        count.fetch_add(1, Ordering::SeqCst);
        // SAFETY: it came from this device, and the pool says that nothing uses it any more.
        unsafe { owner.free(memory) };
    };
    // SAFETY: the memory stays allocated until `release`, and nobody else knows of it.
    let buffer = unsafe { pool.adopt(span, release) }.unwrap();
    (buffer, released)
}

#[test]
fn adopted_memory_is_released_once_when_no_stream_uses_it() {
    let device = device();
    let pool = pool(&device, 8);
    let gate = Gate::new(&device);
    on_thread(|| {
        let (mut adopted, released) = adopt(&device, &pool);
        let stream = pool.current().unwrap();
        let user = pool.stream(5).unwrap();
        fill(stream, &mut adopted, 4.0).unwrap();
        stream.synchronize().unwrap();
        gate.hold(user);
        let mut seen = buffer(user);
        copy(user, &adopted, &mut seen).unwrap();
        drop(adopted);
        pool.trim().unwrap();
        assert_eq!(released.load(Ordering::SeqCst), 0, "it is still read");
        gate.open_all();
        assert_eq!(value_of(user, &seen), Ok(4.0));
        pool.trim().unwrap();
        assert_eq!(released.load(Ordering::SeqCst), 1);
        pool.trim().unwrap();
        assert_eq!(released.load(Ordering::SeqCst), 1);
    });
    assert_all_returned(&pool);
}

#[test]
fn adopted_memory_is_released_once_at_shutdown_and_after() {
    let device = device();
    let pool = pool(&device, 4);
    on_thread(|| {
        let (mut pending, pending_released) = adopt(&device, &pool);
        let (used_later, later_released) = adopt(&device, &pool);
        let stream = pool.stream(2).unwrap();
        fill(stream, &mut pending, 1.0).unwrap();
        drop(pending);
        drop(pool);
        assert_eq!(pending_released.load(Ordering::SeqCst), 1);
        assert_eq!(later_released.load(Ordering::SeqCst), 0);
        drop(used_later);
        assert_eq!(later_released.load(Ordering::SeqCst), 1);
        assert_eq!(in_use(&device), 0);
    });
}

#[test]
fn adopted_memory_goes_back_though_nothing_else_is_short() {
    let device = device();
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let released: usize = (0..100)
        .map(|_| {
            let (mut adopted, released) = adopt(&device, &pool);
            fill(stream, &mut adopted, 1.0).unwrap();
            assert_eq!(value_of(stream, &adopted), Ok(1.0));
            drop(adopted);
            released.load(Ordering::SeqCst)
        })
        .sum();
    assert_eq!(released, 100);
}

#[test]
fn programs_that_are_gone_leave_their_staging_memory_to_the_next() {
    let device = device_of(2, 64 * MIB);
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    for round in 0..200 {
        let mut capture = Capture::new(stream);
        let shared = capture.shared(MIB).unwrap();
        let dst = shared.view(DType::F32, &[N]).unwrap();
        let value = (round as f32).into();
        capture.encode(Op::Fill { dst, value }).unwrap();
        let mut program = capture.finish().unwrap();
        stream.replay(&program, &[], &mut []).unwrap();
        stream.flush().unwrap();
        if round % 2 == 0 {
            let bytes = program.shared().next().unwrap().unwrap();
            assert_eq!(bytes[..4], (round as f32).to_ne_bytes());
        }
    }
    assert!(pool.snapshot().unwrap().memory.reserved <= 64 * MIB);
}

#[test]
fn a_snapshot_is_consistent() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let all_here = Barrier::new(6);
        on_threads(6, |number| {
            let stream = pool.current().unwrap();
            all_here.wait();
            let mut kept = Vec::new();
            for round in 0..rounds(300) {
                kept.push(stream.allocate((number + round) * 37 % 9000).unwrap());
                if round % 3 == 0 {
                    kept.swap_remove(round % kept.len());
                }
                if round % 50 == 0 {
                    pool.snapshot().unwrap();
                }
            }
            let own = pool.snapshot().unwrap().made;
            let own = own.iter().find(|made| made.index == stream.index());
            let asked: usize = kept.iter().map(Buffer::bytes).sum();
            let memory = own.unwrap().memory;
            assert!(memory.in_use >= asked && memory.in_use <= memory.reserved);
            assert_eq!(memory.allocations, rounds(300) as u64);
        });
        let snapshot = pool.snapshot().unwrap();
        let mut reserved = 0;
        for made in &snapshot.made {
            let memory = made.memory;
            let known = memory.in_use + memory.pending + memory.idle + memory.free;
            assert_eq!(known, memory.reserved, "every byte is somewhere: {made:?}");
            assert!(memory.largest_free <= memory.free && memory.hits <= memory.allocations);
            reserved += memory.reserved;
        }
        assert_eq!(snapshot.memory.reserved, reserved);
        assert_eq!(in_use(&device), reserved);
        assert!(snapshot.memory.peak_reserved >= reserved);
    });
}

#[test]
fn a_failing_allocation_of_the_device_is_tried_again() {
    let device = device();
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    for failures in 1..=7 {
        device.injector().fail_allocations(failures);
        let buffer = filled(stream, failures as f32);
        assert_eq!(value_of(stream, &buffer), Ok(failures as f32));
        drop(buffer);
        pool.synchronize().unwrap();
        pool.trim().unwrap();
        assert_eq!(in_use(&device), 0);
    }
    device.injector().fail_allocations(usize::MAX);
    let error = stream.allocate(100).unwrap_err();
    assert!(
        matches!(
            error,
            Error::OutOfMemory {
                requested: 100,
                in_use: 0,
                ..
            }
        ),
        "{error}"
    );
    device.injector().clear();
    let buffer = filled(stream, 1.0);
    assert_eq!(value_of(stream, &buffer), Ok(1.0));
}

#[test]
fn a_callback_that_runs_short_itself_gets_the_error() {
    within(FOREVER, || {
        let pool = pool_with(&device(), settings().streams(4).memory_limit(Some(4 << 20)));
        let stream = pool.stream(1).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let inner = stream.clone();
        pool.on_pressure(move |_| {
            let outcome = inner.allocate(8 << 20).map(drop);
            send.send(matches!(outcome, Err(Error::OutOfMemory { .. })))
                .unwrap();
        });
        assert!(matches!(
            stream.allocate(16 << 20),
            Err(Error::OutOfMemory { .. })
        ));
        assert_eq!(receive.recv_timeout(FOREVER), Ok(true));
        assert!(
            receive.try_recv().is_err(),
            "asked once, not again from inside"
        );
    });
}

#[test]
fn memory_that_comes_back_goes_to_who_ran_short_first() {
    within(FOREVER, || {
        for _ in 0..rounds(30) {
            let device = device_of(4, 16 * MIB);
            let pool = pool(&device, 8);
            let (owner, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
            let gate = Gate::new(&device);
            let mut copied = buffer(user);
            let large: Vec<Buffer> = (0..3).map(|_| filled_of(owner, 4 * MIB)).collect();
            owner.synchronize().unwrap();
            gate.hold(user);
            for one in &large {
                copy(user, one, &mut copied).unwrap();
            }
            // They come back when the other stream has used them.
            drop(large);
            let (short, begun) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
            let count = short.clone();
            pool.on_pressure(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            });
            thread::scope(|scope| {
                let (pool, begun) = (&pool, &begun);
                let first = scope.spawn(|| pool.stream(3).unwrap().allocate(8 * MIB));
                until("the first is short of memory", || {
                    short.load(Ordering::SeqCst) > 0
                });
                let second = scope.spawn(|| {
                    begun.store(1, Ordering::SeqCst);
                    pool.stream(4).unwrap().allocate(10 * MIB)
                });
                until("the second comes", || begun.load(Ordering::SeqCst) > 0);
                (0..100).for_each(|_| thread::yield_now());
                gate.open_all();
                // Whoever waits for the stream may do its work.
                let first = first.join().unwrap();
                assert!(first.is_ok(), "{first:?}");
                let second = second.join().unwrap();
                assert!(matches!(second, Err(Error::OutOfMemory { .. })));
            });
        }
    });
}

/// A buffer of so many bytes, which begins with zeros.
fn filled_of(stream: &Stream, bytes: usize) -> Buffer {
    let mut buffer = stream.allocate(bytes).unwrap();
    fill(stream, &mut buffer, 0.0).unwrap();
    buffer
}

fn chunk_of(buffer: &Buffer) -> u64 {
    buffer.span().handle
}

#[test]
fn what_lasts_lies_apart_and_its_chunk_goes_back_when_nothing_uses_it() {
    let device = device_of(2, 16 * MIB);
    let pool = pool(&device, 4);
    let (stream, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let one = filled(stream, 1.0);
    let without = device.memory_use();
    let mut first = stream.allocate_lasting(4 * N).unwrap();
    let second = other.allocate_lasting(1).unwrap();
    let two = filled(stream, 2.0);
    assert_eq!(chunk_of(&first), chunk_of(&second));
    assert_eq!(chunk_of(&one), chunk_of(&two));
    assert_ne!(chunk_of(&one), chunk_of(&first));
    // A stream may still write it when it is dropped.
    fill(stream, &mut first, 3.0).unwrap();
    assert_eq!(value_of(other, &first), Ok(3.0));
    drop((first, second));
    pool.synchronize().unwrap();
    pool.trim().unwrap();
    assert_eq!(device.memory_use(), without);
    assert_eq!(value_of(stream, &one), Ok(1.0));
}

#[test]
fn what_lasts_shares_a_chunk_rather_than_fail() {
    let device = device_of(2, 2 * MIB);
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let one = filled(stream, 1.0);
    let lasting = stream.allocate_lasting(4 * N).unwrap();
    assert_eq!(chunk_of(&one), chunk_of(&lasting));
    let refused = stream.allocate_lasting(2 * MIB).map(drop);
    assert!(
        matches!(refused, Err(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
}
