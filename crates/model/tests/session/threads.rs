//! One session from many threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use streampool_device::{Device, DeviceKind};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Error, RunOptions, Session};
use streampool_tensor::{DType, Pool};

use super::data::branches;
use super::{first, floats, pool, run};
use crate::onnx::{Graph, Load, graph, int};
use streampool_model::testing::Random;

const THREADS: usize = 31;

fn dense(pool: &Pool) -> Session {
    let mut random = Random::new(3);
    Graph::new()
        .input("x", DType::F32, "n 24")
        .constant("w", &random.reals(&[24, 24]))
        .constant("b", &random.reals(&[24]))
        .node("MatMul x w = xw", &[])
        .node("Add xw b = h", &[])
        .node("Erf h = e", &[])
        .node("Mul h e = g", &[])
        .node("Softmax g = y", &[])
        .outputs("y")
        .session(pool)
}

/// A part, a choice on data, and what follows it.
fn choosing(pool: &Pool) -> Session {
    let branch = |op: &str| {
        Graph::new()
            .node(&format!("{op} product = made"), &[])
            .outputs("made")
    };
    Graph::new()
        .input("x", DType::F32, "n 24")
        .constant("w", &Random::new(4).reals(&[24, 8]))
        .constant("zero", &Array::scalar(0f32))
        .node("MatMul x w = product", &[])
        .node("ReduceSum x = total", &[int("keepdims", 0)])
        .node("Less total zero = yes", &[])
        .node(
            "If yes = chosen",
            &[
                graph("then_branch", branch("Neg")),
                graph("else_branch", branch("Exp")),
            ],
        )
        .node("Relu chosen = positive", &[])
        .node("NonZero positive = places", &[])
        .node("Transpose places = turned", &[])
        .node("GatherND chosen turned = y", &[])
        .outputs("y")
        .session(pool)
}

fn inputs() -> Vec<Array> {
    (0..12)
        .map(|case| Random::new(case).reals(&[1 + case as usize % 4, 24]))
        .collect()
}

/// Each input's output is what one thread by itself gets, from all threads.
fn equal_from_all_threads(session: &Session) {
    let inputs = inputs();
    let expected: Vec<Array> = inputs.iter().map(|x| first(session, &[x])).collect();
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (inputs, expected, barrier) = (&inputs, &expected, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for turn in 0..40 {
                    let case = (thread + turn) % inputs.len();
                    let y = first(session, &[&inputs[case]]);
                    assert!(y == expected[case], "thread {thread}, case {case}");
                }
            });
        }
    });
}

#[test]
fn thirty_one_threads_get_the_bits_of_one() {
    let Some(pool) = pool() else { return };
    let session = dense(&pool);
    equal_from_all_threads(&session);
    assert_eq!(session.statistics().plans, 4);
    equal_from_all_threads(&choosing(&pool));
}

#[test]
fn threads_that_meet_a_shape_first_plan_it_once() {
    let Some(pool) = pool() else { return };
    let session = dense(&pool);
    let x = Random::new(9).reals(&[2, 24]);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                first(&session, &[&x]);
            });
        }
    });
    let statistics = session.statistics();
    assert_eq!((statistics.plans, statistics.replays), (1, THREADS as u64));
}

#[test]
fn threads_that_meet_a_choice_first_make_the_right_one() {
    let Some(pool) = pool() else { return };
    let x = floats(&[1.0, 2.0], &[2]);
    for _ in 0..10 {
        let session = branches("Greater c zero = yes", DType::I64, "", &pool);
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (session, x, barrier) = (&session, &x, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for turn in 0..4 {
                        let c = (thread + turn) % 3;
                        let y = match c {
                            0 => floats(&[-1.0, -3.0], &[2]),
                            _ => floats(&[3.0, 5.0, 3.0, 5.0], &[4]),
                        };
                        assert!(first(session, &[x, &Array::scalar(c as i64)]) == y);
                    }
                });
            }
        });
        assert_eq!(session.statistics().nodes_alone, 0);
    }
}

#[test]
fn a_session_may_be_dropped_while_others_run_it() {
    let Some(pool) = pool() else { return };
    let inputs = inputs();
    let first_session = dense(&pool);
    let expected: Vec<Array> = inputs.iter().map(|x| first(&first_session, &[x])).collect();
    drop(first_session);
    let before = pool.snapshot().unwrap().memory.in_use;
    for _ in 0..3 {
        let session = dense(&pool);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                // The last of them ends it.
                let session = session.clone();
                let (inputs, expected) = (&inputs, &expected);
                scope.spawn(move || {
                    for turn in 0..1 + thread % 5 {
                        let case = (thread + turn) % inputs.len();
                        assert!(first(&session, &[&inputs[case]]) == expected[case]);
                    }
                    drop(session);
                });
            }
            drop(session);
        });
    }
    pool.synchronize().unwrap();
    assert_eq!(pool.snapshot().unwrap().memory.in_use, before);
}

#[test]
fn outputs_may_be_read_after_their_session_is_gone() {
    let Some(pool) = pool() else { return };
    let x = Random::new(1).reals(&[4, 24]);
    let session = dense(&pool);
    let expected = first(&session, &[&x]);
    let tensors = session.run_to_tensors(&[(&x).into()]).unwrap();
    drop(session);
    assert_eq!(Array::of(&tensors[0]).unwrap(), expected);
}

