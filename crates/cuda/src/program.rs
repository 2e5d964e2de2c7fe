//! Programs: ops captured once, replayed with one launch of a graph.
//!
//! A graph of the driver cannot run twice at the same time, so each lane that replays a program has an
//! [`Instance`] of its own, as far as the [`Budget`] of the device goes. Without one, the ops are executed one
//! by one. So they are in the first replay: making a graph takes longer than that, and many programs are for sizes that do not
//! come back.
//!
//! Where other kernels are better while many streams share the GPU, the nodes of a graph are given those when many threads wait
//! for it, and their own again when few do. The same bits come of both.

mod budget;
mod graph;
mod instance;
mod per_lane;
mod recipe;
mod tasks;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUresult, CUstream};
use streampool_device::{Error, Op, Program, Result, Span};
use streampool_kernels::RESIDENT_THREADS;

use crate::context::{Alone, Failure};
use crate::core::Core;
use crate::lane::{Held, Lane};
use crate::place::Place;
use crate::step::{Launch, Step, Steps};
use crate::tracing::Piece;
use crate::waits;

pub(crate) use budget::Budget;
use graph::{Chain, Graph};
use instance::{Instance, OfLanes, Room};
use per_lane::PerLane;
use recipe::{Bound, Recipe};
use tasks::tasks;

/// What the driver takes for a graph and for each of its nodes, about, in bytes.
const GRAPH_BYTES: usize = 64 << 10;
const NODE_BYTES: usize = 8 << 10;

/// An instance to launch next, and the gate, if it was made now and launches wait until it is launched.
type Ready<'a> = (Box<Instance>, Option<Alone<'a>>);

/// A program of a CUDA device.
pub(crate) struct CudaProgram {
    core: Arc<Core>,
    recipe: Recipe,
    /// How many nodes its graph has, about: what the library makes of a product is its own.
    nodes: usize,
    instances: Arc<OfLanes>,
    was_replayed: AtomicBool,
    /// So many threads that wait for the GPU are many; `None` where that makes no difference.
    many: Option<usize>,
}

/// Fewer streams are not many.
const FEWEST: u64 = 6;

/// How many streams fill three quarters of the GPU with the kernels that are for many.
fn many(core: &Core, recipe: &Recipe) -> Option<usize> {
    let steps = recipe.ops.iter().flat_map(|op| &op.steps.of_many);
    let threads = steps.filter_map(|step| match step {
        Step::Launch(Launch { dispatch, .. }) => {
            let groups = dispatch.groups.iter().map(|&count| u64::from(count));
            // One whose tiles are fetched has two thirds of the threads that others have.
            let threads = match dispatch.params.maps() {
                [] => dispatch.threads.into(),
                _ => u64::from(dispatch.threads) * 3 / 2,
            };
            Some(groups.fold(threads, u64::saturating_mul))
        }
        _ => None,
    });
    let (count, all) = threads.fold((0, 0u64), |(count, all), threads| {
        (count + 1, all.saturating_add(threads))
    });
    let fit = u64::from(core.limits.compute_units) * u64::from(RESIDENT_THREADS) * 3 / 4;
    let many = fit.saturating_mul(count).div_ceil(all.max(1));
    (count > 0).then_some(many.max(FEWEST) as usize)
}

