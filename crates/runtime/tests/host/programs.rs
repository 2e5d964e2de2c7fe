//! Programs: captured once, replayed by anybody, anywhere in their pool.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::*;
use streampool_host::OpMatcher;
use streampool_runtime::{
    Activation, Buffer, Capture, DType, Error, MatMul, Op, OpKind, Program, Reference, Stream,
};

const BYTES: usize = N * 4;

fn view(reference: &Reference) -> streampool_runtime::Captured {
    reference.view(DType::F32, &[N]).unwrap()
}

fn captured_add(capture: &mut Capture, from: &Reference, to: &Reference, amount: f32) {
    capture
        .encode(Op::Map {
            expr: plus(amount),
            inputs: vec![view(from)],
            outputs: vec![view(to)],
        })
        .unwrap();
}

/// `output = input + 1 + 2`, by way of scratch.
fn add_three(stream: &Stream) -> Program {
    add_three_in(Capture::new(stream))
}

fn add_three_in(mut capture: Capture) -> Program {
    let input = capture.input(BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    let scratch = capture.scratch(BYTES).unwrap();
    captured_add(&mut capture, &input, &scratch, 1.0);
    captured_add(&mut capture, &scratch, &output, 2.0);
    capture.finish().unwrap()
}

/// The result of a replay over a new input of this value.
fn replay(stream: &Stream, program: &Program, value: f32) -> f32 {
    let (input, mut output) = (filled(stream, value), buffer(stream));
    stream
        .replay(program, &[&input], &mut [&mut output])
        .unwrap();
    drop(input);
    value_of(stream, &output).unwrap()
}

#[test]
fn capturing_executes_nothing_and_replaying_binds_anew_each_time() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let program = add_three(stream);
    assert_eq!(program.ops(), 2);
    assert_eq!(program.inputs().collect::<Vec<_>>(), [BYTES]);
    assert_eq!(program.outputs().collect::<Vec<_>>(), [BYTES]);
    assert!(program.bytes() >= BYTES);
    let made = pool.snapshot().unwrap().made;
    assert_eq!((made[0].ops, made[0].encoded), (0, 0));
    for value in 0..10 {
        assert_eq!(replay(stream, &program, value as f32), value as f32 + 3.0);
    }
    // On a stream other than that of its scratch, too.
    assert_eq!(replay(pool.stream(2).unwrap(), &program, 7.0), 10.0);
    drop(program);
    pool.synchronize().unwrap();
    let memory = pool.snapshot().unwrap().memory;
    assert_eq!((memory.in_use, memory.pending), (0, 0));
}

#[test]
fn a_program_that_keeps_its_ops_is_replayed_one_by_one() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let mut capture = Capture::new(stream);
    capture.keep_ops();
    let (kept, other) = (add_three_in(capture), add_three(stream));
    for (program, commands) in [(&kept, 2), (&other, 1)] {
        for (stream, value) in [(1, 4.0), (2, 5.0)] {
            let stream = pool.stream(stream).unwrap();
            let (input, mut output) = (filled(stream, value), buffer(stream));
            let stamps = stream.replay_each(program, &[&input], &mut [&mut output]);
            let ticks: Vec<u64> = stamps.unwrap().iter().map(|stamp| stamp.tick).collect();
            assert_eq!(ticks.len(), commands);
            assert!(ticks.is_sorted());
            assert_eq!(value_of(stream, &output).unwrap(), value + 3.0);
        }
    }
    let (short, mut output) = (stream.allocate(BYTES / 2).unwrap(), buffer(stream));
    assert!(matches!(
        stream.replay_each(&kept, &[&short], &mut [&mut output]),
        Err(Error::WrongBinding { .. })
    ));
}

#[test]
fn eight_threads_replay_one_program_at_once() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 16);
        device
            .injector()
            .random_delays(11, Duration::from_micros(50));
        let program = add_three(pool.stream(15).unwrap());
        let all_here = Barrier::new(8);
        on_threads(8, |number| {
            let stream = pool.current().unwrap();
            all_here.wait();
            for round in 0..rounds(60) {
                let value = (number * 1000 + round) as f32;
                // The scratch is one for all: whoever comes between would spoil the sum.
                assert_eq!(replay(stream, &program, value), value + 3.0);
            }
        });
        drop(program);
        assert_all_returned(&pool);
    });
}

