//! Ops that a device does not execute.

use streampool_device::{Error, Op, OpKind};

use crate::build::fill;
use crate::fixture::Fixture;

const NAMED_ONLY: [Op; 13] = [
    Op::Attention,
    Op::Conv,
    Op::Pool,
    Op::Resize,
    Op::Gather,
    Op::Scatter,
    Op::Scan,
    Op::Sort,
    Op::Random,
    Op::Rnn,
    Op::Linalg,
    Op::Histogram,
    Op::NonZero,
];

/// An op that the device says it does not support is refused with its name, and the queue goes on.
pub fn unsupported_ops_are_refused_by_name(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut appended = 0;
    for op in NAMED_ONLY {
        if fixture.device().supports(op.kind()) {
            continue;
        }
        refused(fixture, lane.encode(&op), op.kind());
        appended += 1;
        assert_eq!(
            lane.encode(&Op::Nop),
            Ok(appended),
            "nothing was left behind"
        );
    }
    lane.sync();
}

/// The same holds inside a capture, which goes on.
pub fn unsupported_ops_are_refused_while_capturing(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[4]);
    lane.begin_capture().expect("a capture can begin");
    lane.run(&fill(view, 3.0));
    for op in NAMED_ONLY {
        if !fixture.device().supports(op.kind()) {
            refused(fixture, lane.encode(&op), op.kind());
        }
    }
    let program = lane.end_capture(&[]).expect("the capture can end");
    assert_eq!(program.ops(), 1);
    lane.replay(&program, &[]).expect("it can be replayed");
    assert_eq!(lane.get::<f32>(view), [3.0; 4]);
}

/// Every device executes nothing, copies, fills and counts.
pub fn the_simplest_ops_are_supported(fixture: &Fixture) {
    for op in [
        OpKind::Nop,
        OpKind::Copy,
        OpKind::Fill,
        OpKind::Iota,
        OpKind::Map,
    ] {
        assert!(fixture.device().supports(op), "{op}");
    }
}

fn refused(fixture: &Fixture, result: streampool_device::Result<u64>, kind: OpKind) {
    match result {
        Err(Error::Unsupported { device, op, why }) => {
            assert_eq!(op, kind);
            assert_eq!(device, fixture.device().properties().name);
            assert!(!why.is_empty());
        }
        other => panic!("{kind}: expected Unsupported, got {other:?}"),
    }
}
