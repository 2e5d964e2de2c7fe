//! What a session holds, and what it does again and again.

use streampool_model::{Input, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::{first, floats, pool};
use crate::arrays::Random;
use crate::onnx::Graph;

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
