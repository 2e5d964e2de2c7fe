//! What a session holds, and what it does again and again.

use streampool_model::{Array, Input, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load, int};
use streampool_model::testing::{Random, host_pool};

/// Two products with something between them.
fn layers() -> Graph {
    let mut random = Random::new(5);
    Graph::new()
        .input("x", DType::F32, "n 16")
        .constant("w", &random.reals(&[16, 32]))
        .constant("v", &random.reals(&[32, 8]))
        .node("MatMul x w = h", &[])
        .node("Tanh h = t", &[])
        .node("MatMul t v = y", &[])
        .outputs("y")
}

fn bounded(pool: &Pool, program_memory: usize) -> Session {
    let options = SessionOptions {
        program_memory,
        ..SessionOptions::default()
    };
    layers().load(pool, &options).unwrap()
}

#[test]
fn after_the_first_run_nothing_is_captured_or_taken_from_the_device() {
    let Some(pool) = pool() else { return };
    let session = layers().session(&pool);
    let x = [1, 3, 8].map(|rows| Random::new(rows).reals(&[rows as usize, 16]));
    let tensors = x.each_ref().map(|x| x.tensor(&pool).unwrap());
    let round = || {
        for (x, tensor) in x.iter().zip(&tensors) {
            let y = first(&session, &[x]);
            let outputs = session.run_to_tensors(&[Input::from(tensor)]).unwrap();
            assert_eq!(outputs[0].to_bytes().unwrap(), y.bytes());
        }
    };
    round();
    round();
    let before = (session.statistics(), pool.snapshot().unwrap().memory);
    for _ in 0..50 {
        round();
    }
    let after = (session.statistics(), pool.snapshot().unwrap().memory);
    assert_eq!(after.0.captures, before.0.captures);
    assert_eq!(after.0.plans, 3);
    assert_eq!(after.0.replays - before.0.replays, 300);
    assert_eq!(after.1.device_allocations, before.1.device_allocations);
    assert_eq!(after.1.in_use, before.1.in_use);
}

#[test]
fn programs_that_take_too_much_go_the_longest_unused_first() {
    let Some(pool) = pool() else { return };
    let rows = [4, 8, 16, 32];
    let free = bounded(&pool, usize::MAX);
    let expected = rows.map(|rows| first(&free, &[&Random::new(7).reals(&[rows, 16])]));
    let all = free.statistics();
    assert_eq!((all.programs, all.evicted), (4, 0));
    assert!(all.program_bytes > 0);

    let limit = all.program_bytes - 1;
    let session = bounded(&pool, limit);
    for _ in 0..5 {
        for (rows, expected) in rows.iter().zip(&expected) {
            let y = first(&session, &[&Random::new(7).reals(&[*rows, 16])]);
            assert_eq!(&y, expected);
            assert!(session.statistics().program_bytes <= limit);
        }
    }
    let some = session.statistics();
    assert!(some.evicted > 0 && some.programs < 4, "{some:?}");
    assert_eq!(some.captures - some.evicted, some.programs as u64);
    assert_eq!(some.plans, 4, "plans stay");
}

#[test]
fn only_so_many_programs_lie_ready_however_small_they_are() {
    const SIZES: usize = 4200;
    const MOST: usize = 4096;
    let pool = host_pool();
    let options = SessionOptions {
        program_memory: usize::MAX,
        ..SessionOptions::default()
    };
    let graph = Graph::new().input("x", DType::F32, "n");
    let graph = graph.node("Neg x = y", &[]).outputs("y");
    let session = graph.load(&pool, &options).unwrap();
    for size in 1..=SIZES {
        let x = Array::zeros(DType::F32, &[size]).unwrap();
        assert_eq!(first(&session, &[&x]).shape(), [size]);
    }
    let statistics = session.statistics();
    assert_eq!(statistics.programs, MOST);
    assert_eq!(statistics.evicted, (SIZES - MOST) as u64);
    assert!(statistics.plans <= 512, "{statistics:?}");
}