impl CudaProgram {
    /// The program of these ops, which were validated, with their steps. The context is bound.
    pub fn new(core: Arc<Core>, ops: Vec<(Box<Op>, Steps)>, slots: &[Span]) -> Result<CudaProgram> {
        let recipe = Recipe::new(ops, slots, |op| core.prepared(op, true))?;
        let nowhere = Place {
            scratch: 0,
            moved: &[],
        };
        let nodes = recipe.ops.iter();
        let nodes = nodes.map(|op| tasks(&op.steps, false, &nowhere).len());
        Ok(CudaProgram {
            nodes: nodes.sum(),
            many: many(&core, &recipe),
            recipe,
            instances: core.programs.register(Arc::new(PerLane::new())),
            was_replayed: AtomicBool::new(false),
            core,
        })
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

    /// Launches its graph for `lane` on `stream`, which is its own or one that it then waits for; `false` if there is none now,
    /// because this is the first replay, for want of room, or because it could not be made. Only the queue of the lane does so,
    /// and then gives out the next tick.
    /// The context is bound.
    ///
    /// # Safety
    /// As for [`Queue::replay`](streampool_device::Queue::replay).
    pub unsafe fn launch(
        &self,
        lane: &Arc<Lane>,
        stream: CUstream,
        slots: &[Span],
    ) -> Result<bool, Failure> {
        if self.nodes == 0 {
            return Ok(true);
        }
        let was_replayed = &self.was_replayed;
        if !was_replayed.load(Ordering::Relaxed) && !was_replayed.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        let ready = match self.ready(lane, slots) {
            Err(failure) if graph::is_spoilt(&failure) => None,
            ready => ready?,
        };
        let Some((mut instance, _alone)) = ready else {
            return Ok(false);
        };
        // SAFETY: the caller vouches for the memory of the ops with these slots, to which it is bound.
        let tick = unsafe { instance.launch(lane, stream)? };
        self.instances.put(lane, lane.index, tick, instance);
        Ok(true)
    }

    /// Whether what is launched now is of one of many streams; `was` tells whether the launch before was.
    fn is_of_many(&self, was: bool) -> bool {
        // So that it does not change with each thread that comes or goes.
        let least = self
            .many
            .map(|many| if was { many - many / 4 } else { many });
        least.is_some_and(|least| waits::waiting(&self.core.context) >= least)
    }

    /// Launches a graph of its own for `lane`, which notes the time around each task, and says between which marks what happens.
    /// The lane keeps the marks until the next tick is over. The context is bound.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); `scratch` is as many bytes of scratch memory as it [needs](Self::scratch), which are
    /// the lane's until that tick is over.
    pub unsafe fn launch_timed(
        &self,
        lane: &Lane,
        scratch: u64,
        slots: &[Span],
    ) -> Result<Vec<Piece>, Failure> {
        let of_many = self.is_of_many(false);
        let bound = self.recipe.bound(slots);
        let place = Place {
            scratch,
            moved: &bound,
        };
        let mut chain = Chain::new(&self.core.context)?;
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.recipe.ops.len() + self.nodes);
        let idle = [chain.note(&lane.shelf)?, chain.note(&lane.shelf)?];
        let mut now = idle[1].clone();
        let mut marks = idle.to_vec();
        for op in &self.recipe.ops {
            let whole = pieces.len();
            pieces.push(Piece {
                op: op.kind,
                kernel: None,
                begin: now.clone(),
                end: now.clone(),
            });
            for task in tasks(&op.steps, of_many, &place) {
                // SAFETY: the caller vouches for the memory of the ops with these slots, and for the scratch memory.
                let node = unsafe { chain.append(&self.core, &task, &place)? };
                let before = std::mem::replace(&mut now, chain.note(&lane.shelf)?);
                marks.push(now.clone());
                // What cannot be told of a library's kernels is left out.
                if let Ok(Some(shape)) = chain.shape(&node, &task) {
                    pieces.push(Piece {
                        op: op.kind,
                        kernel: Some((shape, idle.clone())),
                        begin: before,
                        end: now.clone(),
                    });
                }
            }
            pieces[whole].end = now.clone();
        }
        // The driver keeps a graph that runs until that is over.
        let mut graph = Graph::new(chain, lane.stream)?;
        // SAFETY: as above; the lane keeps the marks.
        unsafe { graph.launch(lane.stream)? };
        lane.hold(lane.appended() + 1, Held::Marks(marks));
        Ok(pieces)
    }

    /// The instance for `lane`, bound to these slots. A launch may follow.
    fn ready<'a>(&self, lane: &'a Arc<Lane>, slots: &[Span]) -> Result<Option<Ready<'a>>, Failure> {
        let now = self.core.programs.now();
        let found = self.instances.take(lane, lane.index, now);
        let value = found
            .value
            .or_else(|| instance::left_by_another(&self.instances, lane));
        if let Some(mut instance) = value {
            self.core.context.pass();
            let of_many = self.is_of_many(instance.is_of_many());
            if instance.bind(&self.core, &self.recipe, of_many, slots)? {
                return Ok(Some((instance, None)));
            }
        }
        let made = self.instance(lane, slots, found.wanted)?;
        if let Some((_, None)) = made {
            self.core.context.pass();
        }
        Ok(made)
    }

    /// A new instance for `lane`, for which instances that were not used since `wanted` may give way.
    fn instance<'a>(
        &self,
        lane: &'a Arc<Lane>,
        slots: &[Span],
        wanted: u64,
    ) -> Result<Option<Ready<'a>>, Failure> {
        let Some(room) = Room::take(&self.core, self.graph_bytes(), self.recipe.scratch, wanted)
        else {
            return Ok(None);
        };
        match Instance::new(lane, &self.recipe, self.is_of_many(false), slots, room) {
            Ok((instance, alone)) => Ok(Some((Box::new(instance), alone))),
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
        size_of::<CudaProgram>() + size_of::<OfLanes>() + ops + instances
    }
}
