//! Everything at once: many queues on many threads, against the reference.

#![expect(unsafe_code, reason = "gives memory back to the device")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use streampool_device::{DType, EventStatus, Flush, MatMul, Op, OpKind, QueueOptions, Space};

use crate::build::{add, affine, copy, fill, matmul};
use crate::execute::bits;
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::patience::{patience, rounds};
use crate::rng::Rng;

/// Thirty-one threads, each with its queue, do a hundred matrix products each, all right.
pub fn thirty_one_threads_multiply(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    const SHAPES: [[usize; 3]; 4] = [[4, 64, 32], [17, 33, 9], [1, 100, 50], [32, 16, 48]];
    std::thread::scope(|scope| {
        for thread in 0..31u64 {
            let mut lane = fixture.lane();
            scope.spawn(move || {
                let [m, k, n] = SHAPES[thread as usize % SHAPES.len()];
                let (a, b) = (
                    fixture.tensor::<f32>(&[m, k]),
                    fixture.tensor::<f32>(&[k, n]),
                );
                let out = fixture.tensor::<f32>(&[m, n]);
                let mut rng = Rng::new(thread);
                // Small integers: the product is exact in any order of summation.
                let mut small = |count: usize| -> Vec<f32> {
                    (0..count).map(|_| rng.between(-8, 8) as f32).collect()
                };
                let right = small(k * n);
                lane.put(b, &right);
                for round in 0..rounds(100) {
                    let left = small(m * k);
                    lane.put(a, &left);
                    lane.run(&fill(out, -1.0));
                    lane.run(&matmul(a, b, out));
                    let landing = lane.download(out.span()).expect("the sizes agree");
                    lane.sync();
                    assert_eq!(
                        landing.read::<f32>(),
                        exact_product(&left, &right, [m, k, n]),
                        "round {round}"
                    );
                }
            });
        }
    });
}

fn exact_product(a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    for row in 0..m {
        for depth in 0..k {
            for column in 0..n {
                out[row * n + column] += a[row * k + depth] * b[depth * n + column];
            }
        }
    }
    out
}

/// Chains of queues that wait for each other in both directions do not deadlock and lose nothing.
pub fn chains_in_both_directions(fixture: &Fixture) {
    const PAIRS: usize = 6;
    const ROUNDS: usize = rounds(150);
    std::thread::scope(|scope| {
        for _ in 0..PAIRS {
            let view = fixture.tensor::<f32>(&[40]);
            let (to_right, from_left) = mpsc::sync_channel(4);
            let (to_left, from_right) = mpsc::sync_channel(4);
            let (mut left, mut right) = (fixture.lane(), fixture.lane());
            scope.spawn(move || {
                left.run(&fill(view, 0.0));
                for round in 0..ROUNDS {
                    left.run(&affine(view, 0.5, 1.0));
                    let event = fixture.event();
                    left.record(&*event).expect("an event can be recorded");
                    to_right.send(event).expect("the other thread listens");
                    if round % 3 == 0 {
                        left.flush(Flush::Start).expect("a flush succeeds");
                    }
                    let back: Box<dyn streampool_device::Event> =
                        from_right.recv().expect("it answers");
                    left.wait(&*back).expect("it was recorded");
                }
                let mut expected = 0.0;
                for _ in 0..ROUNDS {
                    expected = (expected * 0.5 + 1.0) + 3.0;
                }
                assert_eq!(left.get::<f32>(view), [expected; 40]);
            });
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let event: Box<dyn streampool_device::Event> =
                        from_left.recv().expect("it sends");
                    right.wait(&*event).expect("it was recorded");
                    right.run(&add(view, 3.0));
                    let back = fixture.event();
                    right.record(&*back).expect("an event can be recorded");
                    if round % 2 == 0 {
                        right.flush(Flush::ForWaiter).expect("a flush succeeds");
                    }
                    to_left.send(back).expect("the other thread listens");
                }
                right.flush(Flush::Start).expect("a flush succeeds");
            });
        }
    });
}

