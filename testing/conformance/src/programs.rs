//! Programs: capture, replay, slots, and what is refused.

use std::sync::Arc;

use streampool_device::{Error, Flush, MatMul, Op, OpKind, Program, Span, View};

use crate::build::{Load, add, affine, copy, fill, matmul};
use crate::fixture::Fixture;
use crate::lane::{Lane, end_capture};

/// What is captured is not executed, takes no tick, and is replayed any number of times.
pub fn captured_ops_run_at_replay(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[100]);
    assert_eq!(lane.run(&fill(view, 1.0)), 1);
    lane.begin_capture().expect("a capture can begin");
    assert_eq!(
        lane.encode(&affine(view, 2.0, 0.0)),
        Ok(1),
        "the last real command's tick"
    );
    assert_eq!(lane.encode(&add(view, 1.0)), Ok(1));
    let program = lane.end_capture(&[]).expect("the capture can end");
    assert_eq!((program.ops(), program.slots()), (2, &[][..]));
    assert!(program.bytes() > 0);
    assert_eq!(
        lane.get::<f32>(view),
        [1.0; 100],
        "capturing did not execute"
    );
    for _ in 0..3 {
        lane.replay(&program, &[]).expect("it can be replayed");
    }
    assert_eq!(lane.get::<f32>(view), [15.0; 100]);
    let mut elsewhere = fixture.lane();
    elsewhere
        .replay(&program, &[])
        .expect("any queue replays it");
    assert_eq!(elsewhere.get::<f32>(view), [31.0; 100]);
}

/// A capture may be empty; its replay does nothing, in order.
pub fn an_empty_program_replays(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let program = lane.capture(&[], &[]);
    assert_eq!(program.ops(), 0);
    assert_eq!(lane.replay(&program, &[]), Ok(1));
    lane.sync();
    assert_eq!(lane.progress().completed(), 1);
}

/// Spans within a slot are bound anew at each replay; the others stay.
pub fn slots_are_bound_at_replay(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (source, target) = (fixture.tensor::<i32>(&[64]), fixture.tensor::<i32>(&[64]));
    let fixed = fixture.tensor::<i32>(&[64]);
    let ops = [copy(source, target), add(target, 1.0), copy(target, fixed)];
    let program = lane.capture(&ops, &[source.span(), target.span()]);
    assert_eq!(program.slots(), [256, 256]);
    for round in 0..10 {
        let (from, to) = (fixture.tensor::<i32>(&[64]), fixture.tensor::<i32>(&[64]));
        lane.put(from, &[round; 64]);
        lane.put(target, &[-5; 64]);
        lane.replay(&program, &[from.span(), to.span()])
            .expect("it can be replayed");
        assert_eq!(lane.get::<i32>(to), [round + 1; 64]);
        assert_eq!(lane.get::<i32>(fixed), [round + 1; 64]);
        assert_eq!(
            lane.get::<i32>(target),
            [-5; 64],
            "the captured memory is left alone"
        );
    }
}

/// A slot may hold many views at many offsets, and be bound at an offset of longer memory.
pub fn slots_keep_the_places_within_them(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let slot = fixture.span(4 * 48);
    let part = |base: Span, number: usize| {
        let layout = streampool_device::Layout::strided(&[4, 2], &[-2, 1], 6).expect("it is right");
        let span = base.part(number * 64, 32).expect("inside");
        View::new(span, streampool_device::DType::F32, layout).expect("in bounds")
    };
    let ops: Vec<Op> = (0..3)
        .map(|number| fill(part(slot, number), number as f64))
        .collect();
    let program = lane.capture(&ops, &[slot]);
    let align = fixture.device().properties().alignment;
    let memory = fixture.span(align + 4 * 48 + 64);
    lane.upload(memory, &vec![0xff; memory.bytes])
        .expect("it fits");
    let bound = memory.part(align, 4 * 48 + 64).expect("inside");
    lane.replay(&program, &[bound])
        .expect("a longer span is bound");
    let landing = lane.download(memory).expect("the sizes agree");
    lane.sync();
    let mut expected = vec![0xff; memory.bytes];
    for number in 0..3 {
        let value = (number as f32).to_le_bytes();
        for element in 0..8 {
            expected[align + number * 64 + element * 4..][..4].copy_from_slice(&value);
        }
    }
    assert_eq!(landing.read::<u8>(), expected);
}