#[test]
fn replays_in_flight_keep_their_program_and_buffers() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let gate = Gate::new(&device);
        let (stream, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let program = add_three(other);
        gate.hold(stream);
        let (input, mut output) = (filled(stream, 1.0), buffer(stream));
        stream
            .replay(&program, &[&input], &mut [&mut output])
            .unwrap();
        drop((program, input));
        // Whoever takes the memory of scratch or input must not get it before the replay is over.
        let taken: Vec<Buffer> = (0..8).map(|_| filled(other, 50.0)).collect();
        other.synchronize().unwrap();
        gate.open_all();
        assert_eq!(value_of(stream, &output), Ok(4.0));
        drop(taken);
    });
}

#[test]
fn a_replay_is_ordered_with_what_other_streams_do() {
    let device = device();
    let pool = pool(&device, 8);
    let gate = Gate::new(&device);
    let stream = |index| pool.stream(index).unwrap();
    let program = add_three(stream(1));
    gate.hold(stream(2));
    let mut input = filled(stream(2), 1.0);
    let (mut middle, mut output) = (buffer(stream(3)), buffer(stream(4)));
    stream(3)
        .replay(&program, &[&input], &mut [&mut middle])
        .unwrap();
    stream(4)
        .replay(&program, &[&middle], &mut [&mut output])
        .unwrap();
    // A write after the replay's read waits for it.
    fill(stream(5), &mut input, 100.0).unwrap();
    for index in [3, 4, 5] {
        stream(index).flush().unwrap();
        assert!(!stream(index).is_idle());
    }
    gate.open_all();
    assert_eq!(value_of(stream(6), &output), Ok(7.0));
    assert_eq!(value_of(stream(6), &middle), Ok(4.0));
    assert_eq!(value_of(stream(6), &input), Ok(100.0));
}

#[test]
fn a_program_can_be_used_while_a_replay_waits_for_a_poisoned_stream() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let gate = Gate::new(&device);
        let stream = |index| pool.stream(index).unwrap();
        let (slow, poisoned, third) = (stream(1), stream(2), stream(3));
        let program = add_three(third);
        let (input, mut shared) = (filled(third, 1.0), filled(third, 1.0));
        third.synchronize().unwrap();
        gate.hold(slow);
        let mut seen = buffer(slow);
        copy(slow, &shared, &mut seen).unwrap();
        // The replay is skipped, and all the same it is after what the write before it waits for.
        gate.hold(poisoned);
        let nop = OpMatcher::any().on_queue(2).of_kind(OpKind::Nop);
        device.injector().fail_op(nop, 1, "broken on purpose");
        poisoned.encode(Op::Nop).unwrap();
        fill(poisoned, &mut shared, 2.0).unwrap();
        let mut skipped = buffer(poisoned);
        poisoned
            .replay(&program, &[&input], &mut [&mut skipped])
            .unwrap();
        gate.open(poisoned);
        until("the fault", || poisoned.fault().is_some());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| replay(third, &program, 7.0));
            // Time enough for the replay to wait.
            std::thread::sleep(Duration::from_millis(50));
            let (told, hears) = std::sync::mpsc::channel();
            let program = &program;
            scope.spawn(move || told.send(program.bytes()));
            let heard = hears.recv_timeout(Duration::from_secs(10));
            let too_early = waits.is_finished();
            gate.open_all();
            assert!(heard.is_ok(), "who uses the program waits for a stream");
            assert!(!too_early, "replayed while its memory is used");
            assert_eq!(join(waits), 10.0);
        });
    });
}

#[test]
fn a_constant_lives_as_long_as_the_program() {
    let device = device();
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let weights = Arc::new(filled(stream, 40.0));
    let weak = Arc::downgrade(&weights);
    let mut capture = Capture::new(stream);
    let output = capture.output(BYTES).unwrap();
    let constant = capture.constant(&weights).unwrap();
    captured_add(&mut capture, &constant, &output, 2.0);
    let program = capture.finish().unwrap();
    drop(weights);
    let noise: Vec<Buffer> = (0..8).map(|_| filled(stream, -1.0)).collect();
    let mut result = buffer(stream);
    stream.replay(&program, &[], &mut [&mut result]).unwrap();
    assert_eq!(value_of(stream, &result), Ok(42.0));
    assert!(weak.upgrade().is_some());
    drop((program, noise));
    assert!(weak.upgrade().is_none());
}

