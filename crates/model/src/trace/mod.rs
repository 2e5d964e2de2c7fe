//! Traces: what a graph would have a device do for inputs of certain shapes, found by evaluating it in the pool of
//! a device that only lists its ops.
//!
//! Operators need no second version for this, shapes come out of it, and what is known is computed on the way. Where
//! an operator asks for values that are not known, the trace ends.

mod device;
mod listing;
mod log;
mod queue;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use streampool_device::{ChannelsLast, DType, Layout, Op, Span};
use streampool_runtime::{Pool, Settings};
use streampool_tensor::{Encoder, Tensor};

use crate::error::{Error, NodeError, Result};
use crate::evaluate::{Scope, is_same, step};
use crate::graph::{Graph, ValueId};
use crate::nodes::{Pools, Value};
use device::TraceDevice;
pub use listing::{ListedOp, Listing, Made, Memory, Nodes, Outcome, Picture, Source, TensorKind};

/// What is given to a trace.
#[derive(Clone)]
pub enum Given {
    /// A value that is known.
    Known(Value),
    /// A tensor that each run gives.
    Input(TensorKind),
    /// A sequence of tensors that each run gives.
    Inputs(Vec<TensorKind>),
}

/// Why a trace ended before the last node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The node that asked for values which are not known, draws numbers that are others in each run, or takes too long to be
    /// part of a plan.
    pub node: usize,
    /// The inputs that these depend on, as they were counted when they were given.
    pub inputs: Vec<usize>,
}

/// The pool of a trace under way.
struct Tracing<'a> {
    known: &'a Pool,
    pool: Pool,
    device: Arc<TraceDevice>,
    /// By where it lies, what is known and how the trace has it.
    lifted: RefCell<FxHashMap<Span, Vec<(Tensor, Tensor)>>>,
    /// How many nodes of graphs inside nodes may still become part of the plan.
    unrolled: Cell<usize>,
}

/// So many nodes of graphs inside nodes become part of a plan, which takes a tenth of a second to make. A longer loop is
/// evaluated, round by round, when the model is run: that takes ten times as long as its rounds in a plan do.
const MOST_UNROLLED: usize = 1 << 14;

impl Pools for Tracing<'_> {
    fn known(&self) -> &Pool {
        self.known
    }

    fn work(&self) -> &Pool {
        &self.pool
    }

    fn lift(&self, known: &Tensor) -> Result<Tensor, NodeError> {
        let span = known.buffer().span();
        let same = |(other, _): &&(Tensor, Tensor)| is_same(other, known);
        if let Some(all) = self.lifted.borrow().get(&span)
            && let Some((_, lifted)) = all.iter().find(same)
        {
            return Ok(lifted.clone());
        }
        let lifted = self.blank(known.dtype(), *known.layout(), known.buffer().bytes())?;
        self.device.source(
            lifted.buffer().span(),
            Source::Constant(known.clone(), None),
        );
        let mut all = self.lifted.borrow_mut();
        all.entry(span)
            .or_default()
            .push((known.clone(), lifted.clone()));
        Ok(lifted)
    }

    fn fresh(&self) -> Result<(), NodeError> {
        self.device.leave();
        Err(NodeError::unsupported(
            "what is another in each run in a plan",
        ))
    }

    fn repeats(&self, nodes: usize) -> Result<(), NodeError> {
        // One that becomes too long in the end need not begin.
        match nodes <= self.unrolled.get() {
            true => Ok(()),
            false => Err(self.too_long()),
        }
    }

    fn enter(&self, nodes: usize) -> Result<(), NodeError> {
        // One without nodes takes its time, too.
        match self.unrolled.get().checked_sub(nodes.max(1)) {
            Some(left) => {
                self.unrolled.set(left);
                Ok(())
            }
            None => Err(self.too_long()),
        }
    }
}