/// One span may be bound to several slots that are only read.
pub fn one_span_may_fill_two_reading_slots(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (one, two) = (fixture.tensor::<f32>(&[16]), fixture.tensor::<f32>(&[16]));
    let (first, second) = (fixture.tensor::<f32>(&[16]), fixture.tensor::<f32>(&[16]));
    let program = lane.capture(
        &[copy(one, first), copy(two, second)],
        &[one.span(), two.span()],
    );
    let bound = fixture.tensor::<f32>(&[16]);
    lane.put(bound, &[3.0f32; 16]);
    lane.replay(&program, &[bound.span(), bound.span()])
        .expect("it can be replayed");
    assert_eq!(lane.get::<f32>(first), [3.0; 16]);
    assert_eq!(lane.get::<f32>(second), [3.0; 16]);
}

/// While a queue captures, every other appending method is refused, and the capture goes on.
pub fn capturing_refuses_everything_else(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[4]);
    let event = fixture.event();
    let program = lane.capture(&[fill(view, 9.0)], &[]);
    lane.record(&*event).expect("an event can be recorded");
    lane.sync();
    lane.begin_capture().expect("a capture can begin");
    lane.run(&fill(view, 1.0));
    let refused = [
        ("upload", lane.upload(view.span(), &[0; 16]).map(drop)),
        ("download", lane.download(view.span()).map(drop)),
        ("record", lane.record(&*event).map(drop)),
        ("wait", lane.wait(&*event).map(drop)),
        ("on_complete", lane.on_complete(Box::new(|_| ())).map(drop)),
        ("replay", lane.replay(&program, &[]).map(drop)),
        ("begin_capture", lane.begin_capture()),
    ];
    for (call, result) in refused {
        assert!(
            matches!(result, Err(Error::Capturing(_))),
            "{call}: {result:?}"
        );
    }
    assert!(
        lane.encode(&copy(view, fixture.tensor::<f32>(&[5])))
            .is_err(),
        "ops are validated"
    );
    lane.run(&add(view, 1.0));
    let captured = lane.end_capture(&[]).expect("the capture can end");
    assert_eq!(captured.ops(), 2);
    lane.replay(&captured, &[]).expect("it can be replayed");
    assert_eq!(lane.get::<f32>(view), [2.0; 4]);
}

/// An op that does nothing orders those around it as any other does.
pub fn what_does_nothing_keeps_its_place(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (long, last) = (
        fixture.tensor::<f32>(&[1 << 18]),
        fixture.tensor::<f32>(&[1 << 18]),
    );
    let mut ops = vec![fill(long, 1.0)];
    for _ in 0..20 {
        ops.extend([Op::Nop, add(long, 1.0), Op::Nop, Op::Nop, copy(long, last)]);
    }
    let program = lane.capture(&ops, &[]);
    for _ in 0..3 {
        lane.replay(&program, &[]).expect("it can be replayed");
        let found = lane.get::<f32>(last);
        assert!(
            found.iter().all(|&value| value == 21.0),
            "{:?}",
            &found[..4]
        );
    }
}

/// Ending a capture never begun is refused, and the queue stays usable.
pub fn ending_no_capture_is_refused(fixture: &Fixture) {
    let mut lane = fixture.lane();
    assert!(matches!(lane.end_capture(&[]), Err(Error::NotCapturing)));
    drop(lane.capture(&[], &[]));
    assert!(matches!(lane.end_capture(&[]), Err(Error::NotCapturing)));
    lane.run(&Op::Nop);
    lane.sync();
}

/// A replay with too many or too few slots, or one too short or misaligned, is refused.
pub fn wrong_slots_are_refused(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let (view, long) = (fixture.tensor::<f32>(&[8]), fixture.tensor::<f32>(&[64]));
    let program = lane.capture(&[fill(view, 1.0)], &[view.span()]);
    let part = |offset, bytes| long.span().part(offset, bytes).expect("inside");
    let cases: [(&str, Vec<Span>); 5] = [
        ("none", vec![]),
        ("two", vec![view.span(), long.span()]),
        ("one too short", vec![part(0, 31)]),
        ("an empty one", vec![part(0, 0)]),
        ("one off its alignment", vec![part(1, 40)]),
    ];
    for (name, slots) in cases {
        match lane.replay(&program, &slots) {
            Err(Error::Invalid { .. } | Error::InvalidOp { .. }) => {}
            other => panic!("{name}: expected Invalid, got {other:?}"),
        }
    }
    assert_eq!(
        lane.replay(&program, &[long.span()]),
        Ok(1),
        "nothing was left behind"
    );
    assert_eq!(lane.get::<f32>(long)[..8], [1.0; 8]);
}

