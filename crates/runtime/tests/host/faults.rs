//! A fault reaches those whose work it hit, and nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::*;
use streampool_device::Error as DeviceError;
use streampool_host::OpMatcher;
use streampool_runtime::{Binary, Culprit, DType, Error, Expr, Op, OpKind, Stream};

/// The next op of this kind on `stream` fails.
fn fail_next(device: &streampool_host::HostDevice, stream: &Stream, op: OpKind) {
    let which = OpMatcher::any().on_queue(stream.index().into()).of_kind(op);
    device.injector().fail_op(which, 1, "broken on purpose");
}

fn is_fault<T: std::fmt::Debug>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Device(DeviceError::Fault(fault)))
        if fault.message() == "broken on purpose")
}

fn is_dependency<T: std::fmt::Debug>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Dependency(fault)) if fault.message() == "broken on purpose")
}

#[test]
fn a_fault_on_one_of_thirty_one_streams_reaches_its_callers_only() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 32);
        let all_here = Barrier::new(31);
        let hit = on_threads(31, |number| {
            let stream = pool.current().unwrap();
            let unlucky = stream.index() == 7;
            if unlucky {
                fail_next(&device, stream, OpKind::Map);
            }
            all_here.wait();
            for round in 0..rounds(50) {
                let value = (number * 100 + round) as f32;
                let one = filled(stream, value);
                let mut two = buffer(stream);
                if unlucky && round == 0 {
                    meet_the_fault(&pool, stream, &one, &mut two);
                    continue;
                }
                add(stream, &one, &mut two, 0.5).unwrap();
                assert_eq!(value_of(stream, &two).unwrap(), value + 0.5);
                assert_eq!(stream.fault(), None);
            }
            unlucky
        });
        assert_eq!(hit.into_iter().filter(|hit| *hit).count(), 1);
        let made = pool.snapshot().unwrap().made;
        for stream in made {
            assert_eq!(stream.fault, None, "it was recovered");
            assert_eq!(stream.past_faults, usize::from(stream.index == 7));
        }
        assert_all_returned(&pool);
    });
}

fn meet_the_fault(
    pool: &streampool_runtime::Pool,
    stream: &Stream,
    one: &streampool_runtime::Buffer,
    two: &mut streampool_runtime::Buffer,
) {
    let before = pool.event().unwrap();
    stream.record(&before).unwrap();
    add(stream, one, two, 0.5).unwrap();
    let after = pool.event().unwrap();
    stream.record(&after).unwrap();
    let (send, receive) = channel();
    stream
        .on_complete(move |outcome| send.send(outcome).unwrap())
        .unwrap();
    assert!(is_fault(&stream.synchronize()));
    let fault = stream.fault().unwrap();
    assert_eq!((fault.queue(), fault.op()), ("stream 7", OpKind::Map));
    assert_eq!(before.wait(), Ok(()));
    assert!(is_fault(&after.wait()) && is_fault(&after.query()));
    assert_eq!(receive.recv_timeout(FOREVER).unwrap(), Err(fault.clone()));
    let poisoned = Error::Device(DeviceError::Poisoned(fault));
    assert_eq!(add(stream, one, two, 0.5), Err(poisoned.clone()));
    assert_eq!(stream.encode(Op::Nop), Err(poisoned));
    stream.recover().unwrap();
    assert_eq!((stream.fault(), stream.synchronize()), (None, Ok(())));
    stream.recover().unwrap();
    // What was never written stays unusable, what was written before the fault is good.
    assert!(is_dependency(&value_of(stream, two)));
    assert!(value_of(stream, one).is_ok());
    fill(stream, two, 1.0).unwrap();
    assert_eq!(value_of(stream, two), Ok(1.0));
}

#[test]
fn who_used_a_result_before_the_bad_one_hears_nothing() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, second, third) = (stream(1), stream(2), stream(3));
        let good = filled(faulty, 1.0);
        gate.hold(faulty);
        fail_next(&device, faulty, OpKind::Map);
        let (mut a, mut bad) = (buffer(faulty), buffer(faulty));
        copy(faulty, &good, &mut a).unwrap();
        add(faulty, &good, &mut bad, 1.0).unwrap();
        let (mut b, mut c, mut d) = (buffer(second), buffer(third), buffer(second));
        add(second, &a, &mut b, 1.0).unwrap();
        add(third, &b, &mut c, 1.0).unwrap();
        add(second, &bad, &mut d, 1.0).unwrap();
        gate.open_all();
        assert!(is_fault(&faulty.synchronize()));
        assert_eq!(third.synchronize(), Ok(()));
        assert!(is_dependency(&second.synchronize()));
        assert_eq!(value_of(third, &c), Ok(3.0));
    });
}

