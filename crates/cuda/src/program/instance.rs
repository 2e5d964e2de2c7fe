//! The instance of a program that one lane launches.

use std::sync::{Arc, Weak};

use cudarc::driver::sys::{CUresult, CUstream};
use smallvec::SmallVec;
use streampool_device::{Span, Tick};

use super::budget::{Candidate, Instances};
use super::graph::{Chain, Graph, Node};
use super::per_lane::PerLane;
use super::recipe::{Bound, Recipe};
use super::tasks::tasks;
use crate::context::{Alone, Failure};
use crate::core::Core;
use crate::lane::{Held, Lane};
use crate::memory::DeviceBlock;
use crate::place::Place;
use crate::step::Step;

/// A graph of a program's ops with its slots bound, and the memory it works in. It launches on one lane, so that no two of
/// its launches run at the same time; another lane takes it over only when the last is over.
pub(super) struct Instance {
    graph: Graph,
    /// The nodes of each op.
    nodes: Vec<SmallVec<[Node; 2]>>,
    /// Whether its kernels are those for one of many streams.
    of_many: bool,
    /// Where the slots are now.
    bound: Bound,
    scratch: Option<Arc<DeviceBlock>>,
    lane: Weak<Lane>,
    /// The lane's tick of the last launch.
    tick: Tick,
    _room: Room,
}

