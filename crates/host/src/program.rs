//! Programs: captured ops, and where in them the slots are.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;

use streampool_device::{Error, Op, OpKind, Program, Result, Span, View};

use crate::core::Core;
use crate::cost;
use crate::memory::ALIGNMENT;

/// A captured program of the host device.
pub(crate) struct HostProgram(Arc<Body>);

/// What a program and its replays under way share.
struct Body {
    core: Arc<Core>,
    ops: Box<[Captured]>,
    slots: Box<[Span]>,
    sizes: Box<[usize]>,
    cost: u64,
}

struct Captured {
    op: Op,
    /// Whether an operand lies in a slot.
    bound: bool,
}

/// A program with its slots bound, as a queue holds it.
pub(crate) struct Replay {
    body: Arc<Body>,
    slots: Box<[Span]>,
}

impl HostProgram {
    pub(crate) fn new(core: Arc<Core>, ops: Vec<Op>, slots: &[Span]) -> Self {
        let cost = ops.iter().map(cost::estimate).fold(0, u64::saturating_add);
        let ops = ops
            .into_iter()
            .map(|op| {
                let mut bound = false;
                op.for_each_operand(|_, _, view| bound |= slot_of(view, slots).is_some());
                Captured { op, bound }
            })
            .collect();
        HostProgram(Arc::new(Body {
            core,
            ops,
            slots: slots.into(),
            sizes: slots.iter().map(|slot| slot.bytes).collect(),
            cost,
        }))
    }
}

impl Program for HostProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn ops(&self) -> usize {
        self.0.ops.len()
    }

    fn slots(&self) -> &[usize] {
        &self.0.sizes
    }

    fn bytes(&self) -> usize {
        size_of::<Body>() + size_of_val(&*self.0.ops) + 2 * size_of_val(&*self.0.slots)
    }
}

impl Replay {
    /// Binds the slots of `program`, which must be one of this device.
    pub(crate) fn new(program: &dyn Program, slots: &[Span], core: &Arc<Core>) -> Result<Self> {
        let body = program
            .as_any()
            .downcast_ref::<HostProgram>()
            .map(|program| &program.0)
            .filter(|body| Arc::ptr_eq(&body.core, core))
            .ok_or_else(|| Error::Foreign {
                what: "a program",
                device: core.properties.name.clone(),
            })?;
        body.check(slots)?;
        Ok(Replay {
            body: Arc::clone(body),
            slots: slots.into(),
        })
    }

    /// About how long it takes, in nanoseconds.
    pub(crate) fn cost(&self) -> u64 {
        self.body.cost
    }

    /// Calls `execute` with each op, bound, until one fails.
    pub(crate) fn execute(
        &self,
        mut execute: impl FnMut(&Op) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        for (index, captured) in self.body.ops.iter().enumerate() {
            let done = if captured.bound {
                execute(&self.bind(&captured.op))
            } else {
                execute(&captured.op)
            };
            done.map_err(|why| {
                let (kind, count) = (captured.op.kind(), self.body.ops.len());
                format!("{kind}, op {} of {count}: {why}", index + 1)
            })?;
        }
        Ok(())
    }

    fn bind(&self, op: &Op) -> Op {
        let bound = op.try_map(|_, _, view| {
            let Some(slot) = slot_of(view, &self.body.slots) else {
                return Ok::<View, Infallible>(*view);
            };
            let (captured, given, span) = (&self.body.slots[slot], &self.slots[slot], view.span());
            Ok(view.rebased(Span {
                handle: given.handle,
                offset: given.offset + (span.offset - captured.offset),
                bytes: span.bytes,
            }))
        });
        match bound {
            Ok(op) => op,
        }
    }
}

impl Body {
    fn check(&self, slots: &[Span]) -> Result<()> {
        let invalid = |got: String, expected: String| Error::InvalidOp {
            op: OpKind::Replay,
            argument: "slots",
            got,
            expected,
        };
        if slots.len() != self.slots.len() {
            let expected = format!("{}, one for each slot", self.slots.len());
            return Err(invalid(format!("{} spans", slots.len()), expected));
        }
        for (index, (given, captured)) in slots.iter().zip(&self.slots).enumerate() {
            if given.bytes < captured.bytes {
                return Err(invalid(
                    format!("{} bytes for slot {index}", given.bytes),
                    format!("at least {}", captured.bytes),
                ));
            }
            let alignment = alignment_of(captured);
            if !address(given).is_multiple_of(alignment) {
                return Err(invalid(
                    format!("at address {:#x} for slot {index}", address(given)),
                    format!("a multiple of {alignment}, as when it was captured"),
                ));
            }
        }
        Ok(())
    }
}