#[test]
fn who_used_the_results_is_told_also_at_second_hand() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, second, third, unrelated) = (stream(1), stream(2), stream(3), stream(4));
        let good = filled(faulty, 1.0);
        let mut own = filled(unrelated, 5.0);
        gate.hold(faulty);
        fail_next(&device, faulty, OpKind::Map);
        let (mut a, mut b, mut c) = (buffer(faulty), buffer(second), buffer(third));
        add(faulty, &good, &mut a, 1.0).unwrap();
        add(second, &a, &mut b, 1.0).unwrap();
        add(third, &b, &mut c, 1.0).unwrap();
        // Reads what the faulty stream wrote before the fault.
        add(unrelated, &good, &mut own, 1.0).unwrap();
        gate.open_all();
        // Its events and handlers tell, too.
        let (send, receive) = std::sync::mpsc::channel();
        let event = pool.event().unwrap();
        third.record(&event).unwrap();
        third
            .on_complete(move |outcome| send.send(outcome.is_err()).unwrap())
            .unwrap();
        assert!(is_dependency(&event.wait()) && is_dependency(&event.query()));
        assert_eq!(receive.recv_timeout(FOREVER), Ok(true));
        // The last in the chain is told first, and the first as well.
        assert!(is_dependency(&third.synchronize()));
        assert!(is_dependency(&second.synchronize()));
        assert!(is_fault(&faulty.synchronize()));
        assert_eq!(value_of(unrelated, &own), Ok(2.0));
        assert_eq!(unrelated.synchronize(), Ok(()));
        // Each is told once, and goes on.
        for told in [second, third] {
            assert_eq!((told.synchronize(), told.fault()), (Ok(()), None));
            let buffer = filled(told, 8.0);
            assert_eq!(value_of(told, &buffer), Ok(8.0));
        }
        faulty.recover().unwrap();
        // Whoever reads the spoilt buffers later is told at once, on whatever stream.
        for reader in [stream(5), faulty, second, third] {
            let mut seen = buffer(reader);
            for spoilt in [&a, &b, &c] {
                assert!(is_dependency(&copy(reader, spoilt, &mut seen)));
                assert!(is_dependency(&value_of(reader, spoilt)));
            }
            assert_eq!(value_of(reader, &good), Ok(1.0));
            assert_eq!(reader.synchronize(), Ok(()));
        }
        // Written anew they are good.
        for spoilt in [&mut a, &mut b, &mut c] {
            fill(stream(6), spoilt, 9.0).unwrap();
            assert_eq!(value_of(stream(5), spoilt), Ok(9.0));
        }
    });
}

#[test]
fn a_later_use_is_still_told_when_an_earlier_wait_looked_too_soon() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let (faulty, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let first = filled(faulty, 1.0);
        let mut seen = buffer(user);
        copy(user, &first, &mut seen).unwrap();
        let event = pool.event().unwrap();
        user.record(&event).unwrap();
        event.wait().unwrap();
        gate.hold(faulty);
        fail_next(&device, faulty, OpKind::Fill);
        let second = filled(faulty, 2.0);
        copy(user, &second, &mut seen).unwrap();
        // The fault has not happened yet: nothing may be taken for good that is not there.
        let outcome = user.synchronize_timeout(Duration::from_millis(1));
        assert!(matches!(
            outcome,
            Err(Error::Device(DeviceError::Timeout(_)))
        ));
        gate.open_all();
        assert!(is_dependency(&user.synchronize()));
        assert!(is_dependency(&value_of(user, &seen)));
    });
}

