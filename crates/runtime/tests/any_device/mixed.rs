//! Thirty-one threads, a thousand mixed ops each, sharing with each other, each result checked.

use std::sync::{Barrier, Mutex};

use streampool_runtime::{
    Activation, Axes, Buffer, Capture, DType, Event, MatMul, Op, Pool, Program, ReduceKind, Stream,
};

use super::*;

const THREADS: usize = 31;
/// But for the thread sanitizer, under which each takes much longer than under any other watch.
const OPS: usize = match cfg!(sanitize_thread) {
    true => 100,
    false => 1000,
};
/// The shared weights are a matrix of so many rows and columns.
const WIDTH: usize = 16;

/// What all threads share, and how they pass buffers on: each has a place that its neighbours fill.
struct Shared {
    weights: Buffer,
    program: Program,
    places: Vec<Mutex<Option<Given>>>,
}

/// A buffer that is on its way to another thread, the value it is full of, and when that was written.
struct Given {
    buffer: Buffer,
    value: f32,
    written: Event,
}

/// `output = input + 0.5 + 0.25`, by way of scratch.
fn program(stream: &Stream) -> Program {
    let mut capture = Capture::new(stream);
    let input = capture.input(N * 4).unwrap();
    let output = capture.output(N * 4).unwrap();
    let scratch = capture.scratch(N * 4).unwrap();
    for (from, to, amount) in [(&input, &scratch, 0.5), (&scratch, &output, 0.25)] {
        let op = Op::Map {
            expr: plus(amount),
            inputs: vec![from.view(DType::F32, &[N]).unwrap()],
            outputs: vec![to.view(DType::F32, &[N]).unwrap()],
        };
        capture.encode(op).unwrap();
    }
    capture.finish().unwrap()
}

/// One op whose result is checked before it returns.
fn one_op(pool: &Pool, shared: &Shared, number: usize, round: usize) {
    let stream = pool.current().unwrap();
    let value = ((number * 31 + round) % 1000) as f32;
    match (number + round) % 8 {
        0 => {
            let values: Vec<f32> = (0..N).map(|place| value + place as f32).collect();
            let mut own = buffer(stream);
            stream.upload(&mut own, &values).unwrap();
            assert_eq!(stream.download::<f32>(&own).unwrap(), values);
        }
        1 => {
            let own = filled(stream, value);
            let mut sum = buffer(stream);
            add(stream, &own, &mut sum, 2.0).unwrap();
            assert_eq!(value_of(stream, &sum), Ok(value + 2.0));
        }
        2 | 3 => {
            let written = pool.event().unwrap();
            let buffer = filled(stream, value);
            stream.record(&written).unwrap();
            let place = &shared.places[(number + 1 + round % 5) % THREADS];
            // One that nobody took meanwhile is dropped here, on a foreign stream.
            let _old = place.lock().unwrap().replace(Given {
                buffer,
                value,
                written,
            });
        }
        4 | 5 => {
            let Some(given) = shared.places[number].lock().unwrap().take() else {
                return;
            };
            let mut sum = buffer(stream);
            match round % 2 {
                0 => stream.wait(&given.written).unwrap(),
                _ => given.written.wait().unwrap(),
            }
            add(stream, &given.buffer, &mut sum, 1.0).unwrap();
            drop(given.buffer);
            assert_eq!(value_of(stream, &sum), Ok(given.value + 1.0));
        }
        6 => multiply(stream, &shared.weights, value),
        _ => {
            let input = filled(stream, value);
            let mut output = buffer(stream);
            stream
                .replay(&shared.program, &[&input], &mut [&mut output])
                .unwrap();
            drop(input);
            assert_eq!(value_of(stream, &output), Ok(value + 0.75));
            assert_eq!(sum_of(stream, &output), (value + 0.75) * N as f32);
        }
    }
}

/// One row of `value` times the shared weights, of which column `c` is full of `c`.
fn multiply(stream: &Stream, weights: &Buffer, value: f32) {
    let mut row = stream.allocate(WIDTH * 4).unwrap();
    let mut out = stream.allocate(WIDTH * 4).unwrap();
    stream.upload(&mut row, &[value; WIDTH]).unwrap();
    stream
        .encode(Op::MatMul(MatMul {
            a: row.read(DType::F32, &[1, WIDTH]).unwrap(),
            b: weights.read(DType::F32, &[WIDTH, WIDTH]).unwrap(),
            out: out.write(DType::F32, &[1, WIDTH]).unwrap(),
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))
        .unwrap();
    let expected: Vec<f32> = (0..WIDTH)
        .map(|column| value * (WIDTH * column) as f32)
        .collect();
    assert_eq!(stream.download::<f32>(&out).unwrap(), expected);
}

fn sum_of(stream: &Stream, buffer: &Buffer) -> f32 {
    let mut sum = stream.allocate(4).unwrap();
    stream
        .encode(Op::Reduce {
            kind: ReduceKind::Sum,
            src: buffer.read(DType::F32, &[N]).unwrap(),
            dst: sum.write(DType::F32, &[1]).unwrap(),
            axes: Axes::new(&[0]).unwrap(),
        })
        .unwrap();
    stream.download::<f32>(&sum).unwrap()[0]
}

#[test]
fn thirty_one_threads_do_a_thousand_mixed_ops_each_and_every_result_is_right() {
    with_device(|device| {
        let pool = pool(&device, THREADS + 1);
        let shared = on_thread(|| {
            let stream = pool.current().unwrap();
            let weights: Vec<f32> = (0..WIDTH * WIDTH)
                .map(|place| (place % WIDTH) as f32)
                .collect();
            let mut buffer = stream.allocate(WIDTH * WIDTH * 4).unwrap();
            stream.upload(&mut buffer, &weights).unwrap();
            Shared {
                weights: buffer,
                program: program(stream),
                places: (0..THREADS).map(|_| Mutex::default()).collect(),
            }
        });
        let all_here = Barrier::new(THREADS);
        on_threads(THREADS, |number| {
            all_here.wait();
            for round in 0..OPS {
                one_op(&pool, &shared, number, round);
            }
        });
        drop(shared);
        pool.synchronize().unwrap();
        for stream in pool.snapshot().unwrap().made {
            assert_eq!((stream.fault, stream.past_faults), (None, 0));
        }
        pool.trim().unwrap();
        assert_all_returned(&pool);
        drop(pool);
        assert_all_freed(&device);
    });
}
