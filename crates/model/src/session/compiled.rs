//! A part of a model, planned for inputs of certain kinds, and programs captured from it.

use std::sync::Arc;

use streampool_device::{Access, DType, DeviceKind, Op, Scatter};
use streampool_runtime::{Capture, Captured, Program, Reference, Stream};
use streampool_tensor::{Array, Pool, Tensor};

use super::ledger::{Held, Ledger};
use super::turns::Turns;
use super::weights::Weights;
use crate::error::Result;
use crate::lower::{
    Constant, Fused, InPlace, Location, Operand, Output, Plan, Planned, Port, Room, in_place,
};
use crate::nodes::Value;
use crate::trace::Asked;

/// A plan, and what it reads, where the work is.
pub struct Compiled {
    /// The plan.
    pub plan: Plan,
    /// Which node asked for values, and so ends this part.
    pub ended: Option<Asked>,
    /// What was joined to make it.
    pub fused: Fused,
    /// Which outputs may be made where an input lies.
    pub in_place: Vec<InPlace>,
    /// Where its programs are shared by all threads, whose turn it is to have one.
    pub turns: Option<Arc<Turns>>,
    constants: Vec<Arc<Tensor>>,
    /// What it was made for may be told by its address, and so has to stay.
    _kept: Vec<Value>,
    _held: Held,
}

/// Programs of which each takes as much as this are shared by all threads on a device that computes on as many
/// processors as there are: more than these cannot be at work at once, and what they take is not worth having.
const SHARED_FROM: usize = 1 << 18;
/// While those of a plan take no more than this together, there are up to four times as many as can be at work: who waits for one
/// has to be woken, which takes a tenth of the rate of networks of a millisecond. Larger networks lose by more.
const SHARED_BYTES: usize = 24 << 20;

/// Where inputs and outputs of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ends {
    /// In memory of the program's that the host reaches.
    Host,
    /// There, too, but for what is large: each replay binds arrays of the host, which are not copied.
    Lent,
    /// In buffers that each replay binds.
    Device,
    /// There, too, and some outputs are made where an input lies.
    Carried,
}

impl Compiled {
    /// The plan with its constants in the pool of `weights`.
    pub fn new(
        plan: Plan,
        ended: Option<Asked>,
        kept: Vec<Value>,
        weights: &Weights,
        ledger: &Arc<Ledger>,
        key_bytes: usize,
    ) -> Result<Compiled> {
        let constants = plan.constants.iter().map(|constant| match constant {
            Constant::Tensor(tensor, picture) => weights.at_work(tensor, *picture),
            Constant::Bytes(bytes) => weights.upload(bytes),
        });
        let constants: Vec<Arc<Tensor>> = constants.collect::<Result<_>>()?;
        let held = ledger.hold(
            plan.bytes() + key_bytes,
            tensors(&plan, &kept).chain(of_bytes(&plan, &constants)),
        );
        let properties = weights.work().device().properties();
        let bytes = plan.scratch_bytes + plan.shared_bytes;
        let is_shared = bytes >= SHARED_FROM && properties.kind == DeviceKind::Host;
        // One more than processors: it takes its inputs while the others compute.
        let fewest = properties.compute_units + 1;
        let most = SHARED_BYTES / bytes.max(1);
        let turns = is_shared.then(|| Turns::new(most.clamp(fewest, 4 * fewest)));
        Ok(Compiled {
            in_place: in_place(&plan),
            plan,
            ended,
            fused: Fused::default(),
            turns,
            constants,
            _kept: kept,
            _held: held,
        })
    }

    /// Whether a program with these ends has this input or output in a buffer that each replay binds.
    pub fn binds(&self, ends: Ends, port: &Port) -> bool {
        match ends {
            Ends::Host => false,
            Ends::Lent => port.kind.bytes() >= Array::LENT_FROM,
            Ends::Device | Ends::Carried => true,
        }
    }