#[test]
fn a_result_from_before_the_bad_one_was_used_is_good() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let (faulty, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let early = filled(user, 3.0);
        gate.hold(faulty);
        fail_next(&device, faulty, OpKind::Fill);
        let bad = filled(faulty, 1.0);
        let mut late = buffer(user);
        copy(user, &bad, &mut late).unwrap();
        gate.open_all();
        until("the user is idle", || user.is_idle());
        // Nobody has synchronised the user yet.
        assert_eq!(value_of(pool.stream(3).unwrap(), &early), Ok(3.0));
        assert!(is_dependency(&value_of(pool.stream(4).unwrap(), &late)));
        assert!(is_dependency(&user.synchronize()));
    });
}

#[test]
fn a_wait_for_an_event_or_a_stream_counts_as_use() {
    let device = device();
    let pool = pool(&device, 8);
    let gate = Gate::new(&device);
    let stream = |index| pool.stream(index).unwrap();
    gate.hold(stream(1));
    fail_next(&device, stream(1), OpKind::Nop);
    stream(1).encode(Op::Nop).unwrap();
    let event = pool.event().unwrap();
    stream(1).record(&event).unwrap();
    stream(2).wait(&event).unwrap();
    stream(3).wait_for_stream(stream(1)).unwrap();
    gate.open_all();
    assert!(is_dependency(&stream(2).synchronize()));
    assert!(is_dependency(&stream(3).synchronize()));
    assert_eq!(stream(2).synchronize(), Ok(()));
}

#[test]
fn what_a_poisoned_stream_skips_still_orders_others() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (reader, poisoned, third) = (stream(1), stream(2), stream(3));
        let mut shared = filled(third, 1.0);
        third.synchronize().unwrap();
        gate.hold(reader);
        let mut seen = buffer(reader);
        copy(reader, &shared, &mut seen).unwrap();
        // The write is skipped, and all the same it is after the read.
        gate.hold(poisoned);
        fail_next(&device, poisoned, OpKind::Nop);
        poisoned.encode(Op::Nop).unwrap();
        fill(poisoned, &mut shared, 2.0).unwrap();
        gate.open(poisoned);
        until("the fault", || poisoned.fault().is_some());
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                fill(third, &mut shared, 3.0).unwrap();
                third.synchronize().unwrap();
            });
            // Time enough for a write that does not wait to be early.
            std::thread::sleep(Duration::from_millis(20));
            let too_early = writing.is_finished();
            gate.open_all();
            assert!(!too_early, "written while it is read");
            join(writing);
        });
        assert_eq!(value_of(reader, &seen), Ok(1.0));
        assert_eq!(value_of(third, &shared), Ok(3.0));
    });
}

#[test]
fn the_next_holder_of_a_stream_knows_nothing_of_the_last_ones_faults() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        for direct in [true, false] {
            let faulty = pool.stream(5).unwrap();
            on_thread(|| {
                let stream = pool.current().unwrap();
                assert_eq!(stream.index(), 1);
                let failing = if direct { stream } else { faulty };
                fail_next(&device, failing, OpKind::Fill);
                let bad = filled(failing, 1.0);
                let mut seen = buffer(stream);
                // The thread ends without having asked how it went.
                copy(stream, &bad, &mut seen).unwrap();
            });
            on_thread(|| {
                let stream = pool.current().unwrap();
                assert_eq!((stream.index(), stream.fault()), (1, None));
                assert_eq!(stream.synchronize(), Ok(()));
                let buffer = filled(stream, 2.0);
                assert_eq!(value_of(stream, &buffer), Ok(2.0));
            });
            faulty.recover().unwrap();
        }
        assert_all_returned(&pool);
    });
}

#[test]
fn synchronising_everything_tells_of_a_fault_and_waits_for_the_others() {
    let device = device();
    let pool = pool(&device, 8);
    let (faulty, slow) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    device.injector().delay_queue(2, Duration::from_millis(10));
    fail_next(&device, faulty, OpKind::Fill);
    let (_bad, good) = (filled(faulty, 1.0), filled(slow, 2.0));
    let event = pool.event().unwrap();
    slow.record(&event).unwrap();
    assert!(is_fault(&pool.synchronize()));
    assert!(slow.is_idle());
    assert_eq!(value_of(slow, &good), Ok(2.0));
}

