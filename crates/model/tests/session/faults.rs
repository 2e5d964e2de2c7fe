//! Runs and models that fail. An index that is out of range is a fault on the host only.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Input, RunOptions, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load, graph, int};
use streampool_model::testing::host_pool;

fn gather(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .input("places", DType::I64, "m")
        .node("Add x x = twice", &[])
        .node("Gather twice places = y", &[])
        .outputs("y")
        .session(pool)
}

#[test]
fn a_fault_reaches_the_caller_and_the_session_goes_on() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let y = floats(&[6.0, 2.0], &[2]);
    for _ in 0..3 {
        assert_eq!(first(&session, &[&x, &good]), y);
        let error = run(&session, &[&x, &bad]).unwrap_err().to_string();
        assert!(error.contains('3'), "{error}");
        assert_eq!(pool.current().unwrap().fault(), None);
    }
    assert_eq!(first(&session, &[&x, &good]), y);
}

#[test]
fn a_fault_of_tensors_shows_when_they_are_read() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let bad = session.run_to_tensors(&[Input::from(&x), Input::from(&bad)]);
    let error = bad.and_then(|tensors| Ok(tensors[0].to_bytes()?));
    assert!(error.is_err());
    assert_eq!(first(&session, &[&x, &good]), floats(&[6.0, 2.0], &[2]));
}

#[test]
fn a_fault_of_one_thread_is_no_other_thread_s() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (session, x) = (&session, &x);
            scope.spawn(move || {
                for _ in 0..50 {
                    if thread % 2 == 0 {
                        let y = first(session, &[x, &longs(&[2, 0], &[2])]);
                        assert_eq!(y, floats(&[6.0, 2.0], &[2]));
                    } else {
                        assert!(run(session, &[x, &longs(&[2, 3], &[2])]).is_err());
                    }
                }
            });
        }
    });
}

#[test]
fn shapes_that_do_not_go_together_are_refused_by_node() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n m")
        .constant("w", &floats(&[1.0; 6], &[3, 2]))
        .node("MatMul x w = product", &[])
        .outputs("product")
        .session(&pool);
    for _ in 0..2 {
        let error = run(&session, &[&floats(&[1.0; 4], &[2, 2])]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("\"product\"") && error.contains("[3, 2]"),
            "{error}"
        );
        let y = first(&session, &[&floats(&[1.0; 3], &[1, 3])]);
        assert_eq!(y, floats(&[3.0, 3.0], &[1, 2]));
    }
}

#[test]
fn a_fault_between_parts_reaches_the_caller() {
    let pool = host_pool();
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("list", DType::F32, "m")
        .node("NonZero x = places", &[])
        .node("Gather list places = y", &[])
        .outputs("y")
        .session(&pool);
    let list = floats(&[5.0, 6.0], &[2]);
    for _ in 0..2 {
        let bad = floats(&[0.0, 0.0, 1.0], &[3]);
        assert!(run(&session, &[&bad, &list]).is_err());
        let good = floats(&[0.0, 1.0, 0.0], &[3]);
        assert_eq!(first(&session, &[&good, &list]), floats(&[6.0], &[1, 1]));
    }
}

#[test]
fn a_model_of_unknown_operators_is_refused_with_every_place() {
    let Some(pool) = pool() else { return };
    let refused = |graph: Graph| {
        let loaded = graph.load(&pool, &SessionOptions::default());
        loaded.expect_err("nobody knows the operator").to_string()
    };
    let inner = |name: &str| {
        Graph::new()
            .node(&format!("Frobnicate x = {name}"), &[])
            .outputs(name)
    };
    let error = refused(
        Graph::new()
            .input("x", DType::F32, "n")
            .constant("yes", &Array::scalar(true))
            .node("Frobnicate x = first_place", &[])
            .node("Neg first_place = good", &[])
            .node("Frobnicate good = second_place", &[int("deep", 1)])
            .node("Twiddle second_place = third_place", &[])
            .node(
                "If yes = chosen",
                &[
                    graph("then_branch", inner("inner_place")),
                    graph("else_branch", inner("other_place")),
                ],
            )
            .outputs("third_place chosen"),
    );
    for text in [
        "Frobnicate",
        "Twiddle",
        "first_place",
        "second_place",
        "third_place",
    ] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
    for text in ["inner_place", "other_place"] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
    let error = refused(
        Graph::new()
            .input("x", DType::F32, "n")
            .node_of("of.nobody", "Own x = here", &[])
            .node_of("of.nobody", "Own here = there", &[])
            .outputs("there"),
    );
    for text in ["of.nobody", "Own", "here", "there"] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
}