/// A ring of queues, each waiting for the one before it, passes a value around.
pub fn a_ring_of_queues(fixture: &Fixture) {
    const QUEUES: usize = 31;
    const LAPS: usize = 20;
    let mut lanes = fixture.lanes(QUEUES);
    let view = fixture.tensor::<i32>(&[16]);
    let events: Vec<_> = (0..QUEUES).map(|_| fixture.event()).collect();
    lanes[QUEUES - 1].run(&fill(view, 0));
    lanes[QUEUES - 1]
        .record(&*events[QUEUES - 1])
        .expect("an event can be recorded");
    for _ in 0..LAPS {
        for number in 0..QUEUES {
            let before = &events[(number + QUEUES - 1) % QUEUES];
            lanes[number].wait(&**before).expect("it was recorded");
            lanes[number].run(&add(view, 1.0));
            lanes[number]
                .record(&*events[number])
                .expect("an event can be recorded");
        }
    }
    // Only the last is flushed: asking for its end is asking for what it waits for.
    assert_eq!(
        lanes[QUEUES - 1].get::<i32>(view),
        [(QUEUES * LAPS) as i32; 16]
    );
}

/// Whoever comes while others launch without a pause gets queues, events, memory and programs all the same.
pub fn newcomers_come_through_while_others_launch(fixture: &Fixture) {
    const FLAT_OUT: usize = 12;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut lane in fixture.lanes(FLAT_OUT) {
            let stop = &stop;
            scope.spawn(move || {
                // They give up at last, so that a newcomer who starves is told of, not waited for.
                let until = patience();
                while !stop.load(Ordering::Relaxed) && Some(Instant::now()) < until {
                    lane.run(&Op::Nop);
                    lane.sync();
                }
                assert!(
                    stop.load(Ordering::Relaxed),
                    "a newcomer did not come through"
                );
            });
        }
        for newcomer in 0..rounds(20) {
            let (mut lane, event) = (fixture.lane(), fixture.event());
            let (view, staging) = (fixture.tensor::<u8>(&[1 << 16]), Space::Staging);
            fixture.span_in(1 << 12, staging);
            let values = vec![newcomer as u8; 1 << 16];
            lane.put(view, &values);
            lane.record(&*event).expect("an event can be recorded");
            let copied = fixture.tensor::<u8>(&[1 << 16]);
            let program = lane.capture(&[Op::Nop, copy(view, copied)], &[]);
            for _ in 0..2 {
                lane.replay(&program, &[]).expect("a program is replayed");
            }
            assert_eq!(lane.get::<u8>(copied), values);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Threads make and drop queues, events and memory while others work.
pub fn everything_at_once(fixture: &Fixture) {
    let before = fixture.device().memory_use();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pollers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Acquire) {
                        let held = fixture.device().memory_use();
                        assert!(held.in_use <= fixture.device().properties().memory_capacity);
                        fixture.device().caches();
                        fixture.device().quirks();
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let workers: Vec<_> = (0..8u64)
            .map(|seed| scope.spawn(move || short_lives(fixture, seed)))
            .collect();
        for worker in workers {
            worker.join().expect("no worker panics");
        }
        stop.store(true, Ordering::Release);
        drop(pollers);
    });
    assert_eq!(fixture.device().memory_use(), before);
}

/// Queues, events and memory that live for one short piece of work.
fn short_lives(fixture: &Fixture, seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..40i32 {
        let memory = fixture
            .device()
            .allocate(4 * 128, Space::Device)
            .expect("there is memory");
        let span = memory
            .span()
            .part(0, 4 * 128)
            .expect("it is as long as asked");
        let layout = streampool_device::Layout::contiguous(&[128]).expect("the shape is small");
        let view = streampool_device::View::new(span, DType::I32, layout).expect("it fits");
        let options = QueueOptions {
            label: format!("short-{seed}"),
            index: 1000 + seed as u32,
            ..QueueOptions::default()
        };
        let queue = fixture
            .device()
            .create_queue(options)
            .expect("a queue can be made");
        let mut lane = crate::lane::Lane::new(queue, 1000 + seed as u32);
        let event = fixture.event();
        lane.run(&fill(view, round));
        for _ in 0..rng.below(10) {
            lane.run(&add(view, 0.0));
        }
        lane.record(&*event).expect("an event can be recorded");
        let got = if rng.chance(2) {
            lane.get::<i32>(view)
        } else {
            let landing = lane.download(span).expect("the sizes agree");
            let progress = lane.progress();
            drop(lane);
            progress
                .wait(landing.tick, patience())
                .expect("it completes");
            landing.read::<i32>()
        };
        assert_eq!(got, [round; 128]);
        assert_eq!(event.query(), Ok(EventStatus::Complete));
        // SAFETY: it was allocated above, and the only queue that named it has completed everything.
        unsafe { fixture.device().free(memory) };
    }
}