struct Stray;

impl Program for Stray {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn ops(&self) -> usize {
        0
    }
    fn slots(&self) -> &[usize] {
        &[]
    }
    fn bytes(&self) -> usize {
        0
    }
}

/// Programs of another device are refused.
pub fn foreign_programs_are_refused(fixture: &Fixture) {
    let mut programs: Vec<Arc<dyn Program>> = vec![Arc::new(Stray)];
    if let Some(other) = fixture.other() {
        let mut queue = other
            .create_queue(Default::default())
            .expect("a queue can be made");
        queue.begin_capture().expect("a capture can begin");
        programs.push(end_capture(&mut *queue, &[]).expect("the capture can end"));
    }
    let mut lane = fixture.lane();
    for program in programs {
        match lane.replay(&program, &[]) {
            Err(Error::Foreign { device, .. }) => {
                assert_eq!(device, fixture.device().properties().name);
            }
            other => panic!("expected Foreign, got {other:?}"),
        }
    }
    lane.run(&Op::Nop);
    lane.sync();
}

/// A replay keeps its place in the order of its queue and of events.
pub fn replays_keep_their_place(fixture: &Fixture) {
    let (mut lane, mut other) = (fixture.lane(), fixture.lane());
    let load = Load::new(fixture);
    let view = fixture.tensor::<f32>(&[16]);
    let event = fixture.event();
    let program = lane.capture(&[affine(view, 2.0, 1.0), affine(view, 0.5, 2.0)], &[]);
    let mut expected = 0.0;
    lane.run(&fill(view, 0.0));
    load.append(&mut lane, 2);
    for _ in 0..30 {
        lane.replay(&program, &[]).expect("it can be replayed");
        lane.record(&*event).expect("an event can be recorded");
        other.wait(&*event).expect("it was recorded");
        other.run(&add(view, 1.0));
        other.record(&*event).expect("an event can be recorded");
        lane.wait(&*event).expect("it was recorded");
        expected = (expected * 2.0 + 1.0) * 0.5 + 3.0;
    }
    other.flush(Flush::Start).expect("a flush succeeds");
    assert_eq!(lane.get::<f32>(view), [expected; 16]);
}

/// One program replays on many queues at the same time, each with its own memory, while new queues come to it.
pub fn eight_threads_replay_one_program(fixture: &Fixture) {
    let shape = [300];
    let (source, target) = (fixture.tensor::<f32>(&shape), fixture.tensor::<f32>(&shape));
    let ops = [
        copy(source, target),
        affine(target, 2.0, 1.0),
        add(target, 0.5),
    ];
    let program = fixture
        .lane()
        .capture(&ops, &[source.span(), target.span()]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (mut lane, program) = (fixture.lane(), &program);
            scope.spawn(move || {
                let (from, to) = (fixture.tensor::<f32>(&shape), fixture.tensor::<f32>(&shape));
                for round in 0..60 {
                    if round % 4 == 3 {
                        lane = fixture.lane();
                    }
                    let value = (thread * 100 + round) as f32;
                    lane.put(from, &[value; 300]);
                    lane.replay(program, &[from.span(), to.span()])
                        .expect("it can be replayed");
                    assert_eq!(lane.get::<f32>(to), [value * 2.0 + 1.5; 300]);
                }
            });
        }
    });
}

/// The rows, inner dimension and columns of products whose right operand is constant.
const PRODUCTS: [[usize; 3]; 4] = [[1, 300, 70], [20, 300, 70], [90, 270, 33], [40, 20, 5]];

