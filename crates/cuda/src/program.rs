//! Programs: ops captured once, replayed with one launch of a graph.
//!
//! A graph of the driver cannot run twice at the same time, so each lane that replays a program has an
//! [`Instance`] of its own, as far as the [`Budget`] of the device goes. Without one, the ops are executed one
//! by one.

mod budget;
mod cabinet;
mod graph;
mod instance;
mod tasks;

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUresult};
use smallvec::SmallVec;
use streampool_device::{Error, Op, Program, Result, Slots, Span};

use crate::context::Failure;
use crate::core::Core;
use crate::lane::Lane;
use crate::memory::ALIGNMENT;
use crate::step::{Moved, Place, Steps, address};

pub(crate) use budget::Budget;
use budget::Room;
use cabinet::Cabinet;
use instance::Instance;
use tasks::tasks;

/// What the driver takes for a graph and for each of its nodes, about, in bytes.
const GRAPH_BYTES: usize = 64 << 10;
const NODE_BYTES: usize = 8 << 10;

/// The instances of a program, for each lane that replayed it.
type Instances = Cabinet<Lane, Box<Instance>>;

/// A program of a CUDA device.
pub(crate) struct CudaProgram {
    core: Arc<Core>,
    recipe: Recipe,
    /// How many nodes its graph has, about: what the library makes of a product is its own.
    nodes: usize,
    instances: Arc<Instances>,
}

/// What an instance is made from.
struct Recipe {
    ops: Box<[Captured]>,
    slots: Slots,
    /// Where the steps of the ops have the slots.
    captured: Box<[CUdeviceptr]>,
    /// The bytes of scratch memory that the ops need, one after the other.
    scratch: usize,
}

/// Where the slots are now, and where the steps have them.
type Bound = SmallVec<[Moved; 8]>;

struct Captured {
    steps: Steps,
    /// The slots that its operands lie in.
    touches: SmallVec<[usize; 4]>,
}

impl Captured {
    fn new(op: &Op, steps: Steps, slots: &Slots) -> Captured {
        let mut touches = SmallVec::new();
        op.for_each_operand(|_, _, view| touches.extend(slots.holding(view)));
        touches.sort_unstable();
        touches.dedup();
        Captured { steps, touches }
    }
}

impl Recipe {
    fn bound(&self, slots: &[Span]) -> Bound {
        let captured = self.captured.iter().zip(self.slots.sizes());
        let moved = captured.zip(slots).map(|((&from, &bytes), slot)| Moved {
            from,
            bytes,
            to: address(slot),
        });
        moved.collect()
    }
}

/// Whether what an operand has in memory tells the slot that it belongs to: it lies within that, or beside all.
fn is_plain(op: &Op, slots: &[Span]) -> bool {
    let mut is_plain = true;
    op.for_each_operand(|_, _, view| {
        let span = view.span();
        let overlaps = |slot: &&Span| {
            let (end, slot_end) = (span.offset + span.bytes, slot.offset + slot.bytes);
            slot.handle == span.handle && slot.offset < end && span.offset < slot_end
        };
        let first = slots.iter().find(overlaps);
        is_plain &= first.is_none_or(|slot| slot.contains(&span));
    });
    is_plain
}

impl CudaProgram {
    /// The program of these ops, which were validated, with their steps. The context is bound.
    pub fn new(core: Arc<Core>, mut ops: Vec<(Op, Steps)>, spans: &[Span]) -> Result<CudaProgram> {
        let slots = Slots::new(spans, ALIGNMENT);
        let mut captured: Box<[CUdeviceptr]> = spans.iter().map(address).collect();
        if !ops.iter().all(|(op, _)| is_plain(op, spans)) {
            // What lies in a slot is lowered as memory of its own, aligned as it was captured, which a replay keeps.
            let own = apart(spans);
            for (op, steps) in &mut ops {
                *steps = core.prepared(&slots.bind(op, &own))?;
            }
            captured = own.iter().map(address).collect();
        }
        let nowhere = Place {
            scratch: 0,
            moved: &[],
        };
        let steps = || ops.iter().map(|(_, steps)| steps);
        let nodes = steps().map(|steps| tasks(steps, &nowhere).len()).sum();
        let scratch = steps().map(|steps| steps.scratch).max().unwrap_or(0);
        let ops = ops
            .into_iter()
            .map(|(op, steps)| Captured::new(&op, steps, &slots));
        let instances = Arc::new(Cabinet::new());
        let program = CudaProgram {
            recipe: Recipe {
                ops: ops.collect(),
                slots,
                captured,
                scratch,
            },
            nodes,
            instances: core.programs.register(instances),
            core,
        };
        Ok(program)
    }

