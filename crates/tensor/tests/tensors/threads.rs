//! Tensors go from thread to thread, and are read on many at once, with nothing asked of anybody.

use std::sync::Barrier;

use crate::common::unwatched_pool;
use streampool_tensor::{DType, Tensor};

const THREADS: usize = 8;

#[test]
fn a_tensor_of_one_thread_is_used_on_eight_others_at_once() {
    let pool = unwatched_pool();
    for round in 0..20 {
        // Made on a stream of its own, and not waited for.
        let made = std::thread::scope(|scope| {
            let make = || Tensor::arange(&pool, round, round + 60_000, 1, DType::I32);
            scope.spawn(make).join().unwrap().unwrap()
        });
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (made, start) = (made.clone(), &start);
                scope.spawn(move || {
                    start.wait();
                    let part = made.narrow(0, thread * 100, 1000).unwrap();
                    let turned = part.reshape(&[10, 100]).unwrap().transpose(0, 1).unwrap();
                    let doubled = turned.to_dtype(DType::F64).unwrap();
                    drop((made, part, turned));
                    let first = f64::from(round) + (thread * 100) as f64;
                    let expected: Vec<f64> = (0..1000)
                        .map(|place| first + (place % 10 * 100 + place / 10) as f64)
                        .collect();
                    assert_eq!(doubled.to_vec::<f64>().unwrap(), expected);
                });
            }
        });
        assert_eq!(
            made.select(0, -1).unwrap().item::<i32>().unwrap(),
            round + 59_999
        );
    }
}

#[test]
fn results_pass_along_a_chain_of_threads() {
    let pool = unwatched_pool();
    let mut x = Tensor::full(&pool, &[4096], 0, DType::I64).unwrap();
    for step in 0..40 {
        // Each thread drops what it was given while its own work on it may still run.
        x = std::thread::scope(|scope| {
            let next = || {
                let wide = x.to_dtype(if step % 2 == 0 {
                    DType::F64
                } else {
                    DType::I64
                });
                wide.and_then(|wide| wide.flip(&[0])?.contiguous())
            };
            scope.spawn(next).join().unwrap().unwrap()
        });
    }
    assert_eq!(x.to_vec::<i64>().unwrap(), [0; 4096]);
    pool.synchronize().unwrap();
}

#[test]
fn a_tensor_keeps_its_pool_alive() {
    let x = {
        let pool = unwatched_pool();
        Tensor::ones(&pool, &[3], DType::F32).unwrap()
    };
    let view = x.narrow(0, 1, 2).unwrap();
    drop(x);
    assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn tensors_may_be_shared_and_sent() {
    fn shared<T: Send + Sync>() {}
    shared::<Tensor>();
}