/// `output = input @ weights`, both square.
fn product_with(stream: &Stream, weights: &Arc<Buffer>) -> Result<Program, Error> {
    let side = N.isqrt();
    let mut capture = Capture::new(stream);
    let input = capture.input(BYTES)?;
    let output = capture.output(BYTES)?;
    let constant = capture.constant(weights)?;
    let square = |reference: &Reference| reference.view(DType::F32, &[side, side]);
    capture.encode(Op::MatMul(MatMul {
        a: square(&input)?,
        b: square(&constant)?,
        out: square(&output)?,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }))?;
    capture.finish()
}

#[test]
fn a_capture_waits_for_what_writes_its_constants() {
    let device = device();
    let pool = pool(&device, 4);
    let (writer, stream) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let delay = Duration::from_millis(20);
    device
        .injector()
        .delay_queue(u32::from(writer.index()), delay);
    let weights = Arc::new(filled(writer, 3.0));
    let program = product_with(stream, &weights).unwrap();
    assert!(writer.is_idle());
    device.injector().clear();
    let (input, mut output) = (filled(stream, 2.0), filled(stream, 0.0));
    stream
        .replay(&program, &[&input], &mut [&mut output])
        .unwrap();
    let wanted = 6.0 * N.isqrt() as f32;
    assert_eq!(value_of(stream, &output), Ok(wanted));
}

#[test]
fn a_fault_in_a_constant_is_the_captures() {
    let device = device();
    let pool = pool(&device, 4);
    let (writer, stream) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let which = streampool_host::OpMatcher::any().on_queue(u32::from(writer.index()));
    device.injector().fail_op(which, 1, "broken on purpose");
    let weights = Arc::new(filled(writer, 3.0));
    let refused = product_with(stream, &weights).map(drop);
    assert!(matches!(refused, Err(Error::Dependency(_))), "{refused:?}");
    let weights = Arc::new(filled(stream, 3.0));
    assert!(product_with(stream, &weights).is_ok());
}

#[test]
fn wrong_bindings_are_refused_and_leave_the_stream_usable() {
    let device = device();
    let (pool, other) = (pool(&device, 4), pool(&device, 4));
    let (stream, foreign) = (pool.stream(1).unwrap(), other.stream(1).unwrap());
    let program = add_three(stream);
    let (input, mut output) = (filled(stream, 1.0), buffer(stream));
    let (mut small, foreign_input) = (stream.allocate(BYTES - 4).unwrap(), filled(foreign, 1.0));

    let none = stream.replay(&program, &[], &mut [&mut output]);
    let many = stream.replay(&program, &[&input, &input], &mut [&mut output]);
    let no_output = stream.replay(&program, &[&input], &mut []);
    let short = stream.replay(&program, &[&input], &mut [&mut small]);
    for (outcome, what) in [
        (none, "input"),
        (many, "input"),
        (no_output, "output"),
        (short, "output"),
    ] {
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::WrongBinding { what: w, .. } if w == what),
            "{error}"
        );
    }
    assert_eq!(
        stream.replay(&program, &[&foreign_input], &mut [&mut output]),
        Err(Error::ForeignBuffer)
    );
    assert_eq!(
        foreign.replay(&program, &[&foreign_input], &mut []),
        Err(Error::ForeignProgram)
    );
    assert_eq!(replay(stream, &program, 1.0), 4.0);
    assert_eq!(foreign.synchronize(), Ok(()));
}