impl Instance {
    /// An instance for `lane`. The context is bound.
    ///
    /// Who makes a graph shuts the gate once for all that needs it, the first launch too, if that is soon over.
    pub fn new<'a>(
        lane: &'a Arc<Lane>,
        recipe: &Recipe,
        of_many: bool,
        slots: &[Span],
        room: Room,
    ) -> Result<(Instance, Option<Alone<'a>>), Failure> {
        let core = &lane.core;
        let alone = is_soon_made(recipe).then(|| core.context.alone());
        let scratch = match recipe.scratch {
            0 => None,
            bytes => Some(Arc::new(core.ledger.own(bytes)?)),
        };
        let bound = recipe.bound(slots);
        let place = place(scratch.as_deref(), &bound);
        let mut chain = Chain::new(&core.context)?;
        let mut nodes = Vec::with_capacity(recipe.ops.len());
        for op in &recipe.ops {
            let tasks = tasks(&op.steps, of_many, &place);
            let of_op = tasks.into_iter().map(|task| {
                // SAFETY: whoever launches the graph vouches for the memory of the ops; the scratch memory
                // is this instance's, and stays until its last launch is over.
                unsafe { chain.append(core, &task, &place) }
            });
            nodes.push(of_op.collect::<Result<_, _>>()?);
        }
        let graph = Graph::new(chain, lane.stream)?;
        core.programs.count_built();
        let instance = Instance {
            graph,
            nodes,
            of_many,
            bound,
            scratch,
            lane: Arc::downgrade(lane),
            tick: 0,
            _room: room,
        };
        Ok((instance, alone))
    }

    /// Whether its next launch is that of one of many streams, if nothing changes.
    pub fn is_of_many(&self) -> bool {
        self.of_many
    }

    /// Binds the slots to these spans, and takes the kernels for one of many streams or for one that may be alone, from the next
    /// launch on: launches under way keep theirs. `false` if that takes another graph; then this one is of no use any more. The
    /// context is bound.
    pub fn bind(
        &mut self,
        core: &Core,
        recipe: &Recipe,
        of_many: bool,
        slots: &[Span],
    ) -> Result<bool, Failure> {
        let bound = recipe.bound(slots);
        if self.bound == bound && self.of_many == of_many {
            return Ok(true);
        }
        let place = place(self.scratch.as_deref(), &bound);
        let is_moved = |slot: &usize| self.bound[*slot] != bound[*slot];
        for (op, nodes) in recipe.ops.iter().zip(&self.nodes) {
            let is_other = self.of_many != of_many && !op.steps.of_many.is_empty();
            if !is_other && !op.touches.iter().any(is_moved) {
                continue;
            }
            let tasks = tasks(&op.steps, of_many, &place);
            debug_assert_eq!(nodes.len(), tasks.len(), "as many steps for many streams");
            for (node, task) in nodes.iter().zip(tasks) {
                // SAFETY: as where the node was appended.
                if !unsafe { self.graph.update(core, node, &task, &place)? } {
                    return Ok(false);
                }
            }
        }
        (self.bound, self.of_many) = (bound, of_many);
        Ok(true)
    }

    /// Launches it for its lane, on `stream`, and returns the tick that the lane gives out next. The context is bound.
    ///
    /// # Safety
    /// As for [`Queue::replay`](streampool_device::Queue::replay), for the slots it is bound to.
    pub unsafe fn launch(&mut self, lane: &Lane, stream: CUstream) -> Result<Tick, Failure> {
        self.tick = lane.appended() + 1;
        // SAFETY: the caller vouches for the memory of the ops; the rest is this instance's.
        unsafe { self.graph.launch(stream)? };
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

/// So many commands later a lane is taken to have no more use for an instance: another that wants one need not make it.
const LEFT: Tick = 64;

/// An idle instance for `lane` that another has had no use for lately, or that is the only one: then no two lanes have been
/// at work with the program at the same time.
pub(super) fn left_by_another(instances: &OfLanes, lane: &Arc<Lane>) -> Option<Box<Instance>> {
    let candidates = PerLane::candidates(instances, u64::MAX);
    let is_only = candidates.len() == 1;
    let mut left = candidates.into_iter().filter(|candidate| {
        candidate.lane.upgrade().is_some_and(|other| {
            // The tick of a replay may not be given out yet.
            let since = other.appended().saturating_sub(candidate.tick);
            let is_left = is_only || since >= LEFT;
            is_left && other.is_over(candidate.tick)
        })
    });
    let mut instance = left.find_map(|candidate| instances.remove(&candidate))?;
    (instance.lane, instance.tick) = (Arc::downgrade(lane), 0);
    Some(instance)
}

/// Room for one instance.
pub(super) struct Room {
    core: Arc<Core>,
    bytes: usize,
    graph: usize,
}

impl Room {
    /// Takes room for a graph and its scratch memory of the budget; what was not used since `wanted` may give way. The
    /// context is bound.
    pub fn take(core: &Arc<Core>, graph: usize, scratch: usize, wanted: u64) -> Option<Room> {
        let bytes = graph.checked_add(scratch)?;
        core.programs.take(bytes, graph, wanted).then(|| Room {
            core: core.clone(),
            bytes,
            graph,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.core.programs.give_back(self.bytes, self.graph);
    }
}

/// The instances of a program, for each lane that replayed it.
pub(super) type OfLanes = PerLane<Lane, Box<Instance>>;

impl Instances for OfLanes {
    fn uses(&self) -> u64 {
        PerLane::uses(self)
    }

    fn sweep(&self) {
        drop(self.of_the_gone());
    }

    fn candidates(self: Arc<Self>, wanted: u64) -> Vec<Candidate> {
        let candidates = PerLane::candidates(&self, wanted).into_iter();
        let candidates = candidates.map(|candidate| {
            let all = self.clone();
            Candidate {
                used: candidate.used,
                give_way: Box::new(move || {
                    let is_idle = is_idle(&candidate.lane, candidate.tick);
                    let instance = is_idle.then(|| all.remove(&candidate)).flatten();
                    instance.map(|instance| instance.drop_idle()).is_some()
                }),
            }
        });
        candidates.collect()
    }
}

/// Whether the lane has passed `tick`, as far as the driver tells without waiting. What it owes others is not
/// settled by asking.
fn is_idle(lane: &Weak<Lane>, tick: Tick) -> bool {
    let Some(lane) = lane.upgrade() else {
        return true;
    };
    let has_passed = || lane.core.context.query(lane.stream) == CUresult::CUDA_SUCCESS;
    // Before its tick is given out, a replay may not be launched yet.
    lane.is_over(tick) || lane.appended() >= tick && has_passed()
}

/// The most nodes of a graph during all of whose making launches may wait: that takes about a millisecond.
const FEW_NODES: usize = 128;
/// What a library makes of a task takes as long as this many nodes.
const NODES_OF_A_LIBRARY: usize = 16;

fn is_soon_made(recipe: &Recipe) -> bool {
    let steps = recipe.ops.iter().flat_map(|op| &op.steps.list);
    let nodes = steps.map(|step| match step {
        Step::Launch(_) | Step::Copy { .. } => 1,
        Step::Product(_) | Step::Conv(_) => NODES_OF_A_LIBRARY,
    });
    nodes.sum::<usize>() <= FEW_NODES
}

fn place<'a>(scratch: Option<&DeviceBlock>, bound: &'a Bound) -> Place<'a> {
    Place {
        scratch: scratch.map_or(0, DeviceBlock::address),
        moved: bound,
    }
}