/// A gather by itself, and one behind a node that asks for values.
fn gathers(pool: &Pool) -> [Session; 2] {
    let parts = Graph::new()
        .input("x", DType::F32, "n")
        .input("places", DType::I64, "m")
        .node("Add x x = twice", &[])
        .node("NonZero x = all", &[])
        .node("Gather twice all = again", &[])
        .node("Squeeze again = flat", &[])
        .node("Gather flat places = y", &[])
        .outputs("y");
    [gather(pool), parts.session(pool)]
}

/// Places that are there, and what is found there.
fn different() -> [(Array, Array); 3] {
    [0, 1, 2].map(|place| {
        let found = 2.0 * (place as f32 + 1.0);
        (longs(&[place, 0], &[2]), floats(&[found, 2.0], &[2]))
    })
}

#[test]
fn one_bad_urgent_run_leaves_urgent_runs_to_others() {
    let pool = host_pool();
    for session in gathers(&pool) {
        let x = floats(&[1.0, 2.0, 3.0], &[3]);
        let urgent = RunOptions {
            urgent: true,
            ..RunOptions::default()
        };
        let run = |places: &Array| session.run_with([("x", &x), ("places", places)], &urgent);
        let (good, bad) = (different(), longs(&[2, 3], &[2]));
        for _ in 0..3 {
            assert!(run(&bad).is_err());
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let bad = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(run(&bad).is_err());
                }
            });
            let good = [(); 4].map(|()| {
                scope.spawn(|| {
                    for turn in 0..250 {
                        let (good, y) = &good[turn % 3];
                        assert_eq!(run(good).unwrap().at(0), Some(y));
                    }
                })
            });
            let good = good.map(|thread| thread.join());
            stop.store(true, Ordering::Relaxed);
            bad.join().unwrap();
            good.into_iter().for_each(|result| result.unwrap());
        });
    }
}

#[test]
fn a_run_under_way_answers_for_its_own_values() {
    let pool = host_pool();
    let [session, _] = gathers(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let submit = |places: &Array| session.submit([("x", &x), ("places", places)]).unwrap();
    let y = floats(&[6.0, 2.0], &[2]);
    assert_eq!(first(&session, &[&x, &longs(&[1, 1], &[2])]).shape(), [2]);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut runs: Vec<_> = [&good, &bad, &good, &good]
            .map(|places| Some(submit(places)))
            .into();
        for place in order {
            let got = runs[place].take().unwrap().wait();
            match place {
                1 => assert!(got.unwrap_err().to_string().contains("index 3")),
                _ => assert_eq!(got.unwrap().at(0), Some(&y)),
            }
        }
        // One that is waited for behind one that nobody waits for.
        drop(submit(&bad));
        assert_eq!(first(&session, &[&x, &good]), y);
        drop(submit(&bad));
        assert_eq!(submit(&good).wait().unwrap().at(0), Some(&y));
    }
    assert_eq!(pool.current().unwrap().fault(), None);
}

#[test]
fn a_run_on_a_shared_stream_answers_for_its_own_values() {
    let pool = host_pool();
    let sessions = gathers(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (different(), longs(&[2, 3], &[2]));
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (session, x) = (&sessions[thread / 2 % 2], &x);
            let (good, bad, barrier, pool) = (&good, &bad, &barrier, &pool);
            scope.spawn(move || {
                barrier.wait();
                let one_of_them = |turn: usize| {
                    let (good, y) = &good[turn % 3];
                    match thread % 2 {
                        0 => assert_eq!(first(session, &[x, good]), *y),
                        _ => {
                            let error = run(session, &[x, bad]).unwrap_err().to_string();
                            assert!(error.contains("index 3"), "{error}");
                        }
                    }
                };
                let stream = pool.stream(1).unwrap();
                pool.with_stream(stream, || (0..200).for_each(one_of_them))
                    .unwrap();
            });
        }
    });
}

