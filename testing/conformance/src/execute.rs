//! An op is executed on the device under test, and its results are compared.

use streampool_device::{Error, Op, View};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::operand::Operand;

/// An op that names its operands by their index, and these.
pub(crate) type Example = (Op<usize>, Vec<Operand>);

/// What an op does on the device is what the reference says, and nothing else is written.
///
/// `op` names its operands by their index in `operands`.
pub(crate) fn check(fixture: &Fixture, lane: &mut Lane, op: &Op<usize>, operands: &[Operand]) {
    if fixture.tries()
        && let Some(mut got) = execute(fixture, lane, op, operands)
    {
        let case = Case::new(op.clone(), operands.to_vec());
        let checked = case.check(|span| std::mem::take(&mut got[span.handle as usize]));
        checked.unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Checks that the device does not support the op in this form, and says so.
pub(crate) fn refused(fixture: &Fixture, lane: &mut Lane, op: &Op<usize>, operands: &[Operand]) {
    let op = placed(op, &uploaded(fixture, lane, operands));
    match lane.encode(&op) {
        Err(Error::Unsupported { op: kind, .. }) => assert_eq!(kind, op.kind()),
        other => panic!("{op:?} was not refused: {other:?}"),
    }
}

/// The bytes of each operand after the op; `None` if the hardware lacks a type that it needs.
fn execute(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Option<Vec<Vec<u8>>> {
    let views = uploaded(fixture, lane, operands);
    let device_op = placed(op, &views);
    match lane.encode(&device_op) {
        Ok(_) => {}
        Err(Error::Unsupported { .. }) if fixture.may_refuse(&device_op) => return None,
        Err(error) => panic!("{device_op:?} was refused: {error}"),
    }
    let landings: Vec<_> = views
        .iter()
        .map(|view| lane.download(view.span()).expect("the download is right"))
        .collect();
    if let Err(error) = lane.try_sync() {
        panic!("{device_op:?} failed: {error}");
    }
    let bytes = landings.iter().map(|landing| landing.read::<u8>());
    Some(bytes.collect())
}

/// The operands on the device.
fn uploaded(fixture: &Fixture, lane: &mut Lane, operands: &[Operand]) -> Vec<View> {
    operands
        .iter()
        .map(|operand| {
            let span = fixture.span(operand.bytes().len());
            lane.upload(span, operand.bytes())
                .expect("the upload is right");
            View::new(span, operand.dtype, operand.layout).expect("it is in bounds")
        })
        .collect()
}

/// The op over these views.
fn placed(op: &Op<usize>, views: &[View]) -> Op {
    op.try_map(|_, _, &index| Ok::<_, ()>(views[index]))
        .expect("the mapping cannot fail")
}

/// How an op ends that may be a fault.
pub(crate) fn outcome(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> streampool_device::Result<()> {
    let views = uploaded(fixture, lane, operands);
    lane.run(&placed(op, &views));
    lane.try_sync()
}

/// The bytes an op writes, for tests that compare two executions bit by bit.
pub(crate) fn bits(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Vec<Vec<u8>> {
    execute(fixture, lane, op, operands).expect("a type that the device has")
}

/// The operands after an op that did what the reference says, and nothing else.
pub(crate) fn executed(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Vec<Operand> {
    let got = bits(fixture, lane, op, operands);
    let case = Case::new(op.clone(), operands.to_vec());
    let checked = case.check(|span| got[span.handle as usize].clone());
    checked.unwrap_or_else(|why| panic!("{why}"));
    let mut after = operands.to_vec();
    for (operand, bytes) in after.iter_mut().zip(got) {
        operand.replace(bytes);
    }
    after
}