impl Tracing<'_> {
    /// Leaves the node to the run.
    fn too_long(&self) -> NodeError {
        self.device.leave();
        NodeError::unsupported("so long a loop in a plan")
    }

    fn blank(&self, dtype: DType, layout: Layout, bytes: usize) -> Result<Tensor, NodeError> {
        let stream = self
            .pool
            .current()
            .map_err(streampool_tensor::Error::from)?;
        let buffer = stream
            .allocate(bytes)
            .map_err(streampool_tensor::Error::from)?;
        Ok(Tensor::from_buffer(&self.pool, buffer, dtype, layout)?)
    }

    fn input(&self, place: usize, kind: &TensorKind) -> Result<Tensor, NodeError> {
        let layout = Layout::contiguous(&kind.shape).map_err(|error| {
            NodeError::from(streampool_tensor::Error::from(
                streampool_runtime::Error::from(error),
            ))
        })?;
        let bytes = layout.elements() * kind.dtype.size();
        let tensor = self.blank(kind.dtype, layout, bytes)?;
        self.device
            .source(tensor.buffer().span(), Source::Input(place));
        Ok(tensor)
    }

    /// What a wanted value is; `taken` is the memory of the others.
    fn outcome(&self, value: &Value, taken: &mut HashSet<Memory>) -> Result<Outcome> {
        if value
            .tensors()
            .iter()
            .all(|tensor| tensor.pool() == self.known)
        {
            return Ok(Outcome::Known(value.clone()));
        }
        let mut made = value
            .tensors()
            .iter()
            .map(|tensor| self.made(tensor, taken));
        Ok(match value {
            Value::Sequence(_) => Outcome::Sequence(made.collect::<Result<_>>()?),
            _ => Outcome::Tensor(made.next().ok_or_else(|| {
                Error::Graph(NodeError::malformed("an output", "nothing", "a tensor"))
            })??),
        })
    }

    fn made(&self, tensor: &Tensor, taken: &mut HashSet<Memory>) -> Result<Made> {
        let tensor = match tensor.pool() == self.known {
            true => self.lift(tensor).map_err(Error::Graph)?,
            false => tensor.clone(),
        };
        let kind = TensorKind::of(&tensor);
        let span = tensor.buffer().span();
        let memory = Memory::of(span);
        let whole = tensor.is_contiguous() && span.bytes == kind.bytes();
        if whole && !self.device.has_source(memory) && taken.insert(memory) {
            return Ok(Made { memory, kind });
        }
        let on = Encoder::new("output", &self.pool)?;
        let mut copy = on.blank(kind.dtype, &kind.shape)?;
        on.encode(Op::Copy {
            src: tensor.operand()?,
            dst: copy.operand()?,
        })?;
        let memory = Memory::of(copy.finish().buffer().span());
        taken.insert(memory);
        Ok(Made { memory, kind })
    }
}

/// Traces the nodes `nodes` of `graph` with these values given, up to the end or to the first node that asks for values
/// which are not known, or that is too long for a plan: that one is told. The values that are then `wanted` are the outputs of the listing.
/// It is for a device with these preferences.
pub fn trace(
    graph: &Graph,
    nodes: std::ops::Range<usize>,
    known: &Pool,
    given: Vec<(ValueId, Given)>,
    channels_last: ChannelsLast,
    wanted: impl FnOnce(Option<usize>) -> Vec<ValueId>,
) -> Result<(Listing, Option<Asked>)> {
    let device = TraceDevice::new(channels_last);
    let settings = Settings::builder()
        .without_environment()
        .reuse_memory(false)
        .build()
        .map_err(streampool_runtime::Error::from)?;
    let tracing = Tracing {
        known,
        pool: Pool::with_settings(device.clone(), settings)?,
        device,
        lifted: RefCell::default(),
        unrolled: Cell::new(MOST_UNROLLED),
    };
    let mut scope = Scope::new(graph, &tracing);
    let mut inputs = 0;
    let mut input = |kind: &TensorKind| {
        inputs += 1;
        tracing.input(inputs - 1, kind).map_err(Error::Graph)
    };
    let mut ids = HashSet::new();
    for (id, given) in given {
        let value = match given {
            Given::Known(value) => value,
            Given::Input(kind) => input(&kind)?.into(),
            Given::Inputs(kinds) => {
                Value::Sequence(kinds.iter().map(&mut input).collect::<Result<_>>()?)
            }
        };
        scope.set(id, value);
        ids.insert(id);
    }
    let mut ended = None;
    for place in nodes {
        tracing.device.begin(place);
        if let Err(error) = step(&mut scope, graph, &graph.nodes[place]) {
            let Some(inputs) = tracing.device.asked() else {
                return Err(error);
            };
            ended = Some(Asked {
                node: place,
                inputs,
            });
            break;
        }
    }
    let mut taken = HashSet::new();
    let mut outputs = Vec::new();
    for id in wanted(ended.as_ref().map(|asked| asked.node)) {
        // Who gave it has it for the next part.
        if ended.is_some() && ids.contains(&id) {
            continue;
        }
        if let Some(value) = scope.get(id) {
            outputs.push((id, tracing.outcome(value, &mut taken)?));
        }
    }
    Ok((tracing.device.listing(outputs), ended))
}