#[test]
fn a_panic_inside_a_scope_leaves_its_work_and_its_stream_sound() {
    let pool = pool(&device(), 8);
    on_thread(|| {
        let own = pool.current().unwrap().index();
        let mut outer = None;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            pool.with_stream(pool.stream(5).unwrap(), || {
                let stream = pool.current().unwrap();
                outer = Some(filled(stream, 1.0));
                let _freed_by_the_panic = filled(stream, 2.0);
                panic!("on purpose");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(pool.current().unwrap().index(), own);
        let buffer = outer.take().unwrap();
        assert_eq!(value_of(pool.current().unwrap(), &buffer), Ok(1.0));
        let stream = pool.stream(5).unwrap();
        assert_eq!((stream.fault(), stream.synchronize()), (None, Ok(())));
    });
    assert_all_returned(&pool);
}

#[test]
fn a_stream_used_twice_is_asked_about_its_latest_use() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, between, user, reader) = (stream(1), stream(2), stream(3), stream(4));
        gate.hold(faulty);
        let early = filled(faulty, 1.0);
        fail_next(&device, faulty, OpKind::Map);
        let (mut late, mut passed) = (buffer(faulty), buffer(between));
        add(faulty, &early, &mut late, 1.0).unwrap();
        add(between, &late, &mut passed, 1.0).unwrap();
        // What is good of the faulty stream is used first, what is bad only by way of another.
        let (mut sum, mut seen) = (buffer(user), buffer(reader));
        add(user, &early, &mut sum, 1.0).unwrap();
        add(user, &passed, &mut sum, 1.0).unwrap();
        add(reader, &sum, &mut seen, 1.0).unwrap();
        gate.open_all();
        assert!(is_dependency(&reader.synchronize()));
    });
}

/// Encodes `dst = one + other`.
fn sum(
    stream: &Stream,
    one: &streampool_runtime::Buffer,
    other: &streampool_runtime::Buffer,
    dst: &mut streampool_runtime::Buffer,
) -> Result<(), Error> {
    let expr = Expr::binary(Binary::Add, DType::F32)?;
    let inputs = vec![one.read(DType::F32, &[N])?, other.read(DType::F32, &[N])?];
    let outputs = vec![dst.write(DType::F32, &[N])?];
    let expr = Arc::new(expr);
    let op = Op::Map {
        expr,
        inputs,
        outputs,
    };
    stream.encode(op).map(drop)
}

#[test]
fn a_good_result_after_a_recovery_hides_no_bad_one_before_it() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let (faulty, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let good = filled(faulty, 1.0);
        let mut bad = buffer(faulty);
        fail_next(&device, faulty, OpKind::Map);
        add(faulty, &good, &mut bad, 1.0).unwrap();
        assert!(is_fault(&faulty.synchronize()));
        faulty.recover().unwrap();
        let later = filled(faulty, 2.0);
        faulty.synchronize().unwrap();
        let mut out = buffer(user);
        assert!(is_dependency(&sum(user, &later, &bad, &mut out)));
        assert!(is_dependency(&sum(user, &bad, &later, &mut out)));
        sum(user, &good, &later, &mut out).unwrap();
        assert_eq!(value_of(user, &out), Ok(3.0));
    });
}

#[test]
fn a_bad_result_used_before_a_recovery_is_told_though_a_good_one_was_used_after_it() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let (faulty, user) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let good = filled(faulty, 1.0);
        let (mut bad, mut one, mut two) = (buffer(faulty), buffer(user), buffer(user));
        gate.hold(faulty);
        fail_next(&device, faulty, OpKind::Map);
        add(faulty, &good, &mut bad, 1.0).unwrap();
        add(user, &bad, &mut one, 1.0).unwrap();
        gate.open(faulty);
        assert!(is_fault(&faulty.synchronize()));
        faulty.recover().unwrap();
        gate.hold(faulty);
        let later = filled(faulty, 2.0);
        add(user, &later, &mut two, 1.0).unwrap();
        gate.open_all();
        assert!(is_dependency(&user.synchronize()));
        assert!(is_dependency(&value_of(user, &one)));
    });
}