/// One buffer is read by many queues after one wrote it, over and over.
pub fn one_writer_and_many_readers(fixture: &Fixture) {
    let mut writer = fixture.lane();
    let mut readers = fixture.lanes(10);
    let view = fixture.tensor::<f32>(&[1000]);
    let twins: Vec<_> = readers
        .iter()
        .map(|_| fixture.tensor::<f32>(&[1000]))
        .collect();
    let written = fixture.event();
    let read: Vec<_> = readers.iter().map(|_| fixture.event()).collect();
    let mut landings = Vec::new();
    for round in 0..30 {
        writer.run(&fill(view, f64::from(round)));
        writer.record(&*written).expect("an event can be recorded");
        for ((reader, &twin), read) in readers.iter_mut().zip(&twins).zip(&read) {
            reader.wait(&*written).expect("it was recorded");
            reader.run(&copy(view, twin));
            reader.record(&**read).expect("an event can be recorded");
            landings.push((
                round,
                reader.download(twin.span()).expect("the sizes agree"),
            ));
        }
        for read in &read {
            writer.wait(&**read).expect("it was recorded");
        }
    }
    for reader in &mut readers {
        reader.sync();
    }
    for (round, landing) in landings {
        assert_eq!(landing.read::<f32>(), [round as f32; 1000]);
    }
}

fn deterministic_ops() -> Vec<(Op<usize>, Vec<Operand>)> {
    let mut rng = Rng::new(99);
    let mut random = |shape: &[usize]| {
        let count = shape.iter().product();
        let values: Vec<Num> = (0..count)
            .map(|_| Num::Float(rng.real(-2.0, 2.0)))
            .collect();
        Operand::of(DType::F32, shape, values)
    };
    let blank = |shape: &[usize]| Operand::row_major(DType::F32, shape);
    let product = |a, b, out| {
        Op::MatMul(MatMul {
            a,
            b,
            out,
            bias: None,
            activation: streampool_device::Activation::GeluTanh,
            alpha: 0.7,
        })
    };
    let over = |axis| streampool_device::Axes::new(&[axis]).expect("below the maximum");
    let sum = |axis| Op::Reduce {
        kind: streampool_device::ReduceKind::Sum,
        src: 0,
        dst: 1,
        axes: over(axis),
    };
    let softmax = Op::Softmax {
        src: 0,
        dst: 1,
        axis: 1,
        log: false,
    };
    vec![
        (
            product(0, 1, 2),
            vec![random(&[67, 300]), random(&[300, 45]), blank(&[67, 45])],
        ),
        (sum(0), vec![random(&[5000, 7]), blank(&[1, 7])]),
        (sum(1), vec![random(&[3, 20_000]), blank(&[3, 1])]),
        (softmax, vec![random(&[9, 3000]), blank(&[9, 3000])]),
    ]
}

/// The same op gives the same bits on one thread as on eight at the same time, eager or replayed.
pub fn results_are_the_same_bits_everywhere(fixture: &Fixture) {
    for (op, operands) in deterministic_ops() {
        if !fixture.supports(op.kind()) {
            continue;
        }
        let alone = bits(fixture, &mut fixture.lane(), &op, &operands);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut lane = fixture.lane();
                    for _ in 0..3 {
                        assert!(bits(fixture, &mut lane, &op, &operands) == alone, "{op:?}");
                    }
                });
            }
        });
    }
}