fn address(span: &Span) -> usize {
    span.handle as usize + span.offset
}

/// The alignment a span happens to have, as far as allocations are aligned.
fn alignment_of(span: &Span) -> usize {
    1 << address(span)
        .trailing_zeros()
        .min(ALIGNMENT.trailing_zeros())
}

fn slot_of(view: &View, slots: &[Span]) -> Option<usize> {
    slots.iter().position(|slot| slot.contains(&view.span()))
}

#[cfg(test)]
mod tests {
    use streampool_device::Queue;

    use super::*;
    use crate::OpMatcher;
    use crate::testing::{Buffer, device, encode, queue};

    fn replay(queue: &mut dyn Queue, program: &Arc<dyn Program>, slots: &[Span]) -> Result<u64> {
        // SAFETY: the tests keep the buffers and order what conflicts.
        unsafe { queue.replay(program, slots) }
    }

    #[test]
    fn slots_are_bound_anew_and_the_rest_stays() {
        let device = device(2);
        let [constant, input, output] = [4, 4, 8].map(|elements| Buffer::new(&device, elements));
        let mut lane = queue(&device, 0);
        encode(&mut *lane, &constant.fill(5.0));
        assert_eq!(constant.read(&mut *lane), [5.0; 4]);
        lane.begin_capture().unwrap();
        let half = |buffer: &Buffer, which: usize| {
            let span = buffer.span().part(which * 16, 16).unwrap();
            View::new(span, input.view().dtype(), *input.view().layout()).unwrap()
        };
        for (src, which) in [(input.view(), 0), (constant.view(), 1)] {
            let dst = half(&output, which);
            encode(&mut *lane, &Op::Copy { src, dst });
        }
        let program = lane.end_capture(&[input.span(), output.span()]).unwrap();
        assert_eq!((program.ops(), program.slots()), (2, &[16, 32][..]));
        drop(lane);
        std::thread::scope(|scope| {
            for index in 1..5u8 {
                let (device, program) = (&device, &program);
                scope.spawn(move || {
                    let mut lane = queue(device, u32::from(index));
                    let [input, output] = [4, 8].map(|elements| Buffer::new(device, elements));
                    encode(&mut *lane, &input.fill(f32::from(index)));
                    for _ in 0..50 {
                        encode(&mut *lane, &output.fill(0.0));
                        replay(&mut *lane, program, &[input.span(), output.span()]).unwrap();
                        let read = output.read(&mut *lane);
                        assert_eq!(
                            (&read[..4], &read[4..]),
                            (&[f32::from(index); 4][..], &[5.0; 4][..])
                        );
                    }
                });
            }
        });
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (device, other) = (device(1), device(1));
        let a = Buffer::new(&device, 64);
        let mut lane = queue(&device, 0);
        lane.begin_capture().unwrap();
        encode(&mut *lane, &a.fill(1.0));
        let slot = a.span().part(0, 256).unwrap();
        let program = lane.end_capture(&[slot]).unwrap();
        let short = Buffer::new(&device, 63);
        let long = Buffer::new(&device, 65);
        let crooked = long.span().part(4, 256).unwrap();
        for slots in [&[][..], &[slot, slot], &[short.span()], &[crooked]] {
            assert!(matches!(
                replay(&mut *lane, &program, slots),
                Err(Error::InvalidOp { .. })
            ));
        }
        let mut foreign = queue(&other, 0);
        assert!(matches!(
            replay(&mut *foreign, &program, &[slot]),
            Err(Error::Foreign { .. })
        ));
        assert!(replay(&mut *lane, &program, &[long.span()]).is_ok());
        lane.progress().wait(1, None).unwrap();
    }

    #[test]
    fn the_fault_of_an_op_is_the_replays() {
        let device = device(1);
        let a = Buffer::new(&device, 4);
        let mut lane = queue(&device, 0);
        lane.begin_capture().unwrap();
        encode(&mut *lane, &Op::Nop);
        encode(&mut *lane, &a.fill(1.0));
        let program = lane.end_capture(&[]).unwrap();
        device
            .injector()
            .fail_op(OpMatcher::any().of_kind(OpKind::Fill), 1, "boom");
        let tick = replay(&mut *lane, &program, &[]).unwrap();
        assert!(lane.progress().wait(tick, None).is_err());
        let fault = lane.progress().fault().unwrap();
        assert_eq!((fault.op(), fault.tick()), (OpKind::Replay, tick));
        assert_eq!(fault.message(), "fill, op 2 of 2: boom");
    }
}