#[test]
fn where_there_is_not_room_for_each_stream_programs_serve_all() {
    const STREAMS: u8 = 8;
    const SIZES: usize = 8;
    let Some(pool) = pool() else { return };
    let inputs: Vec<Array> = (1..=SIZES)
        .map(|rows| Random::new(7).reals(&[rows, 16]))
        .collect();
    let free = bounded(&pool, usize::MAX);
    let expected: Vec<Array> = inputs.iter().map(|x| first(&free, &[x])).collect();
    let session = bounded(&pool, 3 * free.statistics().program_bytes);
    for round in 0..3 {
        for stream in 0..STREAMS {
            let stream = pool.stream(usize::from(stream)).unwrap();
            let run = || {
                for (x, expected) in inputs.iter().zip(&expected) {
                    assert_eq!(&first(&session, &[x]), expected, "round {round}");
                }
            };
            pool.with_stream(stream, run).unwrap();
        }
    }
    let statistics = session.statistics();
    assert_eq!(statistics.evicted, 0, "{statistics:?}");
    let most = usize::from(STREAMS) * SIZES / 2;
    assert!(statistics.programs < most, "{statistics:?}");
    assert_eq!(statistics.captures, statistics.programs as u64);
}

#[test]
fn without_room_for_any_program_each_run_makes_its_own() {
    let Some(pool) = pool() else { return };
    let session = bounded(&pool, 0);
    let x = Random::new(7).reals(&[4, 16]);
    let y = first(&session, &[&x]);
    for _ in 0..5 {
        assert_eq!(first(&session, &[&x]), y);
    }
    let statistics = session.statistics();
    assert_eq!((statistics.programs, statistics.program_bytes), (0, 0));
    assert_eq!((statistics.captures, statistics.evicted), (6, 6));
}

#[test]
fn a_session_gives_its_memory_back() {
    let Some(pool) = pool() else { return };
    let x = floats(&[0.5; 16], &[1, 16]);
    let before = pool.snapshot().unwrap().memory.in_use;
    for _ in 0..3 {
        let session = layers().session(&pool);
        first(&session, &[&x]);
        assert!(pool.snapshot().unwrap().memory.in_use > before);
        drop(session);
        assert_eq!(pool.snapshot().unwrap().memory.in_use, before);
    }
}

/// The four numbers from the largest of `count` on.
fn counting(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .input("count", DType::I64, "m")
        .constant("four", &longs(&[4], &[]))
        .constant("one", &longs(&[1], &[]))
        .node("ReduceMax count = most", &[int("keepdims", 0)])
        .node("Add most four = end", &[])
        .node("Range most end one = numbers", &[])
        .node("Cast numbers = floats", &[int("to", 1)])
        .node("Add floats x = y", &[])
        .outputs("y")
        .session(pool)
}

fn counted(session: &Session, count: i64) {
    let y = first(session, &[&floats(&[0.5], &[1]), &longs(&[count], &[1])]);
    let numbers = [0.5, 1.5, 2.5, 3.5].map(|more| count as f32 + more);
    assert_eq!(y, floats(&numbers, &[4]));
}

#[test]
fn values_that_do_not_come_back_have_no_plans_of_their_own() {
    let Some(pool) = pool() else { return };
    let session = counting(&pool);
    for count in 0..1000 {
        counted(&session, count % 50 + 1);
    }
    let steady = session.statistics();
    assert_eq!((steady.plans, steady.nodes_alone), (50 + 1, 0));
    for count in 0..800 {
        counted(&session, count);
    }
    let after = session.statistics();
    assert!(after.programs < 600 && after.nodes_alone > 0, "{after:?}");
    for count in 1000..1100 {
        counted(&session, count);
    }
    assert_eq!(session.statistics().captures, after.captures);
}

