//! Who writes and who reads each piece of memory of a listing.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use streampool_device::{Access, Op, View};

use crate::trace::{ListedOp, Memory, Outcome};

/// The writers and readers of memory, by step.
pub struct Uses {
    memory: FxHashMap<Memory, Use>,
    outputs: FxHashSet<Memory>,
}

/// The steps that touch one piece of memory.
#[derive(Debug, Default, Clone)]
struct Use {
    writes: SmallVec<[usize; 2]>,
    reads: SmallVec<[usize; 2]>,
}

impl Uses {
    /// Of these steps; what `outcomes` name is read by the caller.
    pub fn of(steps: &[ListedOp], outputs: FxHashSet<Memory>) -> Uses {
        let mut uses = Uses {
            memory: FxHashMap::default(),
            outputs,
        };
        for (place, step) in steps.iter().enumerate() {
            uses.add(place, &step.op);
        }
        uses
    }

    fn add(&mut self, place: usize, op: &Op) {
        op.for_each_operand(|_, access, view| {
            let one = self.memory.entry(Memory::of(view.span())).or_default();
            match access {
                Access::Read => one.reads.push(place),
                Access::Write => one.writes.push(place),
            }
        });
    }

    fn remove(&mut self, place: usize, op: &Op) {
        op.for_each_operand(|_, access, view| {
            if let Some(one) = self.memory.get_mut(&Memory::of(view.span())) {
                let list = match access {
                    Access::Read => &mut one.reads,
                    Access::Write => &mut one.writes,
                };
                if let Some(found) = list.iter().position(|&other| other == place) {
                    list.remove(found);
                }
            }
        });
    }

    /// ListedOp `place` becomes `new`.
    pub fn replace(&mut self, place: usize, old: &Op, new: &Op) {
        self.remove(place, old);
        self.add(place, new);
    }

    /// The one step that writes what `view` reads, if only that writes it.
    pub fn writer(&self, view: &View) -> Option<usize> {
        match self.memory.get(&Memory::of(view.span()))?.writes[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The one step that reads memory that one step writes, if nobody else sees it.
    pub fn only_reader(&self, view: &View) -> Option<usize> {
        let memory = Memory::of(view.span());
        let one = self.memory.get(&memory)?;
        match (&one.writes[..], &one.reads[..]) {
            ([_], [reader]) if !self.outputs.contains(&memory) => Some(*reader),
            _ => None,
        }
    }

    /// The steps that read memory that one step writes, if the caller does not see it.
    pub fn readers(&self, view: &View) -> Option<&[usize]> {
        let memory = Memory::of(view.span());
        let one = self.memory.get(&memory)?;
        (one.writes.len() == 1 && !self.outputs.contains(&memory)).then_some(&one.reads)
    }

    /// The steps that write or read the memory of `view`.
    pub fn steps(&self, view: &View) -> impl Iterator<Item = usize> {
        let one = self.memory.get(&Memory::of(view.span())).into_iter();
        one.flat_map(|one| one.writes.iter().chain(&one.reads).copied())
    }

    /// Whether no step from `first` to `last`, those included, writes the memory of `view`: it can be read at either.
    pub fn is_settled(&self, view: &View, first: usize, last: usize) -> bool {
        let one = self.memory.get(&Memory::of(view.span()));
        one.is_none_or(|one| {
            let mut writes = one.writes.iter();
            !writes.any(|place| (first..=last).contains(place))
        })
    }
}

/// The memory of what is made for the caller.
pub fn outputs(outcomes: &[(crate::graph::ValueId, Outcome)]) -> FxHashSet<Memory> {
    let mut all = FxHashSet::default();
    for (_, outcome) in outcomes {
        match outcome {
            Outcome::Known(_) => {}
            Outcome::Tensor(made) => {
                all.insert(made.memory);
            }
            Outcome::Sequence(made) => all.extend(made.iter().map(|made| made.memory)),
        }
    }
    all
}

/// Whether a view is all of its memory, row-major.
pub fn is_whole(view: &View) -> bool {
    let layout = view.layout();
    layout.is_contiguous()
        && layout.offset() == 0
        && layout.elements() * view.dtype().size() == view.span().bytes
}
