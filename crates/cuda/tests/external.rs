//! Streams of the driver that another library made: replays between its work, in its order, whichever stream it is.
#![cfg(not(loom))]

mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::ptr::null_mut;

use common::device;
use cudarc::driver::sys::{self, CUdeviceptr, CUresult, CUstream};
use streampool_device::Span;
use streampool_runtime::{Buffer, Capture, DType, Op, Pool, Program, Stream};
use work::*;

const BYTES: usize = N * 4;
const ROUNDS: usize = 60;
/// What an input is filled with as soon as it was given: whoever reads it too late reads this.
const POISON: f32 = -1e6;

fn ok(what: &str, result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS, "{what}");
}

/// The other library: a stream of its own, and memory.
struct Other {
    stream: CUstream,
    /// `ROUNDS` inputs, as many places for results, the input, the output, and the poison.
    memory: CUdeviceptr,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Other {}

impl Other {
    fn new(first: f32) -> Other {
        let (mut stream, mut memory, mut context) = (null_mut(), 0, null_mut());
        // SAFETY: the device is open, so its context is there; each call writes one handle.
        unsafe {
            ok("retain", sys::cuDevicePrimaryCtxRetain(&mut context, 0));
            ok("context", sys::cuCtxSetCurrent(context));
            ok("stream", sys::cuStreamCreate(&mut stream, 1));
            let bytes = (2 * ROUNDS + 3) * BYTES;
            ok("memory", sys::cuMemAlloc_v2(&mut memory, bytes));
        }
        let other = Other { stream, memory };
        for round in 0..ROUNDS {
            other.write(round, first + round as f32);
        }
        other.write(2 * ROUNDS + 2, POISON);
        other.wait();
        other
    }

    fn at(&self, place: usize) -> CUdeviceptr {
        self.memory + (place * BYTES) as u64
    }

    fn write(&self, place: usize, value: f32) {
        let values = [value; N];
        // SAFETY: the place is within the memory; the values stay until the copy was waited for.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(self.at(place), values.as_ptr().cast(), BYTES, self.stream)
        };
        ok("upload", result);
        self.wait();
    }

    fn copy(&self, from: usize, to: usize) {
        // SAFETY: both places are within the memory.
        let result =
            unsafe { sys::cuMemcpyDtoDAsync_v2(self.at(to), self.at(from), BYTES, self.stream) };
        ok("copy", result);
    }

    fn wait(&self) {
        // SAFETY: the stream lives.
        ok("wait", unsafe { sys::cuStreamSynchronize(self.stream) });
    }

    fn result(&self, round: usize) -> f32 {
        let mut values = [0f32; N];
        // SAFETY: the place is within the memory, and the values are waited for.
        let result = unsafe {
            let (to, from) = (values.as_mut_ptr().cast(), self.at(ROUNDS + round));
            sys::cuMemcpyDtoHAsync_v2(to, from, BYTES, self.stream)
        };
        ok("download", result);
        self.wait();
        assert!(values.iter().all(|&value| value == values[0]));
        values[0]
    }

    fn handle(&self) -> u64 {
        self.stream as u64
    }

    fn lend(&self, pool: &Pool, place: usize) -> Buffer {
        let span = Span {
            handle: self.at(place),
            offset: 0,
            bytes: BYTES,
        };
        // SAFETY: the memory stays, is aligned, and what touches it here is ordered with the replays by their stream.
        unsafe { pool.lend(span) }.unwrap()
    }

    /// Fills the input, runs `program` on it, overwrites the input and takes the result, and waits for nothing.
    fn round(&self, pool: &Pool, stream: &Stream, program: &Program, round: usize) {
        const INPUT: usize = 2 * ROUNDS;
        self.copy(round, INPUT);
        let (input, mut output) = (self.lend(pool, INPUT), self.lend(pool, INPUT + 1));
        // SAFETY: the stream lives, and its work is the only other that touches the memory.
        let ran =
            unsafe { stream.replay_on(self.handle(), program, &[&input], &mut [&mut output]) };
        ran.unwrap();
        self.copy(INPUT + 2, INPUT);
        self.copy(INPUT + 1, ROUNDS + round);
    }
}

