//! The instance of a program that one lane launches.

use std::sync::{Arc, Weak};

use cudarc::driver::sys::CUdeviceptr;
use smallvec::SmallVec;
use streampool_device::{Span, Tick};

use super::Recipe;
use super::budget::Room;
use super::graph::{Chain, Graph, Node};
use super::tasks::tasks;
use crate::context::Failure;
use crate::core::Core;
use crate::lane::{Held, Lane};
use crate::memory::DeviceBlock;
use crate::step::{Step, Steps, address};

/// A graph of a program's ops with its slots bound, and the memory it works in. It launches on one lane only,
/// so that no two of its launches run at the same time.
pub(super) struct Instance {
    graph: Graph,
    /// What the nodes do now, op by op: it keeps the kernels loaded.
    parts: Vec<Part>,
    /// Where the slots are now.
    bound: SmallVec<[CUdeviceptr; 8]>,
    scratch: Option<Arc<DeviceBlock>>,
    lane: Weak<Lane>,
    /// The lane's tick of the last launch.
    tick: Tick,
    _room: Room,
}

/// One op in a graph.
struct Part {
    steps: Steps,
    nodes: SmallVec<[Node; 2]>,
}

impl Instance {
    /// An instance for `lane`; `None` if it needs more than was foreseen, which `room` is for. The context is
    /// bound.
    pub fn new(
        lane: &Arc<Lane>,
        recipe: &Recipe,
        slots: &[Span],
        room: Room,
    ) -> Result<Option<Instance>, Failure> {
        let core = &lane.core;
        let steps = recipe.steps(core, slots)?;
        if steps.iter().any(|steps| steps.scratch > recipe.scratch) {
            return Ok(None);
        }
        // Who makes a graph shuts the gate once for all that needs it, if that is soon over.
        let _alone = is_soon_made(&steps).then(|| core.context.alone());
        let scratch = match recipe.scratch {
            0 => None,
            bytes => Some(Arc::new(core.ledger.own(bytes)?)),
        };
        let mut chain = Chain::new(&core.context)?;
        let mut parts = Vec::with_capacity(steps.len());
        for steps in steps {
            let mut nodes = SmallVec::new();
            for task in tasks(&steps) {
                // SAFETY: whoever launches the graph vouches for the memory of the ops; the scratch memory
                // is this instance's, and stays until its last launch is over.
                nodes.push(unsafe { chain.append(core, &task, base(scratch.as_deref()))? });
            }
            parts.push(Part { steps, nodes });
        }
        let graph = Graph::new(chain, lane.stream)?;
        room.fill();
        Ok(Some(Instance {
            graph,
            parts,
            bound: slots.iter().map(address).collect(),
            scratch,
            lane: Arc::downgrade(lane),
            tick: 0,
            _room: room,
        }))
    }

    /// Binds the slots to these spans, from the next launch on: launches under way keep theirs. `false` if
    /// that takes another graph; then this one is of no use any more. The context is bound.
    pub fn bind(&mut self, core: &Core, recipe: &Recipe, slots: &[Span]) -> Result<bool, Failure> {
        let is_bound = |(bound, slot): (&CUdeviceptr, &Span)| *bound == address(slot);
        if self.bound.iter().zip(slots).all(is_bound) {
            return Ok(true);
        }
        let moved: SmallVec<[bool; 8]> = self
            .bound
            .iter()
            .zip(slots)
            .map(|pair| !is_bound(pair))
            .collect();
        let scratch = base(self.scratch.as_deref());
        for (op, part) in recipe.ops.iter().zip(&mut self.parts) {
            if !op.touches.iter().any(|slot| moved[*slot]) {
                continue;
            }
            let steps = recipe.steps_of(op, core, slots)?;
            let tasks = tasks(&steps);
            if tasks.len() != part.nodes.len() || steps.scratch > recipe.scratch {
                return Ok(false);
            }
            for (node, task) in part.nodes.iter().zip(&tasks) {
                // SAFETY: as where the node was appended.
                if !unsafe { self.graph.update(core, node, task, scratch)? } {
                    return Ok(false);
                }
            }
            drop(tasks);
            part.steps = steps;
        }
        self.bound = slots.iter().map(address).collect();
        Ok(true)
    }

    /// Launches it on its lane, and returns the tick that the lane gives out next. The context is bound.
    ///
    /// # Safety
    /// As for [`Queue::replay`](streampool_device::Queue::replay), for the slots it is bound to.
    pub unsafe fn launch(&mut self, lane: &Lane) -> Result<Tick, Failure> {
        self.tick = lane.appended() + 1;
        // SAFETY: the caller vouches for the memory of the ops; the rest is this instance's.
        unsafe { self.graph.launch(lane.stream)? };
        Ok(self.tick)
    }

    /// Drops it; its last launch is known to be over.
    pub fn drop_idle(mut self) {
        self.tick = 0;
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The driver frees a graph that still runs when it is over; its memory is for the lane to keep until
        // then. A lane that is gone has waited for everything.
        let Some(scratch) = self.scratch.take() else {
            return;
        };
        if let Some(lane) = self.lane.upgrade()
            && !lane.is_over(self.tick)
        {
            lane.hold(self.tick, Held::Scratch(scratch));
            if lane.core.watcher.start().is_ok() {
                lane.core.watcher.watch(&lane);
            }
        }
    }
}

/// The most nodes of a graph during all of whose making launches may wait: that takes about a millisecond.
const FEW_NODES: usize = 128;
/// What a library makes of a task takes as long as this many nodes.
const NODES_OF_A_LIBRARY: usize = 16;

fn is_soon_made(steps: &[Steps]) -> bool {
    let tasks = steps.iter().flat_map(|steps| &steps.list);
    let nodes = tasks.map(|step| match step {
        Step::Launch(_) | Step::Copy { .. } => 1,
        Step::Product(_) | Step::Conv(_) => NODES_OF_A_LIBRARY,
    });
    nodes.sum::<usize>() <= FEW_NODES
}

fn base(scratch: Option<&DeviceBlock>) -> CUdeviceptr {
    scratch.map_or(0, DeviceBlock::address)
}
