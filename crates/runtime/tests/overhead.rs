//! What a device takes for itself is seen, and counts within the limit.
#![cfg(not(loom))]

mod common;

use std::sync::Arc;

use common::*;
use streampool_runtime::{Activation, Capture, DType, Error, MatMul, Op, Pool, Program, Stream};

const MIB: usize = 1 << 20;
/// Rows and columns of a matrix of 4 MiB.
const SIDE: usize = 1024;

/// A program whose constant is of 4 MiB. The host keeps it in another form, too.
fn program(stream: &Stream) -> Program {
    let mut weights = stream.allocate(4 * MIB).unwrap();
    let dst = weights.write(DType::F32, &[SIDE, SIDE]).unwrap();
    let value = 1.0.into();
    stream.encode(Op::Fill { dst, value }).unwrap();
    let weights = Arc::new(weights);
    let mut capture = Capture::new(stream);
    let x = capture.input(SIDE * 4).unwrap();
    let weights = capture.constant(&weights).unwrap();
    let out = capture.output(SIDE * 4).unwrap();
    let product = MatMul {
        a: x.view(DType::F32, &[1, SIDE]).unwrap(),
        b: weights.view(DType::F32, &[SIDE, SIDE]).unwrap(),
        out: out.view(DType::F32, &[1, SIDE]).unwrap(),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    };
    capture.encode(Op::MatMul(product)).unwrap();
    capture.finish().unwrap()
}

fn overhead(pool: &Pool) -> usize {
    pool.snapshot().unwrap().memory.overhead
}

#[test]
fn what_the_device_takes_for_itself_counts_within_the_limit() {
    let device = device_of(2, 64 * MIB);
    let pool = pool_with(&device, settings().memory_limit(Some(16 * MIB)));
    let stream = pool.stream(1).unwrap();
    let before = overhead(&pool);
    let program = program(stream);
    let taken = overhead(&pool) - before;
    assert!(taken >= 4 * MIB, "{taken} bytes");
    let mut buffers = vec![];
    let (limit, reserved, counted) = loop {
        match stream.allocate(2 * MIB) {
            Ok(buffer) => buffers.push(buffer),
            Err(Error::OutOfMemory {
                limit,
                reserved,
                overhead,
                ..
            }) => break (limit, reserved, overhead),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(limit, 16 * MIB);
    assert!(
        reserved + counted <= limit,
        "{reserved} and {counted} bytes"
    );
    assert!(counted >= 4 * MIB, "{counted} bytes");
    let with_program = buffers.len();
    drop((program, buffers));
    assert!(overhead(&pool) < before + taken);
    let after: Vec<_> = std::iter::from_fn(|| stream.allocate(2 * MIB).ok()).collect();
    assert!(after.len() > with_program, "{} buffers", after.len());
}