/// `scratch = input + 1; output = scratch + 1`.
fn twice(stream: &Stream) -> Program {
    let mut capture = Capture::new(stream);
    let input = capture.input(BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    let scratch = capture.scratch(BYTES).unwrap();
    for (from, to) in [(&input, &scratch), (&scratch, &output)] {
        let op = Op::Map {
            expr: plus(1.0),
            inputs: vec![from.view(DType::F32, &[N]).unwrap()],
            outputs: vec![to.view(DType::F32, &[N]).unwrap()],
        };
        capture.encode(op).unwrap();
    }
    capture.finish().unwrap()
}

#[test]
fn a_replay_comes_between_what_was_there_and_what_comes() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.current().unwrap();
    let program = twice(stream);
    let other = Other::new(0.0);
    for round in 0..ROUNDS {
        other.round(&pool, stream, &program, round);
    }
    for round in 0..ROUNDS {
        assert_eq!(other.result(round), round as f32 + 2.0);
    }
    stream.synchronize().unwrap();
    assert_eq!(pool.snapshot().unwrap().memory.pending, 0);
}

#[test]
fn programs_are_in_the_order_of_their_stream_whoever_it_runs_beside() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.current().unwrap();
    let program = twice(stream);
    let others = [0.0, 1e3, 2e3].map(Other::new);
    for round in 0..ROUNDS {
        for other in &others {
            other.round(&pool, stream, &program, round);
        }
        // Its own work comes in between, too.
        if round % 7 == 0 {
            let mut own = filled(stream, 0.0);
            fill(stream, &mut own, round as f32).unwrap();
            assert_eq!(value_of(stream, &own), Ok(round as f32));
            // What a replay gave is there for it.
            let last = others[2].lend(&pool, 2 * ROUNDS + 1);
            assert_eq!(value_of(stream, &last), Ok(2002.0 + round as f32));
        }
    }
    for (number, other) in others.iter().enumerate() {
        for round in 0..ROUNDS {
            assert_eq!(other.result(round), (number * 1000 + round) as f32 + 2.0);
        }
    }
}

#[test]
fn a_replay_comes_after_what_its_own_stream_was_given() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.current().unwrap();
    let program = twice(stream);
    let other = Other::new(0.0);
    let [mut sum, mut next] = [0, 1].map(|_| filled(stream, 0.0));
    for round in 0..ROUNDS {
        // Long enough for the other stream to be there first.
        for _ in 0..20 {
            add(stream, &sum, &mut next, 1.0).unwrap();
            std::mem::swap(&mut sum, &mut next);
        }
        let mut output = other.lend(&pool, 2 * ROUNDS + 1);
        // SAFETY: the stream lives, and its work is the only other that touches the output.
        let ran =
            unsafe { stream.replay_on(other.handle(), &program, &[&sum], &mut [&mut output]) };
        ran.unwrap();
        other.copy(2 * ROUNDS + 1, ROUNDS + round);
    }
    for round in 0..ROUNDS {
        assert_eq!(other.result(round), 20.0 * (round + 1) as f32 + 2.0);
    }
}

#[test]
fn threads_run_beside_streams_of_their_own() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 8);
    on_threads(4, |number| {
        let stream = pool.current().unwrap();
        let program = twice(stream);
        let other = Other::new(number as f32 * 1e3);
        for round in 0..ROUNDS {
            other.round(&pool, stream, &program, round);
        }
        for round in 0..ROUNDS {
            assert_eq!(
                other.result(round),
                number as f32 * 1e3 + round as f32 + 2.0
            );
        }
    });
}

#[test]
fn both_sides_wait_for_one_another() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.current().unwrap();
    let other = Other::new(0.0);
    let (place, mut own) = (2 * ROUNDS, buffer(stream));
    for round in 0..ROUNDS {
        other.copy(round, place);
        let mut lent = other.lend(&pool, place);
        // SAFETY: the stream lives.
        unsafe { stream.wait_for_external(other.handle()) }.unwrap();
        add(stream, &lent, &mut own, 3.0).unwrap();
        copy(stream, &own, &mut lent).unwrap();
        // SAFETY: as above.
        unsafe { stream.hold_external(other.handle()) }.unwrap();
        other.copy(place, ROUNDS + round);
    }
    for round in 0..ROUNDS {
        assert_eq!(other.result(round), round as f32 + 3.0);
    }
}

#[test]
fn a_stream_that_captures_is_refused() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.current().unwrap();
    let other = Other::new(0.0);
    let mut graph = null_mut();
    // SAFETY: the stream is this test's; the capture ends before anything else is done with it.
    let refused = unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        ok("begin", sys::cuStreamBeginCapture_v2(other.stream, mode));
        let refused = stream.wait_for_external(other.handle());
        ok("end", sys::cuStreamEndCapture(other.stream, &mut graph));
        ok("destroy", sys::cuGraphDestroy(graph));
        refused
    };
    assert!(refused.unwrap_err().to_string().contains("captures"));
    // SAFETY: the stream lives.
    unsafe { stream.wait_for_external(other.handle()) }.unwrap();
    stream.synchronize().unwrap();
}