#[test]
fn an_input_is_made_plans_for_only_where_it_is_short() {
    let Some(pool) = pool() else { return };
    let session = counting(&pool);
    counted(&session, 3);
    let x = floats(&[0.5], &[1]);
    let mut counts = vec![1i64; 100_000];
    counts[777] = 4;
    let counts = longs(&counts, &[100_000]);
    let run = || {
        let y = first(&session, &[&x, &counts]);
        assert_eq!(y, floats(&[4.5, 5.5, 6.5, 7.5], &[4]));
    };
    run();
    let before = session.statistics();
    let in_use = pool.snapshot().unwrap().memory.in_use;
    (0..30).for_each(|_| run());
    let after = session.statistics();
    assert_eq!(
        (after.captures, after.plans),
        (before.captures, before.plans)
    );
    assert_eq!(pool.snapshot().unwrap().memory.in_use, in_use);
    counted(&session, 3);
}

#[test]
fn a_sequence_of_a_request_goes_with_it() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("number", DType::I64, "")
        .input("flags", DType::F32, "2")
        .constant("length", &longs(&[65_536], &[]))
        .node("SplitToSequence x length = pieces", &[int("axis", 0)])
        .node("NonZero flags = places", &[])
        .node("SequenceAt pieces number = piece", &[])
        .node("SequenceLength pieces = pieces_there", &[])
        .outputs("piece pieces_there places")
        .session(&pool);
    let flags = floats(&[0.0, 1.0], &[2]);
    let run = |seed: u64, number: i64| {
        let x = Random::new(seed).reals(&[4 * 65_536]);
        let got = run(&session, &[&x, &Array::scalar(number), &flags]).unwrap();
        let expected = x.rows(number as usize * 65_536..(number as usize + 1) * 65_536);
        assert_eq!(got.at(0), Some(&expected.unwrap()), "{number}");
        assert_eq!(got.at(1), Some(&Array::scalar(4i64)));
    };
    for number in 0..4 {
        run(1, number);
    }
    let before = (session.statistics(), pool.snapshot().unwrap().memory.in_use);
    for seed in 0..40 {
        run(seed, seed as i64 % 4);
    }
    let after = (session.statistics(), pool.snapshot().unwrap().memory.in_use);
    assert_eq!(after.0.captures, before.0.captures);
    assert_eq!(after.0.program_bytes, before.0.program_bytes);
    assert_eq!(after.1, before.1);
}

#[test]
fn what_plans_keep_counts() {
    let Some(pool) = pool() else { return };
    // What is known from the number takes memory of its own.
    let graph = || {
        Graph::new()
            .input("x", DType::F32, "n")
            .input("count", DType::I64, "1")
            .node("ConstantOfShape count = zeros", &[])
            .node("Cos zeros = ones", &[])
            .node("NonZero x = places", &[])
            .node("Gather ones places = y", &[])
            .outputs("y")
    };
    let session = graph().session(&pool);
    let x = floats(&[1.0], &[1]);
    let in_use = || pool.snapshot().unwrap().memory.in_use as f64;
    let before = in_use();
    for count in 1..=20 {
        let y = first(&session, &[&x, &longs(&[count * 10_000], &[1])]);
        assert_eq!(y, floats(&[1.0], &[1, 1]));
    }
    let (taken, told) = (in_use() - before, session.statistics().program_bytes as f64);
    assert!(taken > 8e6, "{taken}");
    assert!(
        told > 0.8 * taken && told < 1.2 * taken,
        "{told} of {taken}"
    );
    let options = SessionOptions {
        program_memory: 1 << 20,
        ..SessionOptions::default()
    };
    drop(session);
    let session = graph().load(&pool, &options).unwrap();
    for count in 1..=20 {
        first(&session, &[&x, &longs(&[count * 10_000], &[1])]);
        assert!(session.statistics().program_bytes <= 1 << 20);
    }
    assert!(in_use() - before < 2e6);
}
