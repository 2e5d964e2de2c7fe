//! The plan of a listing: what is left of its ops, and where their operands lie.

use std::convert::Infallible;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use streampool_device::{Access, DType, Layout, Op};
use streampool_tensor::Tensor;

use super::placement::{self, Piece};
use crate::graph::ValueId;
use crate::nodes::Value;
use crate::trace::{ListedOp, Listing, Made, Memory, Nodes, Outcome, Picture, Source, TensorKind};

/// Ops over one block that host and device share, one of scratch, and constants.
pub struct Plan {
    /// The ops, in order.
    pub ops: Vec<Planned>,
    /// Where each input is put.
    pub inputs: Vec<Port>,
    /// What each output is.
    pub outputs: Vec<(ValueId, Output)>,
    /// What is only read.
    pub constants: Vec<Constant>,
    /// The size of the block in which inputs and outputs lie, the inputs first.
    pub shared_bytes: usize,
    /// How much of it, from the start, is inputs.
    pub input_bytes: usize,
    /// The size of the block of everything else.
    pub scratch_bytes: usize,
    /// What its ops go over.
    pub work: u64,
}

/// One op of a plan.
pub struct Planned {
    /// What is done.
    pub op: Box<Op<Operand>>,
    /// For which nodes of the graph: the one that gave it its name, and those joined with it.
    pub nodes: Nodes,
}

/// A tensor in the shared block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Where it begins.
    pub offset: usize,
    /// What it is.
    pub kind: TensorKind,
}

/// What an output is.
pub enum Output {
    /// A value that does not depend on the inputs.
    Known(Value),
    /// A tensor.
    Tensor(Port),
    /// A sequence of tensors.
    Sequence(Vec<Port>),
}

/// What a program only reads.
pub enum Constant {
    /// The memory of a tensor that is known; if these are pictures, with the channels of each place side by side.
    Tensor(Tensor, Option<Picture>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

/// Where an operand lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operand {
    /// In which block, and where in it.
    pub place: Location,
    /// The size of its memory.
    pub bytes: usize,
    /// Its element type.
    pub dtype: DType,
    /// How its elements lie from there on.
    pub layout: Layout,
}

/// A block, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The block of inputs and outputs.
    Shared(usize),
    /// The block of everything else.
    Scratch(usize),
    /// The constant of this number.
    Constant(usize),
}

impl Plan {
    /// The plan of a listing with these inputs.
    pub fn new(listing: Listing, inputs: Vec<TensorKind>) -> Plan {
        let mut shared_bytes = 0;
        let mut port = |kind: TensorKind| {
            let offset = shared_bytes;
            shared_bytes += placement::padded(kind.bytes());
            Port { offset, kind }
        };
        let inputs: Vec<Port> = inputs.into_iter().map(&mut port).collect();
        let input_bytes = inputs
            .iter()
            .map(|port| placement::padded(port.kind.bytes()))
            .sum();
        let mut places = FxHashMap::default();
        let mut output = |made: Made| {
            let port = port(made.kind);
            places.insert(made.memory, Location::Shared(port.offset));
            port
        };
        let outputs = listing.outputs.into_iter().map(|(id, outcome)| {
            let output = match outcome {
                Outcome::Known(value) => Output::Known(value),
                Outcome::Tensor(made) => Output::Tensor(output(made)),
                Outcome::Sequence(made) => {
                    Output::Sequence(made.into_iter().map(&mut output).collect())
                }
            };
            (id, output)
        });
        let outputs = outputs.collect();
        let steps = used(listing.steps, places.keys().copied().collect());
        let mut constants = Vec::new();
        let mut sources: Vec<(Memory, Source)> = listing.sources.into_iter().collect();
        sources.sort_unstable_by_key(|&(memory, _)| memory);
        let mut touched = FxHashSet::default();
        for step in &steps {
            for_each_memory(&step.op, |memory| {
                touched.insert(memory);
            });
        }
        for (memory, source) in sources {
            if !touched.contains(&memory) {
                continue;
            }
            let constant = match source {
                Source::Input(place) => {
                    places.insert(memory, Location::Shared(inputs[place].offset));
                    continue;
                }
                Source::Constant(tensor, picture) => Constant::Tensor(tensor, picture),
                Source::Bytes(bytes) => Constant::Bytes(bytes),
            };
            places.insert(memory, Location::Constant(constants.len()));
            constants.push(constant);
        }
        let scratch_bytes = place(&steps, &mut places);
        let work = work(&steps);
        let ops = steps
            .into_iter()
            .map(|step| Planned {
                op: Box::new(bound(&step.op, &places)),
                nodes: step.nodes,
            })
            .collect();
        Plan {
            ops,
            inputs,
            outputs,
            constants,
            shared_bytes,
            input_bytes,
            scratch_bytes,
            work,
        }
    }
}

/// What the ops of these steps go over.
pub fn work(steps: &[ListedOp]) -> u64 {
    let each = steps.iter().map(|step| step.op.work());
    each.fold(0, u64::saturating_add)
}

/// The steps without those that write only what nobody reads.
fn used(steps: Vec<ListedOp>, mut needed: FxHashSet<Memory>) -> Vec<ListedOp> {
    let mut kept: Vec<ListedOp> = Vec::new();
    for step in steps.into_iter().rev() {
        let mut writes_needed = false;
        step.op.for_each_operand(|_, access, view| {
            writes_needed |= access == Access::Write && needed.contains(&Memory::of(view.span()));
        });
        if writes_needed {
            for_each_memory(&step.op, |memory| {
                needed.insert(memory);
            });
            kept.push(step);
        }
    }
    kept.reverse();
    kept
}

/// Calls `f` with the memory of each operand.
fn for_each_memory(op: &Op, mut f: impl FnMut(Memory)) {
    op.for_each_operand(|_, _, view| f(Memory::of(view.span())));
}

/// Gives all memory that has no place one in scratch; says how much that takes.
fn place(steps: &[ListedOp], places: &mut FxHashMap<Memory, Location>) -> usize {
    let mut numbers: FxHashMap<Memory, usize> = FxHashMap::default();
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        // What goes over the results of a convolution may do so while that still reads.
        let follows = index.checked_sub(1).filter(|&before| {
            matches!(
                (&*steps[before].op, &*step.op),
                (Op::Conv(_), Op::Map { .. })
            )
        });
        step.op.for_each_operand(|_, _, view| {
            let memory = Memory::of(view.span());
            if places.contains_key(&memory) {
                return;
            }
            let number = *numbers.entry(memory).or_insert_with(|| {
                pieces.push(Piece {
                    bytes: view.span().bytes,
                    first: follows.unwrap_or(index),
                    last: index,
                });
                pieces.len() - 1
            });
            pieces[number].last = index;
        });
    }
    let (offsets, bytes) = placement::arrange(&pieces);
    places.extend(
        numbers
            .into_iter()
            .map(|(memory, number)| (memory, Location::Scratch(offsets[number]))),
    );
    bytes
}

fn bound(op: &Op, places: &FxHashMap<Memory, Location>) -> Op<Operand> {
    let bound = op.try_map(|_, _, view| {
        Ok::<Operand, Infallible>(Operand {
            place: places[&Memory::of(view.span())],
            bytes: view.span().bytes,
            dtype: view.dtype(),
            layout: *view.layout(),
        })
    });
    match bound {
        Ok(op) => op,
    }
}