#[test]
fn whoever_used_the_result_of_a_failed_run_hears_of_it() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let inputs = [Input::from(&x), Input::from(&bad)];
    let bad = session.run_to_tensors(&inputs).unwrap();
    let used = bad[0].add(1.0).unwrap();
    assert_eq!(first(&session, &[&x, &good]), floats(&[6.0, 2.0], &[2]));
    assert!(used.to_bytes().is_err());
    assert!(bad[0].to_bytes().is_err());
    // What the caller encoded, and failed, is the caller's to recover.
    let stream = pool.current().unwrap();
    let twice = x.tensor(&pool).unwrap();
    let _failed = twice
        .gather(0, &longs(&[7], &[1]).tensor(&pool).unwrap())
        .unwrap();
    assert!(stream.synchronize().is_err());
    let error = run(&session, &[&x, &good]).unwrap_err().to_string();
    assert!(error.contains("the stream is poisoned"), "{error}");
    stream.recover().unwrap();
    assert_eq!(first(&session, &[&x, &good]), floats(&[6.0, 2.0], &[2]));
}

#[test]
fn a_run_that_was_late_and_failed_leaves_its_stream_to_the_next() {
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let pool = Pool::new(device.clone()).unwrap();
    // The places are asked for, and then taken from a list that is too short.
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("kept", DType::Bool, "m")
        .node("Neg x = negative", &[])
        .node("Compress negative kept = found", &[int("axis", 0)])
        .node("Neg found = y", &[])
        .outputs("y")
        .session(&pool);
    let x = floats(&[1.0, 2.0], &[2]);
    let kept = |places: &[bool]| Array::new(places, &[places.len()]).unwrap();
    let (good, bad) = (kept(&[false, true]), kept(&[true, false, true]));
    let y = floats(&[2.0], &[1]);
    let stream = pool.current().unwrap();
    let run = |kept: &Array, options: &RunOptions| {
        let inputs = [("x", &x), ("kept", kept)];
        pool.with_stream(stream, || session.run_with(inputs, options))
            .unwrap()
    };
    let patient = RunOptions::default();
    assert_eq!(run(&good, &patient).unwrap().at(0), Some(&y));
    assert!(run(&bad, &patient).is_err());
    for millis in [15, 25, 35, 45, 55] {
        let queue = stream.index().into();
        device
            .injector()
            .delay_queue(queue, Duration::from_millis(10));
        let hurried = RunOptions::within(Duration::from_millis(millis));
        assert!(run(&bad, &hurried).is_err());
        device.injector().clear();
        let _ = stream.synchronize();
        assert_eq!(run(&good, &patient).unwrap().at(0), Some(&y));
    }
}

#[test]
fn of_many_more_threads_than_streams_each_hears_of_its_own_values() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let good = different();
    let barrier = Barrier::new(100);
    std::thread::scope(|scope| {
        for thread in 0..100i64 {
            let (session, x, good, barrier) = (&session, &x, &good, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for turn in 0..20 {
                    let (places, y) = &good[turn % 3];
                    if thread % 4 == 0 {
                        let bad = longs(&[2, 3 + thread], &[2]);
                        let error = run(session, &[x, &bad]).unwrap_err().to_string();
                        let own = format!("index {} ", 3 + thread);
                        assert!(error.contains(&own), "{error}");
                    } else if thread % 4 == 1 {
                        let inputs = [("x", x), ("places", places)];
                        let pending = session.submit(inputs).unwrap();
                        assert_eq!(pending.wait().unwrap().at(0), Some(y));
                    } else {
                        assert_eq!(first(session, &[x, places]), *y);
                    }
                }
            });
        }
    });
}

#[test]
fn who_submits_hears_nothing_of_what_fails_on_the_same_stream() {
    let pool = host_pool();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (places, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let stream = pool.stream(1).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let failed = pool
                        .with_stream(stream, || run(&session, &[&x, &bad]))
                        .unwrap();
                    assert!(failed.is_err());
                }
            });
        }
        let y = floats(&[6.0, 2.0], &[2]);
        let submitted = (0..5000).map(|_| {
            let inputs = [("x", &x), ("places", &places)];
            let pending = pool.with_stream(stream, || session.submit(inputs));
            pending.unwrap().and_then(|pending| pending.wait())
        });
        // Nothing here panics before the others have ended.
        let wrong = submitted
            .map(|outputs| outputs.map(|outputs| outputs.at(0).cloned()))
            .find(|outputs| !matches!(outputs, Ok(Some(array)) if *array == y));
        over.store(true, Ordering::Relaxed);
        assert!(wrong.is_none(), "{wrong:?}");
    });
}