#[test]
fn a_capture_refuses_what_is_not_its_own_and_what_it_may_not_write() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let mut capture = Capture::new(stream);
    let mut other = Capture::new(stream);
    let input = capture.input(BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    let weights = Arc::new(filled(stream, 1.0));
    let constant = capture.constant(&weights).unwrap();
    let foreign = other.output(BYTES).unwrap();
    for read_only in [&input, &constant] {
        let outcome = capture.encode(Op::Copy {
            src: view(&output),
            dst: view(read_only),
        });
        assert!(matches!(
            outcome,
            Err(Error::NotWritable {
                argument: "dst",
                ..
            })
        ));
    }
    let outcome = capture.encode(Op::Copy {
        src: view(&input),
        dst: view(&foreign),
    });
    assert!(matches!(
        outcome,
        Err(Error::ForeignSlot {
            argument: "dst",
            ..
        })
    ));
    let outcome = capture.encode(Op::Copy {
        src: view(&output),
        dst: view(&output),
    });
    assert!(outcome.is_err(), "a copy onto itself");
    assert!(output.view(DType::F32, &[N + 1]).is_err());
    captured_add(&mut capture, &input, &output, 1.0);
    let program = capture.finish().unwrap();
    assert_eq!(program.ops(), 1);
    assert_eq!(replay(stream, &program, 1.0), 2.0);
}

#[test]
fn a_program_of_wrong_ops_is_an_error_and_the_stream_goes_on() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let mut capture = Capture::new(stream);
    let view = capture.output(N * 4).unwrap().view(DType::F32, &[N]);
    let (axis, log) = (1, false);
    let (src, dst) = (view.clone().unwrap(), view.unwrap());
    let wrong = capture.encode(Op::Softmax {
        src,
        dst,
        axis,
        log,
    });
    let error = wrong.and(capture.finish().map(drop)).unwrap_err();
    assert!(error.to_string().contains("softmax"), "{error}");
    let program = add_three(stream);
    assert_eq!(replay(stream, &program, 0.0), 3.0);
}

#[test]
fn a_fault_inside_a_replay_names_it() {
    let device = device();
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let program = add_three(stream);
    let which = streampool_host::OpMatcher::any().of_kind(streampool_runtime::OpKind::Map);
    device.injector().fail_op(which, 2, "broken on purpose");
    let (input, mut output) = (filled(stream, 1.0), buffer(stream));
    stream
        .replay(&program, &[&input], &mut [&mut output])
        .unwrap();
    let error = stream.synchronize().unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.op(), streampool_runtime::OpKind::Replay);
    assert!(fault.message().contains("broken on purpose"), "{fault}");
    stream.recover().unwrap();
    assert_eq!(replay(stream, &program, 1.0), 4.0);
}

#[test]
fn an_updated_buffer_is_read_and_written() {
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let mut capture = Capture::new(stream);
    let state = capture.updated(2 * BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    let first = state.part(0, BYTES).unwrap();
    captured_add(&mut capture, &first, &output, 1.0);
    let second = state.part(BYTES, BYTES).unwrap();
    captured_add(&mut capture, &first, &second, 5.0);
    let program = capture.finish().unwrap();
    assert_eq!(program.outputs().collect::<Vec<_>>(), [2 * BYTES, BYTES]);
    let mut state = stream.allocate(2 * BYTES).unwrap();
    stream
        .upload(&mut state, &[[7f32; N], [0f32; N]].concat())
        .unwrap();
    let mut output = buffer(stream);
    // On another stream: it waits for what was there before.
    let other = pool.stream(2).unwrap();
    other
        .replay(&program, &[], &mut [&mut state, &mut output])
        .unwrap();
    assert_eq!(value_of(other, &output).unwrap(), 8.0);
    let both = other.download::<f32>(&state).unwrap();
    assert_eq!(both, [[7f32; N], [12f32; N]].concat());
}

#[test]
fn an_updated_buffer_whose_contents_failed_is_refused() {
    let device = device();
    let pool = pool(&device, 4);
    let (stream, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let mut capture = Capture::new(other);
    let state = capture.updated(BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    captured_add(&mut capture, &state, &output, 1.0);
    let program = capture.finish().unwrap();
    let mut state = filled(stream, 1.0);
    stream.synchronize().unwrap();
    let which = OpMatcher::any().of_kind(OpKind::Fill);
    device.injector().fail_op(which, 1, "planted");
    let failing = Op::Fill {
        dst: state.write(DType::F32, &[N]).unwrap(),
        value: 2.0f32.into(),
    };
    let failed = stream.encode(failing).and_then(|_| stream.synchronize());
    assert!(failed.is_err());
    let mut output = buffer(other);
    let replayed = other.replay(&program, &[], &mut [&mut state, &mut output]);
    assert!(
        matches!(replayed, Err(Error::Dependency(_))),
        "{replayed:?}"
    );
}