    /// A program of it, in memory of `stream`'s, that makes these outputs where an input lies.
    pub fn capture(
        &self,
        pool: &Pool,
        stream: &Stream,
        ends: Ends,
        in_place: &[InPlace],
    ) -> Result<Program> {
        let mut capture = Capture::new(stream);
        // The others time each op of a replay by themselves.
        if pool.device().properties().kind == DeviceKind::Metal {
            capture.keep_ops();
        }
        let memory = OperandMemory::new(self, pool, &mut capture, ends, in_place)?;
        if let Some(shared) = memory.mirrored {
            let (mirror, inputs) = (memory.shared, self.plan.input_bytes);
            copy(
                &mut capture,
                shared.part(0, inputs)?,
                mirror.part(0, inputs)?,
            )?;
        }
        for (place, planned) in self.plan.ops.iter().enumerate() {
            let changes = in_place.iter().any(|one| one.op == place);
            let op = planned.op.try_map(|_, _, operand| memory.view(operand))?;
            match op {
                Op::Copy { .. } if changes => {}
                // It reads just what it writes, said in the same way.
                Op::Scatter(scatter) if changes => {
                    let src = scatter.dst;
                    capture.encode(Op::Scatter(Scatter { src, ..scatter }))?;
                }
                op => capture.encode(op)?,
            }
        }
        if let Some(shared) = memory.mirrored {
            let (mirror, inputs) = (memory.shared, self.plan.input_bytes);
            let outputs = self.plan.shared_bytes - inputs;
            copy(
                &mut capture,
                mirror.part(inputs, outputs)?,
                shared.part(inputs, outputs)?,
            )?;
        }
        Ok(capture.finish()?)
    }
}

/// A buffer that is bound at each replay: what stands for it, where the plan has it, and how a tensor of this shape lies there
/// if it does not fill it.
struct Slot {
    offset: usize,
    reference: Reference,
    room: Option<(Room, Vec<usize>)>,
}

/// Where a program's operands are.
struct OperandMemory {
    shared: Reference,
    /// What the host reaches, where the device works on a copy of it.
    mirrored: Option<Reference>,
    slots: Vec<Slot>,
    scratch: Reference,
    constants: Vec<Reference>,
}

impl OperandMemory {
    fn new(
        compiled: &Compiled,
        pool: &Pool,
        capture: &mut Capture,
        ends: Ends,
        in_place: &[InPlace],
    ) -> Result<OperandMemory> {
        let plan = &compiled.plan;
        let scratch = capture.scratch(plan.scratch_bytes)?;
        let mut slots = Vec::new();
        let mut mirrored = None;
        let shared = match ends {
            Ends::Host | Ends::Lent if pool.device().properties().unified_memory => {
                capture.shared(plan.shared_bytes)?
            }
            Ends::Host | Ends::Lent => {
                mirrored = Some(capture.shared(plan.shared_bytes)?);
                capture.scratch(plan.shared_bytes)?
            }
            Ends::Device | Ends::Carried => scratch,
        };
        let mut updated = Vec::new();
        for (place, port) in plan.inputs.iter().enumerate() {
            if !compiled.binds(ends, port) {
                continue;
            }
            let one = in_place.iter().find(|one| one.input == place);
            let reference = match one {
                None => capture.input(port.kind.bytes())?,
                Some(one) => {
                    let slot = capture.updated(one.bytes(&port.kind))?;
                    updated.push((one, slot));
                    slot
                }
            };
            slots.push(Slot::of(port, reference, one));
        }
        for port in plan.output_ports() {
            if !compiled.binds(ends, port) {
                continue;
            }
            let one = updated.iter().find(|(one, _)| one.made == port.offset);
            slots.push(match one {
                None => Slot::of(port, capture.output(port.kind.bytes())?, None),
                Some((one, slot)) => Slot::of(port, *slot, Some(one)),
            });
        }
        let constants = compiled
            .constants
            .iter()
            .map(|tensor| capture.constant(tensor));
        Ok(OperandMemory {
            constants: constants.collect::<Result<_, _>>()?,
            shared,
            mirrored,
            slots,
            scratch,
        })
    }

