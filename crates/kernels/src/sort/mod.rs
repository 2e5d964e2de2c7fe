//! Sorting and top-k.
//!
//! Elements become keys whose order as unsigned numbers is the wanted one, and equal keys are ordered by their
//! places. Blocks of a line are sorted in the memory that a group shares. Of a line that is one block these are the
//! results. Of longer ones, when few elements are wanted, the first of each block are sorted again, until one block
//! is left; else sorted runs are merged by twos.

mod key;
mod text;

use smallvec::SmallVec;
use streampool_device::{DType, Sort as Op, View};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::rows::dims::{Dim, Dims};

/// The most elements that are sorted at once.
const LARGEST_BLOCK: usize = 2048;

/// The fewest elements that a group sorts.
const LEAST_OF_GROUP: usize = 512;

/// The most elements of each block that are worth sorting again.
const FEW: usize = LARGEST_BLOCK / 2;

/// Threads of a group that merges.
const MERGING: usize = 256;

/// Where parts of the scratch memory begin.
const ALIGNMENT: usize = 256;

/// A kernel that sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sort {
    dtype: DType,
    descending: bool,
    step: Step,
    sink: Sink,
    /// The class of the dimensions of lines.
    class: u8,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Sorts blocks of so many elements of the source.
    Elements(u16),
    /// Sorts blocks of so many candidates.
    Candidates(u16),
    /// Merges sorted runs of candidates.
    Merge,
}

/// Where it leaves what it has ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sink {
    /// In the scratch memory: keys and places.
    Candidates,
    /// In the results, with or without places.
    Results { places: bool },
}

/// Keys and places in the scratch memory.
#[derive(Debug, Clone, Copy)]
struct Store {
    keys: Operand,
    places: Operand,
}

/// What is sorted.
struct Task<'a> {
    op: &'a Op,
    lines: Dims<3>,
    length: usize,
    wanted: usize,
}

/// The first elements of `src`, once ordered along an axis; `None` if it has more than places have 32 bits for.
pub(crate) fn sort<K: From<Sort>>(op: &Op, limits: &Limits) -> Option<Plan<K>> {
    let (length, wanted) = (op.src.shape()[op.axis], op.values.shape()[op.axis]);
    // Along a broadcast axis all elements are one, and those that come first stay first.
    let length = match op.src.layout().strides()[op.axis] {
        0 => wanted,
        _ => length,
    };
    u32::try_from(length).ok()?;
    let indices = op.indices.as_ref().unwrap_or(&op.values);
    let strides = [&op.src, &op.values, indices].map(|view| view.layout().strides());
    let others = op.src.shape().iter().enumerate();
    let lines = Dims::collapsed(others.map(|(axis, &size)| Dim {
        size: if axis == op.axis { 1 } else { size },
        strides: strides.map(|strides| strides[axis]),
    }));
    let task = Task {
        op,
        lines,
        length,
        wanted,
    };
    Some(match lines.elements() * wanted {
        0 => Plan::default(),
        _ => task.plan(limits),
    })
}