#[test]
fn a_tensor_of_one_thread_is_an_input_of_another() {
    let Some(pool) = pool() else { return };
    let session = dense(&pool);
    let x = Random::new(1).reals(&[4, 24]);
    let twice = {
        let y = first(&session, &[&x]);
        first(&session, &[&y])
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::sync_channel(2);
        let (session, x, stop) = (&session, &x, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let made = session.run_to_tensors(&[x.into()]).unwrap().remove(0);
                if send.send(made).is_err() {
                    return;
                }
            }
        });
        for _ in 0..200 {
            let made = receive.recv().unwrap();
            let outputs = session.run_positional(&[(&made).into()]).unwrap();
            assert!(outputs.at(0) == Some(&twice));
        }
        stop.store(true, Ordering::Relaxed);
        drop(receive);
    });
}

#[test]
fn wrong_and_right_inputs_may_be_mixed_among_threads() {
    let Some(pool) = pool() else { return };
    let session = dense(&pool);
    let x = Random::new(1).reals(&[4, 24]);
    let expected = first(&session, &[&x]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (session, x, expected) = (&session, &x, &expected);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..40 {
                    if random.below(3) == 0 {
                        assert!(run(session, &[&floats(&[1.0], &[1])]).is_err());
                    } else {
                        assert!(&first(session, &[x]) == expected);
                    }
                }
            });
        }
    });
}

#[test]
fn urgent_runs_give_what_others_give() {
    let Some(pool) = pool() else { return };
    let inputs = inputs();
    for session in [dense(&pool), choosing(&pool)] {
        let expected: Vec<Array> = inputs.iter().map(|x| first(&session, &[x])).collect();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (session, inputs, expected) = (&session, &inputs, &expected);
                scope.spawn(move || {
                    for turn in 0..20 {
                        let case = (thread + turn) % inputs.len();
                        let options = RunOptions {
                            urgent: (thread + turn) % 3 == 0,
                            ..RunOptions::default()
                        };
                        let outputs = session.run_with([("x", &inputs[case])], &options);
                        assert!(outputs.unwrap().at(0) == Some(&expected[case]));
                    }
                });
            }
        });
    }
    let made = pool.snapshot().unwrap().made;
    let streams = pool.settings().streams;
    let urgent = made.iter().filter(|one| usize::from(one.index) >= streams);
    assert_eq!(urgent.count(), 2);
}

#[test]
fn large_programs_are_as_many_as_can_be_at_work() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 64")
        .constant("w", &Random::new(3).reals(&[64, 64]))
        .node("MatMul x w = h", &[])
        .node("Tanh h = t", &[])
        .node("MatMul t w = y", &[])
        .outputs("y")
        .session(&pool);
    // A program of nine MiB.
    let inputs = [1, 2, 3].map(|seed| Random::new(seed).reals(&[12 << 10, 64]));
    let expected = inputs.each_ref().map(|x| first(&session, &[x]));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (session, inputs, expected) = (&session, &inputs, &expected);
            scope.spawn(move || {
                for turn in 0..4 {
                    let case = (thread + turn) % inputs.len();
                    assert!(first(session, &[&inputs[case]]) == expected[case]);
                }
            });
        }
    });
    let properties = pool.device().properties();
    if properties.kind == DeviceKind::Host {
        let statistics = session.statistics();
        assert!(statistics.captures <= properties.compute_units as u64 + 1);
        assert_eq!(statistics.captures, statistics.programs as u64);
    }
}

#[test]
fn who_waits_for_a_large_program_minds_the_deadline() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("Tanh x = y", &[])
        .outputs("y")
        .session(&pool);
    let x = Random::new(1).reals(&[1 << 20]);
    let expected = first(&session, &[&x]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let options = RunOptions::within(Duration::from_micros(500));
                match session.run_with([("x", &x)], &options) {
                    Ok(outputs) => assert!(outputs.at(0) == Some(&expected)),
                    Err(error) => assert!(matches!(error, Error::Deadline), "{error}"),
                }
            });
        }
    });
    assert!(first(&session, &[&x]) == expected);
}

/// A session on a device of its own.
fn on_its_own_device() -> (Arc<HostDevice>, Session) {
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let pool = Pool::new(device.clone()).unwrap();
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("Tanh x = y", &[])
        .outputs("y")
        .session(&pool);
    (device, session)
}

/// Each command takes so long from now on.
fn delay(device: &HostDevice, time: Duration) {
    (0..32).for_each(|stream| device.injector().delay_queue(stream, time));
}

#[test]
fn large_programs_stay_as_many_when_runs_take_long() {
    let (device, session) = on_its_own_device();
    // A program of 16 MiB: there are as few as possible.
    let x = Random::new(1).reals(&[1 << 21]);
    let expected = first(&session, &[&x]);
    delay(&device, Duration::from_millis(60));
    let turns = device.properties().compute_units + 1;
    // The last in the line wait for longer than a second.
    let threads = (turns * 12).min(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert!(first(&session, &[&x]) == expected);
                }
            });
        }
    });
    let statistics = session.statistics();
    assert!(statistics.captures <= turns as u64, "{statistics:?}");
    assert_eq!(statistics.runs_without_turn, 0);
    assert_eq!(statistics.turns_waited > 0, threads > turns);
}

#[test]
fn smaller_programs_are_up_to_four_times_as_many() {
    let (device, session) = on_its_own_device();
    // A program of 1 MiB.
    let x = Random::new(1).reals(&[1 << 17]);
    let expected = first(&session, &[&x]);
    delay(&device, Duration::from_millis(20));
    let fewest = device.properties().compute_units + 1;
    let turns = 24.clamp(fewest, 4 * fewest);
    std::thread::scope(|scope| {
        for _ in 0..turns.min(THREADS) {
            scope.spawn(|| assert!(first(&session, &[&x]) == expected));
        }
    });
    let statistics = session.statistics();
    assert_eq!(statistics.turns_waited, 0, "{statistics:?}");
    assert!(statistics.captures <= turns as u64, "{statistics:?}");
}