#[test]
fn a_write_of_a_part_makes_the_rest_no_better() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let good = filled(stream, 1.0);
        let mut bad = buffer(stream);
        fail_next(&device, stream, OpKind::Map);
        add(stream, &good, &mut bad, 1.0).unwrap();
        assert!(is_fault(&stream.synchronize()));
        stream.recover().unwrap();
        let dst = bad.write(DType::F32, &[1]).unwrap();
        let value = 7.0.into();
        let part = stream.encode(Op::Fill { dst, value }).map(drop);
        assert!(is_dependency(&part));
        assert!(is_dependency(&stream.upload(&mut bad, &[7.0f32])));
        assert!(is_dependency(&value_of(stream, &bad)));
        fill(stream, &mut bad, 4.0).unwrap();
        let dst = bad.write(DType::F32, &[1]).unwrap();
        let value = 5.0.into();
        stream.encode(Op::Fill { dst, value }).unwrap();
        assert_eq!(stream.download::<f32>(&bad).unwrap()[..2], [5.0, 4.0]);
    });
}

/// Who asks while others settle and recover hears of the fault each time.
#[test]
fn a_fault_is_not_missed_between_two_locks() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (faulty, user, reader) = (stream(1), stream(2), stream(3));
        for round in 0..rounds(500) {
            let good = filled(faulty, 1.0);
            let (mut bad, mut second, mut third) = (buffer(faulty), buffer(user), buffer(reader));
            gate.hold(faulty);
            fail_next(&device, faulty, OpKind::Map);
            add(faulty, &good, &mut bad, 1.0).unwrap();
            add(user, &bad, &mut second, 1.0).unwrap();
            user.flush().unwrap();
            gate.open_all();
            until("both are over", || faulty.is_idle() && user.is_idle());
            let (together, settled) = (Barrier::new(2), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    together.wait();
                    let told = user.synchronize();
                    settled.store(true, Ordering::Relaxed);
                    assert!(is_dependency(&told), "round {round}");
                    faulty.recover().unwrap();
                });
                together.wait();
                while !settled.load(Ordering::Relaxed) {
                    let read = add(reader, &second, &mut third, 1.0);
                    assert!(is_dependency(&read), "round {round}: {read:?}");
                }
            });
        }
    });
}

#[test]
fn an_urgent_stream_is_good_again_for_who_comes_next() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        for _ in 0..4 {
            let urgent = pool.urgent().unwrap();
            fail_next(&device, urgent, OpKind::Fill);
            let mut bad = buffer(urgent);
            fill(urgent, &mut bad, 1.0).unwrap();
            assert!(is_fault(&urgent.synchronize()));
        }
        for _ in 0..4 {
            let urgent = pool.urgent().unwrap();
            assert_eq!(value_of(urgent, &filled(urgent, 2.0)), Ok(2.0));
        }
    });
}

#[test]
fn what_was_not_executed_is_told_after_another_thread_recovered_the_stream() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let mut one = filled(stream, 1.0);
        let good = stream.position();
        fail_next(&device, stream, OpKind::Map);
        let failed = add(stream, &filled(stream, 1.0), &mut one, 0.5);
        failed.unwrap();
        let two = filled(stream, 2.0);
        let skipped = stream.position();
        on_threads(1, |_| {
            assert!(is_fault(&stream.synchronize()));
            let fault = stream.fault().unwrap();
            assert_eq!(stream.culprit(&fault), Culprit::OtherThread);
            stream.recover().unwrap();
        });
        let recovered = stream.position();
        let later = filled(stream, 3.0);
        assert_eq!(stream.synchronize(), Ok(()));
        let now = stream.position();
        assert!(is_dependency(&stream.wait_between(good, now, None)));
        assert_eq!(stream.wait_between(recovered, now, None), Ok(()));
        assert_eq!(stream.wait_between(skipped, skipped, None), Ok(()));
        assert_eq!(stream.wait_until(good, None), Ok(()));
        assert_eq!(stream.wait_until(stream.position(), None), Ok(()));
        let told = stream.wait_until(skipped, None);
        assert!(is_dependency(&told), "{told:?}");
        let fault = told.unwrap_err().fault().cloned().unwrap();
        assert_eq!(stream.culprit(&fault), Culprit::ThisThread);
        let elsewhere = pool.stream(2).unwrap();
        assert_eq!(elsewhere.culprit(&fault), Culprit::Elsewhere);
        assert!(is_dependency(&value_of(stream, &two)));
        assert_eq!(value_of(stream, &later).unwrap(), 3.0);
        assert_eq!(
            stream.wait_until(elsewhere.position(), None),
            Err(Error::ForeignStream)
        );
    });
}