impl Task<'_> {
    fn plan<K: From<Sort>>(&self, limits: &Limits) -> Plan<K> {
        let results = Sink::Results {
            places: self.op.indices.is_some(),
        };
        if self.length <= LARGEST_BLOCK {
            let size = block_of(self.length);
            let sorted = self.blocks(
                Step::Elements(size),
                results,
                self.length,
                self.wanted,
                None,
                None,
            );
            return Plan::of(sorted);
        }
        let few = self.wanted <= FEW;
        let keep = if few { self.wanted } else { LARGEST_BLOCK };
        let mut left = kept(self.length, keep);
        let ([mut from, mut to], scratch) = self.stores(left);
        let largest = LARGEST_BLOCK as u16;
        let first = Step::Elements(largest);
        let mut plan = Plan {
            scratch,
            ..Plan::default()
        };
        plan.push(self.blocks(first, Sink::Candidates, self.length, keep, None, Some(from)));
        if few {
            while left > LARGEST_BLOCK {
                let again = Step::Candidates(largest);
                plan.push(self.blocks(again, Sink::Candidates, left, keep, Some(from), Some(to)));
                left = kept(left, keep);
                std::mem::swap(&mut from, &mut to);
            }
            let last = Step::Candidates(block_of(left));
            plan.push(self.blocks(last, results, left, self.wanted, Some(from), None));
        } else {
            let mut run = LARGEST_BLOCK;
            while run < self.length {
                let sink = if 2 * run < self.length {
                    Sink::Candidates
                } else {
                    results
                };
                plan.push(self.merge(run, sink, from, to, limits));
                std::mem::swap(&mut from, &mut to);
                run *= 2;
            }
        }
        plan
    }

    /// Two stores for `length` candidates of each line, and how many bytes they take.
    fn stores(&self, length: usize) -> ([Store; 2], usize) {
        let count = self.lines.elements() * length;
        let keys = (count * key::bytes(self.op.src.dtype())).next_multiple_of(ALIGNMENT);
        let places = (count * size_of::<u32>()).next_multiple_of(ALIGNMENT);
        let store = |at: usize| Store {
            keys: Operand::Scratch(at),
            places: Operand::Scratch(at + keys),
        };
        ([store(0), store(keys + places)], 2 * (keys + places))
    }

    fn kernel(&self, step: Step, sink: Sink) -> Sort {
        Sort {
            dtype: self.op.src.dtype(),
            // Candidates have it in their keys.
            descending: self.op.descending && matches!(step, Step::Elements(_)),
            step,
            sink,
            class: self.lines.class(),
        }
    }

    /// The launch that sorts blocks of lines of `length`, and keeps the first `keep` elements of each.
    fn blocks<K: From<Sort>>(
        &self,
        step: Step,
        sink: Sink,
        length: usize,
        keep: usize,
        from: Option<Store>,
        to: Option<Store>,
    ) -> Dispatch<K> {
        let (Step::Elements(size) | Step::Candidates(size)) = step else {
            unreachable!("merging is no sorting of blocks")
        };
        let size = usize::from(size);
        let blocks = length.div_ceil(size);
        let of_group = size.max(LEAST_OF_GROUP);
        let groups = (self.lines.elements() * blocks).div_ceil(of_group / size);
        let numbers = [length, blocks, keep, kept_of(length, size, keep)];
        self.launch(
            self.kernel(step, sink),
            groups,
            of_group / 2,
            numbers,
            from,
            to,
        )
    }

    /// The launch that merges runs of `run` candidates by twos.
    fn merge<K: From<Sort>>(
        &self,
        run: usize,
        sink: Sink,
        from: Store,
        to: Store,
        limits: &Limits,
    ) -> Dispatch<K> {
        let count = self.lines.elements() * self.length;
        let groups = count
            .div_ceil(MERGING)
            .min(64 * limits.compute_units.max(1) as usize);
        let keep = match sink {
            Sink::Candidates => self.length,
            Sink::Results { .. } => self.wanted,
        };
        let to = (sink == Sink::Candidates).then_some(to);
        let numbers = [self.length, run, keep, self.length];
        self.launch(
            self.kernel(Step::Merge, sink),
            groups,
            MERGING,
            numbers,
            Some(from),
            to,
        )
    }

    fn launch<K: From<Sort>>(
        &self,
        kernel: Sort,
        groups: usize,
        threads: usize,
        numbers: [usize; 4],
        from: Option<Store>,
        to: Option<Store>,
    ) -> Dispatch<K> {
        let memory = |view: &View| Operand::Memory(view.span());
        let mut operands = SmallVec::new();
        if kernel.reads_source() {
            operands.push(memory(&self.op.src));
        }
        operands.extend(
            from.into_iter()
                .chain(to)
                .flat_map(|store| [store.keys, store.places]),
        );
        if to.is_none() {
            operands.push(memory(&self.op.values));
            operands.extend(self.op.indices.as_ref().map(memory));
        }
        let indices = self.op.indices.as_ref().unwrap_or(&self.op.values);
        let views = [&self.op.src, &self.op.values, indices];
        let begins = views.map(|view| view.layout().offset() as i64);
        let steps = views.map(|view| view.layout().strides()[self.op.axis] as i64);
        let params = std::iter::once(self.lines.elements())
            .chain(numbers)
            .fold(Params::new(), |params, number| params.i64(number as i64));
        let params = begins.into_iter().chain(steps).fold(params, Params::i64);
        Dispatch {
            kernel: kernel.into(),
            groups: grid([groups, 1, 1]),
            threads: threads as u32,
            operands,
            params: self.lines.params(params),
        }
    }
}

impl Sort {
    fn reads_source(&self) -> bool {
        matches!(self.step, Step::Elements(_)) || self.sink != Sink::Candidates
    }
}

/// The block that so many elements fit in.
fn block_of(length: usize) -> u16 {
    length.next_power_of_two().max(2) as u16
}

/// How many candidates the largest blocks leave of a line.
fn kept(length: usize, keep: usize) -> usize {
    kept_of(length, LARGEST_BLOCK, keep)
}

/// How many elements of a line are left if `keep` of each block stay.
fn kept_of(length: usize, block: usize, keep: usize) -> usize {
    let (whole, rest) = (length / block, length % block);
    whole * keep.min(block) + rest.min(keep)
}

#[cfg(test)]
mod tests;