/// Programs with constants compute what their ops do, on many queues at the same time. Memory that was constant for
/// programs that are gone may change: later ones compute with what is there then.
pub fn constants_hold_as_long_as_their_programs(fixture: &Fixture) {
    if !fixture.supports(OpKind::MatMul) {
        return;
    }
    for [m, k, n] in PRODUCTS {
        let (right, bias) = (fixture.tensor::<f32>(&[k, n]), fixture.tensor::<f32>(&[n]));
        let (left, out) = (
            fixture.tensor::<f32>(&[m, k]),
            fixture.tensor::<f32>(&[m, n]),
        );
        let product = match matmul(left, right, out) {
            Op::MatMul(product) => Op::MatMul(MatMul {
                bias: Some(bias),
                ..product
            }),
            other => other,
        };
        for round in 0..3 {
            // Small integers, so that sums are exact in any order.
            let numbers = |count: usize, step: usize| -> Vec<f32> {
                let number = |at: usize| ((at * step + round) % 7) as f32 - 3.0;
                (0..count).map(number).collect()
            };
            let (weights, biases) = (numbers(k * n, 5), numbers(n, 3));
            let mut lane = fixture.lane();
            lane.put(right, &weights);
            lane.put(bias, &biases);
            lane.sync();
            let constants = [right.span(), bias.span()];
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (mut lane, weights, biases) = (fixture.lane(), &weights, &biases);
                    let (product, slots) = (&product, [left.span(), out.span()]);
                    let rows = numbers(m * k, thread + 1);
                    scope.spawn(move || {
                        let program =
                            lane.capture_with(std::slice::from_ref(product), &slots, &constants);
                        assert!(program.bytes() > 0);
                        let from = fixture.tensor::<f32>(&[m, k]);
                        let to = fixture.tensor::<f32>(&[m, n]);
                        lane.put(from, &rows);
                        for _ in 0..5 {
                            lane.replay(&program, &[from.span(), to.span()])
                                .expect("it can be replayed");
                        }
                        let got = lane.get::<f32>(to);
                        for (at, got) in got.into_iter().enumerate() {
                            let (row, column) = (at / n, at % n);
                            let terms = (0..k)
                                .map(|step| rows[row * k + step] * weights[step * n + column]);
                            assert_eq!(
                                got,
                                biases[column] + terms.sum::<f32>(),
                                "at {row}, {column}"
                            );
                        }
                    });
                }
            });
        }
    }
}

/// A program dropped while its replay is under way still replays.
pub fn a_program_may_be_dropped_under_way(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let view = fixture.tensor::<f32>(&[16]);
    load.append(&mut lane, 4);
    let program = lane.capture(&[fill(view, 8.0)], &[]);
    lane.replay(&program, &[]).expect("it can be replayed");
    drop(program);
    assert_eq!(lane.get::<f32>(view), [8.0; 16]);
}

/// Other queues execute and complete while one captures, and queues capture at the same time.
pub fn a_capture_does_not_affect_others(fixture: &Fixture) {
    let mut capturing = fixture.lane();
    let held = fixture.tensor::<f32>(&[8]);
    capturing.begin_capture().expect("a capture can begin");
    capturing.run(&fill(held, 1.0));
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let mut lane = fixture.lane();
            scope.spawn(move || busy_and_capturing(fixture, &mut lane, thread));
        }
    });
    capturing.run(&add(held, 1.0));
    let program = capturing.end_capture(&[]).expect("the capture can end");
    assert_eq!(program.ops(), 2, "nobody else's op went into it");
    capturing.replay(&program, &[]).expect("it can be replayed");
    assert_eq!(capturing.get::<f32>(held), [2.0; 8]);
}

fn busy_and_capturing(fixture: &Fixture, lane: &mut Lane, thread: usize) {
    let view = fixture.tensor::<f32>(&[64]);
    for round in 0..40 {
        let value = (thread * 1000 + round) as f64;
        lane.run(&fill(view, value));
        assert_eq!(lane.get::<f32>(view), [value as f32; 64]);
        let program = lane.capture(&[add(view, 1.0)], &[]);
        assert_eq!(program.ops(), 1);
        lane.replay(&program, &[]).expect("it can be replayed");
        assert_eq!(lane.get::<f32>(view), [value as f32 + 1.0; 64]);
    }
}

/// Dropping a queue in the middle of a capture executes what was appended before it, and no more.
pub fn a_capturing_queue_may_be_dropped(fixture: &Fixture) {
    let view = fixture.tensor::<f32>(&[8]);
    let mut lane = fixture.lane();
    let tick = lane.run(&fill(view, 1.0));
    lane.begin_capture().expect("a capture can begin");
    lane.run(&fill(view, 2.0));
    let progress = lane.progress();
    drop(lane);
    progress
        .wait(tick, crate::patience::patience())
        .expect("it completes");
    assert_eq!(fixture.lane().get::<f32>(view), [1.0; 8]);
}