    fn view(&self, operand: &Operand) -> streampool_runtime::Result<Captured> {
        let memory = match operand.place {
            Location::Constant(number) => self.constants[number],
            Location::Scratch(offset) => self.scratch.part(offset, operand.bytes)?,
            Location::Shared(offset) => {
                match self.slots.binary_search_by_key(&offset, |slot| slot.offset) {
                    Ok(slot) => return self.slots[slot].view(operand),
                    Err(_) => self.shared.part(offset, operand.bytes)?,
                }
            }
        };
        memory.view_as(operand.dtype, operand.layout)
    }
}

impl Slot {
    fn of(port: &Port, reference: Reference, one: Option<&InPlace>) -> Slot {
        let room = one.and_then(|one| one.room);
        Slot {
            offset: port.offset,
            reference,
            room: room.map(|room| (room, port.kind.shape.clone())),
        }
    }

    fn view(&self, operand: &Operand) -> streampool_runtime::Result<Captured> {
        let spaced = self
            .room
            .as_ref()
            .and_then(|(room, shape)| room.spaced(&operand.layout, shape));
        let layout = spaced.unwrap_or(operand.layout);
        self.reference.view_as(operand.dtype, layout)
    }
}

fn copy(capture: &mut Capture, from: Reference, to: Reference) -> Result<()> {
    let bytes = from.bytes();
    if bytes > 0 {
        capture.encode(Op::Copy {
            src: from.view(DType::U8, &[bytes])?,
            dst: to.view(DType::U8, &[bytes])?,
        })?;
    }
    Ok(())
}

/// The known tensors that a plan keeps from going.
fn tensors<'p>(plan: &'p Plan, kept: &'p [Value]) -> impl Iterator<Item = &'p Tensor> {
    let outputs = plan.outputs.iter().filter_map(|(_, output)| match output {
        Output::Known(value) => Some(value),
        Output::Tensor(_) | Output::Sequence(_) => None,
    });
    let constants = plan.constants.iter().filter_map(|constant| match constant {
        Constant::Tensor(tensor, _) => Some(tensor),
        Constant::Bytes(_) => None,
    });
    let values = kept.iter().chain(outputs).flat_map(Value::tensors);
    values.chain(constants)
}

/// Where bytes of a plan were put.
fn of_bytes<'p>(plan: &'p Plan, constants: &'p [Arc<Tensor>]) -> impl Iterator<Item = &'p Tensor> {
    let each = plan.constants.iter().zip(constants);
    each.filter(|(constant, _)| matches!(constant, Constant::Bytes(_)))
        .map(|(_, tensor)| &**tensor)
}

/// What an op takes beside itself: its lists, and what it computes.
fn listed(op: &Op<Operand>) -> usize {
    match op {
        Op::Map {
            expr,
            inputs,
            outputs,
        } => size_of_val(&**inputs) + size_of_val(&**outputs) + size_of_val(expr.nodes()),
        _ => 0,
    }
}

impl Plan {
    /// About what it takes, without tensors.
    fn bytes(&self) -> usize {
        let bytes = self.constants.iter().map(|constant| match constant {
            Constant::Tensor(..) => 0,
            Constant::Bytes(bytes) => bytes.len(),
        });
        size_of::<Compiled>()
            + self.ops.len() * (size_of::<Planned>() + size_of::<Op<Operand>>())
            + self.ops.iter().map(|one| listed(&one.op)).sum::<usize>()
            + self.constants.len() * size_of::<Constant>()
            + bytes.sum::<usize>()
    }

    /// The largest memory that an op writes, and for which node.
    pub fn largest(&self) -> Option<(usize, usize)> {
        let written = self.ops.iter().filter_map(|planned| {
            let mut most = 0;
            let Ok(_) = planned.op.try_map(|_, access, operand| {
                if access == Access::Write {
                    most = most.max(operand.bytes);
                }
                Ok::<(), std::convert::Infallible>(())
            });
            Some((most, *planned.nodes.first()?))
        });
        written.max_by_key(|(bytes, _)| *bytes)
    }

    /// The places of all outputs that are made, in order.
    pub fn output_ports(&self) -> impl Iterator<Item = &Port> {
        self.outputs.iter().flat_map(|(_, output)| match output {
            Output::Known(_) => &[][..],
            Output::Tensor(port) => std::slice::from_ref(port),
            Output::Sequence(ports) => ports,
        })
    }
}
