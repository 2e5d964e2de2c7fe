//! Which ops a device executes.

use streampool_device::{Error, Op, OpKind};

use crate::build::fill;
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::samples::samples;

/// An op that the device says it does not support is refused with its name, and the queue goes on.
pub fn unsupported_ops_are_refused_by_name(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let unsupported = unsupported(fixture, &mut lane);
    let mut appended = lane.encode(&Op::Nop).expect("it does nothing");
    for op in unsupported {
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
    let unsupported = unsupported(fixture, &mut lane);
    lane.begin_capture().expect("a capture can begin");
    lane.run(&fill(view, 3.0));
    for op in unsupported {
        refused(fixture, lane.encode(&op), op.kind());
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

/// Every op that the device says it supports can be captured and replayed, as often as one likes.
pub fn every_supported_op_is_captured(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut ops = samples(fixture, &mut lane);
    ops.retain(|op| fixture.device().supports(op.kind()));
    lane.begin_capture().expect("a capture can begin");
    for op in &ops {
        lane.run(op);
    }
    let program = lane.end_capture(&[]).expect("the capture can end");
    assert_eq!(program.ops(), ops.len());
    for _ in 0..3 {
        lane.replay(&program, &[]).expect("it can be replayed");
    }
    lane.sync();
}

fn unsupported(fixture: &Fixture, lane: &mut Lane) -> Vec<Op> {
    let mut ops = samples(fixture, lane);
    ops.retain(|op| !fixture.device().supports(op.kind()));
    ops
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