    /// The CUDA program behind `program`, if it is one of this device.
    pub fn of<'a>(program: &'a dyn Program, core: &Arc<Core>) -> Result<&'a CudaProgram> {
        program
            .as_any()
            .downcast_ref::<CudaProgram>()
            .filter(|program| Arc::ptr_eq(&program.core, core))
            .ok_or_else(|| Error::Foreign {
                what: "a program",
                device: core.properties.name.clone(),
            })
    }

    /// Whether `slots` fit.
    pub fn check(&self, slots: &[Span]) -> Result<()> {
        self.recipe.slots.check(slots)
    }

    /// Launches its graph on `lane`; `false` if there is none now, for want of room or because it could not be made.
    /// Only the queue of the lane does so,
    /// and then gives out the next tick. The context is bound.
    ///
    /// # Safety
    /// As for [`Queue::replay`](streampool_device::Queue::replay).
    pub unsafe fn launch(&self, lane: &Arc<Lane>, slots: &[Span]) -> Result<bool, Failure> {
        if self.nodes == 0 {
            return Ok(true);
        }
        let ready = match self.ready(lane, slots) {
            Err(failure) if graph::is_spoilt(&failure) => None,
            ready => ready?,
        };
        let Some(mut instance) = ready else {
            return Ok(false);
        };
        // SAFETY: the caller vouches for the memory of the ops with these slots, to which it is bound.
        let tick = unsafe { instance.launch(lane)? };
        self.instances.put(lane, lane.index, tick, instance);
        Ok(true)
    }

    /// The instance for `lane`, bound to these slots.
    fn ready(&self, lane: &Arc<Lane>, slots: &[Span]) -> Result<Option<Box<Instance>>, Failure> {
        let now = self.core.programs.now();
        let found = self.instances.take(lane, lane.index, now);
        let ready = match found.value {
            Some(mut instance) => instance
                .bind(&self.core, &self.recipe, slots)?
                .then_some(instance),
            None => None,
        };
        match ready {
            Some(instance) => Ok(Some(instance)),
            None => self.instance(lane, slots, found.wanted),
        }
    }

    /// A new instance for `lane`, for which instances that were not used since `wanted` may give way.
    fn instance(
        &self,
        lane: &Arc<Lane>,
        slots: &[Span],
        wanted: u64,
    ) -> Result<Option<Box<Instance>>, Failure> {
        let Some(room) = Room::take(&self.core, self.graph_bytes(), self.recipe.scratch, wanted)
        else {
            return Ok(None);
        };
        match Instance::new(lane, &self.recipe, slots, room) {
            Ok(instance) => Ok(Some(Box::new(instance))),
            // The GPU is full before the budget is.
            Err(Failure::Call(_, CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn graph_bytes(&self) -> usize {
        GRAPH_BYTES + self.nodes * NODE_BYTES
    }

    /// The steps of its ops, one by one.
    pub fn steps(&self) -> impl Iterator<Item = &Steps> {
        self.recipe.ops.iter().map(|op| &op.steps)
    }

    /// Where these slots are, for its steps.
    pub fn bound(&self, slots: &[Span]) -> Bound {
        self.recipe.bound(slots)
    }

    /// The bytes of scratch memory that its ops share.
    pub fn scratch(&self) -> usize {
        self.recipe.scratch
    }
}

/// Spans as long and aligned as these, where no memory is.
fn apart(spans: &[Span]) -> Vec<Span> {
    const FIRST: u64 = 1 << 63;
    let mut next = FIRST;
    let apart = spans.iter().map(|span| {
        let handle = next + address(span) % ALIGNMENT as u64;
        next += (span.bytes as u64).next_multiple_of(ALIGNMENT as u64) + ALIGNMENT as u64;
        Span {
            handle,
            offset: 0,
            bytes: span.bytes,
        }
    });
    apart.collect()
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        self.core.programs.retire(&self.instances);
    }
}

impl Program for CudaProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn ops(&self) -> usize {
        self.recipe.ops.len()
    }

    fn slots(&self) -> &[usize] {
        self.recipe.slots.sizes()
    }

    fn bytes(&self) -> usize {
        let steps = self.recipe.ops.iter().map(|op| op.steps.bytes());
        let ops = size_of_val(&*self.recipe.ops) + steps.sum::<usize>();
        let instances = self.instances.filled() * (self.graph_bytes() + self.recipe.scratch);
        size_of::<CudaProgram>() + size_of::<Instances>() + ops + instances
    }
}
