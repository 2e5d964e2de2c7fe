//! Programs: captured ops, and where in them the slots are.

use std::any::Any;
use std::sync::Arc;

use streampool_device::{Error, Op, OpKind, Program, Result, Slots, Span, View, foreign};

use crate::core::Core;
use crate::cost;
use crate::crew::Crew;
use crate::kernels::scratch::list;
use crate::kernels::{Preparation, Prepared};
use crate::pairs;

/// Captured ops. Each takes a thousand bytes, which a list of them would move about.
pub(crate) type Ops = Vec<Box<Op>>;

/// A captured program of the host device.
pub(crate) struct HostProgram(Arc<Body>);

/// What a program and its replays under way share.
struct Body {
    core: Arc<Core>,
    ops: Box<[Captured]>,
    slots: Slots,
    cost: u64,
}

/// An op of a program, and what is known of it.
pub(crate) struct Captured {
    pub(crate) kind: OpKind,
    pub(crate) prepared: Prepared,
    /// Whether it is worth splitting over threads.
    pub(crate) is_large: bool,
    op: Box<Op>,
    /// Whether an operand lies in a slot.
    bound: bool,
    /// Whether the next is done part by part with this one.
    leads: bool,
}

/// A program with its slots bound, as a queue holds it.
pub(crate) struct Replay {
    body: Arc<Body>,
    slots: Box<[Span]>,
}

impl HostProgram {
    /// Prepares the ops.
    ///
    /// # Safety
    /// As for [`Queue::end_capture`](streampool_device::Queue::end_capture).
    pub(crate) unsafe fn new(
        core: Arc<Core>,
        ops: Ops,
        slots: &[Span],
        constants: &[Span],
    ) -> Self {
        let slots = Slots::new(slots, Slots::HOST_ALIGNMENT);
        let is_constant = |view: &View| {
            let span = view.span();
            constants.iter().any(|constant| constant.contains(&span))
                && slots.holding(view).is_none()
        };
        let crew = Crew::new(&core.pool);
        let preparation = Preparation {
            packs: &core.packs,
            team: &crew,
            threads: core.properties.compute_units,
            constant: &is_constant,
        };
        let mut cost = 0u64;
        let prepare = |op: Box<Op>| {
            let mut bound = false;
            op.for_each_operand(|_, _, view| bound |= slots.holding(view).is_some());
            let own = cost::estimate(&op);
            cost = cost.saturating_add(own);
            let prepared = match &*op {
                // One that does not compile, or for which there is no memory, is its replay's fault.
                Op::Map { expr, .. } => core.expressions.program(expr).map(Prepared::Map),
                // SAFETY: passed on from the caller.
                op => foreign::call(|| unsafe { Prepared::new(op, &preparation) })
                    .map_err(|panic| panic.message().to_owned()),
            };
            Captured {
                kind: op.kind(),
                prepared: prepared.unwrap_or_default(),
                is_large: match &*op {
                    Op::Conv(_) => own >= cost::CONV_WORTH_SPLITTING,
                    _ => own >= cost::WORTH_SPLITTING,
                },
                op,
                bound,
                leads: false,
            }
        };
        let mut ops: Box<[Captured]> = list(ops.into_iter().map(prepare)).into();
        for index in 1..ops.len() {
            let [one, next] = [&ops[index - 1], &ops[index]].map(|op| (&*op.op, &op.prepared));
            ops[index - 1].leads = pairs::can_follow(one, next);
        }
        drop(crew);
        HostProgram(Arc::new(Body {
            core,
            ops,
            slots,
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
        self.0.slots.sizes()
    }

    /// Packed constants are not counted: programs share them.
    fn bytes(&self) -> usize {
        size_of::<Body>()
            + self.0.ops.len() * (size_of::<Captured>() + size_of::<Op>())
            + self.0.slots.sizes().len() * (size_of::<Span>() + size_of::<usize>())
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
        body.slots.check(slots)?;
        Ok(Replay {
            body: Arc::clone(body),
            slots: slots.into(),
        })
    }

    /// About how long it takes, in nanoseconds.
    pub(crate) fn cost(&self) -> u64 {
        self.body.cost
    }

    /// Calls `execute` with each op, bound, and the one after it if they are done together, until one fails.
    pub(crate) fn execute(
        &self,
        mut execute: impl FnMut(Step<'_>, Option<Step<'_>>) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        let ops = &self.body.ops;
        let bind = |captured: &Captured| self.body.slots.bind(&captured.op, &self.slots);
        let mut index = 0;
        while let Some(captured) = ops.get(index) {
            let next = ops.get(index + 1).filter(|_| captured.leads);
            // They are made where they stay: an op takes a thousand bytes.
            let (bound, next_bound);
            let op = if captured.bound {
                bound = bind(captured);
                &bound
            } else {
                &*captured.op
            };
            let after = match next {
                Some(next) if next.bound => {
                    next_bound = bind(next);
                    Some((&next_bound, next))
                }
                next => next.map(|next| (&*next.op, next)),
            };
            execute((op, captured), after).map_err(|why| {
                let (kind, count) = (captured.kind, ops.len());
                format!("{kind}, op {} of {count}: {why}", index + 1)
            })?;
            index += 1 + usize::from(next.is_some());
        }
        Ok(())
    }
}

/// An op, bound, and what is known of it.
pub(crate) type Step<'a> = (&'a Op, &'a Captured);

#[cfg(test)]
mod tests {
    use streampool_device::Queue;

    use super::*;
    use crate::OpMatcher;
    use crate::testing::{Buffer, device, encode, end_capture, queue};

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
        let program = end_capture(&mut *lane, &[input.span(), output.span()]);
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
        let program = end_capture(&mut *lane, &[slot]);
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
        let program = end_capture(&mut *lane, &[]);
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
