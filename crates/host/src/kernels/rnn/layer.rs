//! All steps of some sequences.

use std::ops::Range;

use streampool_device::{Cell, Direction, Rnn, View};

use super::gates::{self, Step};
use super::weights::{Sheet, Weights, bias_at};
use crate::given_up::Steps;
use crate::kernels::convert::Float;
use crate::kernels::matmul::blocked::even_parts;
use crate::kernels::matmul::factor::Factor;
use crate::kernels::matmul::multiply::{InPlace, InPlaceUnit, MAX_COLUMNS, SKINNY_ROWS, Sums};
use crate::kernels::real::Real;
use crate::kernels::rounds::rounds;
use crate::kernels::rows;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
use crate::team::Team;

/// A layer whose input was multiplied and whose weights are packed.
pub(super) struct Layer<'a, T: Float> {
    pub(super) op: &'a Rnn,
    pub(super) weights: &'a Weights<T>,
    /// What each step sees of the input: for each direction, step and sequence, gate after gate.
    pub(super) projected: Shared<T::Wide>,
    pub(super) packed: Shared<T::Wide>,
}

/// What some sequences have come to: rows of numbers, one for each. The threads that step them share it.
struct Memory<R> {
    /// Before a step, and after it; they change places.
    hidden: [Shared<R>; 2],
    cell: Shared<R>,
    reset: Shared<R>,
    sums: Shared<R>,
    bias: Shared<R>,
    peephole: Shared<R>,
}

/// A part of a step that needs what the one before made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The states are reset.
    Reset,
    /// They become those after the step.
    Advance,
}

/// A share of a phase: what becomes of some units.
#[derive(Debug, Clone)]
struct Task {
    phase: Phase,
    /// Steps before this one.
    done: usize,
    /// The step's number.
    step: usize,
    direction: usize,
    sequences: Range<usize>,
    units: Range<usize>,
}

/// One of the sequences.
#[derive(Debug, Clone, Copy)]
struct Place {
    sequence: usize,
    /// Its number among those that are stepped together.
    index: usize,
}

impl<T> Layer<'_, T>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: InPlaceUnit,
{
    fn hidden(&self) -> usize {
        self.weights.hidden
    }

    /// Computes all steps of these sequences in a direction.
    ///
    /// # Safety
    /// The op's views are as promised to `execute`, and nobody else writes the results of these sequences.
    pub(super) unsafe fn sequences(&self, direction: usize, range: Range<usize>, team: &dyn Team) {
        let (size, count) = (self.hidden(), range.len());
        let lengths = [
            count * size,
            count * size,
            count * size,
            count * size,
            count * self.weights.sums(),
            size,
            3 * size,
        ];
        rows::with_row::<T::Wide, _>(lengths.iter().sum(), |all| {
            all.fill(Real::ZERO);
            let mut rest = all;
            let [before, after, cell, reset, sums, bias, peephole] = lengths.map(|length| {
                let (part, left) = std::mem::take(&mut rest).split_at_mut(length);
                rest = left;
                Shared(part.as_mut_ptr())
            });
            let memory = Memory {
                hidden: [before, after],
                cell,
                reset,
                sums,
                bias,
                peephole,
            };
            let phases: &[Phase] = match self.op.cell {
                Cell::Gru { reset_after: false } => &[Phase::Reset, Phase::Advance],
                _ => &[Phase::Advance],
            };
            let steps = self.op.src.shape()[0];
            let backwards = direction == 1 || self.op.direction == Direction::Reverse;
            // SAFETY: passed on from the caller.
            unsafe { self.begin(direction, range.clone(), &memory) };
            let parts = match size.is_multiple_of(UNITS) {
                true => (count * self.weights.length() / GRAIN).clamp(1, team.width()),
                // Sums are stored by whole vectors, some of which would be two threads'.
                false => 1,
            };
            rounds(steps * phases.len(), parts, team, &|round, part| {
                let done = round / phases.len();
                let task = Task {
                    phase: phases[round % phases.len()],
                    done,
                    step: if backwards { steps - 1 - done } else { done },
                    direction,
                    sequences: range.clone(),
                    units: share(size, part, parts),
                };
                // SAFETY: as above. A phase reads what those before wrote, and writes numbers of its units alone.
                unsafe { self.phase(&task, &memory) };
            });
            for (index, sequence) in range.clone().enumerate() {
                let at = [direction, sequence, 0];
                // SAFETY: as above; all steps are over.
                unsafe {
                    let hidden = part_of(&memory.hidden[steps % 2], index * size, size);
                    write::<T>(hidden, self.op.last_hidden.as_ref(), at);
                    let cell = part_of(&memory.cell, index * size, size);
                    write::<T>(cell, self.op.last_cell.as_ref(), at);
                }
            }
        });
    }

    /// The state before the first step, and what is the same at all.
    ///
    /// # Safety
    /// As for [`sequences`](Self::sequences). So for all below.
    unsafe fn begin(&self, direction: usize, range: Range<usize>, memory: &Memory<T::Wide>) {
        let (op, size) = (self.op, self.hidden());
        // SAFETY: the views have these shapes, and no other thread is at the memory yet.
        unsafe {
            let [hidden, _] = &memory.hidden;
            for (view, state) in [(op.hidden, hidden), (op.cell_state, &memory.cell)] {
                let Some(view) = view else { continue };
                for (index, sequence) in range.clone().enumerate() {
                    let from = element::<T>(&view, [direction, sequence, 0]);
                    let step = view.layout().strides()[2];
                    rows::read::<T>(from, step, part_mut(state, index * size, size));
                }
            }
            if let Some(bias) = &op.bias
                && self.weights.resets_bias()
            {
                let values = part_mut(&memory.bias, 0, size);
                for (index, value) in values.iter_mut().enumerate() {
                    *value = bias_at::<T>(bias, direction, 5 * size + index);
                }
            }
            if let Some(peephole) = &op.peephole {
                let values = part_mut(&memory.peephole, 0, 3 * size);
                for (index, value) in values.iter_mut().enumerate() {
                    *value = bias_at::<T>(peephole, direction, index);
                }
            }
        }
    }

    unsafe fn phase(&self, task: &Task, memory: &Memory<T::Wide>) {
        let [plain, reset] = self.weights.sheets();
        let hidden = &memory.hidden[task.done % 2];
        let sequences = task.sequences.clone().enumerate();
        // SAFETY: the caller's promise.
        unsafe {
            match (task.phase, reset.rows) {
                (Phase::Reset, _) | (Phase::Advance, 0) => {
                    self.multiply(task, plain, hidden, &memory.sums);
                }
                (Phase::Advance, _) => self.multiply(task, reset, &memory.reset, &memory.sums),
            }
            for (index, sequence) in sequences {
                let place = Place { sequence, index };
                match task.phase {
                    Phase::Reset => {
                        let at = index * self.hidden() + task.units.start;
                        gates::reset(
                            &self.made(task, place, memory),
                            part_of(hidden, at, task.units.len()),
                            part_mut(&memory.reset, at, task.units.len()),
                        );
                    }
                    Phase::Advance => self.advance(task, place, memory),
                }
            }
        }
    }

    /// The states of some units after a step.
    unsafe fn advance(&self, task: &Task, place: Place, memory: &Memory<T::Wide>) {
        let Task { units, step, .. } = task;
        let at = place.index * self.hidden() + units.start;
        let [before, after] = [task.done % 2, (task.done + 1) % 2];
        let to = [*step, task.direction, place.sequence, units.start];
        // SAFETY: the caller's promise.
        unsafe {
            let before = part_of(&memory.hidden[before], at, units.len());
            let after = part_mut(&memory.hidden[after], at, units.len());
            if *step >= self.length(place.sequence) {
                after.copy_from_slice(before);
                return self.clear(to, units.len());
            }
            let cell = part_mut(&memory.cell, at, units.len());
            gates::advance(&self.made(task, place, memory), before, after, cell);
            write::<T>(after, Some(&self.op.dst), to);
        }
    }

    /// What the states of some units after a step are made of.
    unsafe fn made<'m>(
        &self,
        task: &Task,
        place: Place,
        memory: &'m Memory<T::Wide>,
    ) -> Step<'m, T::Wide> {
        let (op, size) = (self.op, self.hidden());
        let (steps, batch) = (op.src.shape()[0], op.src.shape()[1]);
        let (gates, sums) = (op.cell.gates() * size, self.weights.sums());
        let row = (task.direction * steps + task.step) * batch + place.sequence;
        let [_, reset] = self.weights.sheets();
        // SAFETY: each step of each sequence has a row of what it sees of the input; the sums of these units are this
        // thread's.
        unsafe {
            let state = memory.sums.at((place.index * sums) as isize).cast_const();
            let peephole = match op.peephole {
                Some(_) => part_of(&memory.peephole, 0, 3 * size),
                None => &[],
            };
            Step {
                cell: op.cell,
                size,
                first: task.units.start,
                input: part_of(&self.projected, row * gates, gates),
                state,
                reset: state.add(reset.sums()),
                bias: part_of(&memory.bias, 0, size),
                peephole,
            }
        }
    }

    /// How many steps a sequence has.
    unsafe fn length(&self, sequence: usize) -> usize {
        match &self.op.lengths {
            None => usize::MAX,
            // SAFETY: there is a length for each sequence.
            Some(lengths) => unsafe {
                let length = *element::<i32>(lengths, [sequence]);
                usize::try_from(length).unwrap_or(0)
            },
        }
    }

    /// Writes the states of some units as zeros.
    unsafe fn clear(&self, place: [usize; 4], units: usize) {
        let step = self.op.dst.layout().strides()[3];
        let to = element::<T>(&self.op.dst, place);
        for index in 0..units as isize {
            // SAFETY: the caller's promise.
            unsafe {
                to.wrapping_offset(index * step)
                    .write(<T as Float>::narrow(Real::ZERO))
            };
        }
    }

    /// The sums of the states with the weights of a sheet for a task's units.
    unsafe fn multiply(
        &self,
        task: &Task,
        sheet: &Sheet,
        states: &Shared<T::Wide>,
        sums: &Shared<T::Wide>,
    ) {
        let size = self.hidden();
        if task.units.len() == size {
            // SAFETY: the caller's promise.
            return unsafe { self.multiply_columns(task, sheet, 0..sheet.rows, states, sums) };
        }
        for gate in (0..sheet.rows).step_by(size) {
            let columns = gate + task.units.start..gate + task.units.end;
            // SAFETY: the caller's promise.
            unsafe { self.multiply_columns(task, sheet, columns, states, sums) };
        }
    }

    unsafe fn multiply_columns(
        &self,
        task: &Task,
        sheet: &Sheet,
        columns: Range<usize>,
        states: &Shared<T::Wide>,
        sums: &Shared<T::Wide>,
    ) {
        let (size, row) = (self.hidden(), self.weights.sums());
        let mut steps = Steps::default();
        let mut first = columns.start;
        while first < columns.end {
            let (panel, within) = (first / MAX_COLUMNS, first % MAX_COLUMNS);
            let count = (columns.end - first).min(MAX_COLUMNS - within);
            let at = self.weights.panel_at(task.direction, sheet, panel) + within;
            for rows in even_parts(task.sequences.len(), SKINNY_ROWS) {
                steps.take(rows.len() * count * size);
                let operands = InPlace {
                    a: states.at((rows.start * size) as isize).cast_const(),
                    a_row: size as isize,
                    a_step: 1,
                    b: self.packed.at(at as isize).cast_const(),
                    b_next: MAX_COLUMNS as isize,
                    steps: size,
                    rows: rows.len(),
                    // Panels are filled up with zeros.
                    columns: count.next_multiple_of(UNITS),
                };
                let sums = Sums {
                    at: sums.at((rows.start * row + sheet.sums() + first) as isize),
                    row,
                };
                // SAFETY: the panel is packed, and sums have room for whole panels.
                unsafe { T::Wide::skinny(&operands, sums) };
            }
            first += count;
        }
    }
}

/// One of `parts` about equal parts of a state's units, each of whole [`UNITS`] if there is more than one.
fn share(units: usize, part: usize, parts: usize) -> Range<usize> {
    let bound = |part: usize| match part == parts {
        true => units,
        false => units / UNITS * part / parts * UNITS,
    };
    bound(part)..bound(part + 1)
}

/// `count` numbers from one on, to read.
///
/// # Safety
/// They are initialised, alive for as long as the slice, and nobody writes them meanwhile.
unsafe fn part_of<'m, R>(numbers: &Shared<R>, from: usize, count: usize) -> &'m [R] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(numbers.at(from as isize), count) }
}

/// `count` numbers from one on, to write.
///
/// # Safety
/// They are initialised, alive for as long as the slice, and nobody else is at them meanwhile.
unsafe fn part_mut<'m, R>(numbers: &Shared<R>, from: usize, count: usize) -> &'m mut [R] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(numbers.at(from as isize), count) }
}

/// Multiplications of a step that are worth a thread.
const GRAIN: usize = 1 << 14;

/// Units that any machine computes by whole vectors, and whose numbers share no cache line with others.
const UNITS: usize = 32;

/// The address of an element.
fn element<T>(view: &View, index: impl IntoIterator<Item = usize>) -> *mut T {
    let strides = view.layout().strides();
    let distances = index.into_iter().zip(strides);
    let distance: isize = distances
        .map(|(index, stride)| index as isize * stride)
        .sum();
    address::<T>(view).wrapping_offset(distance)
}

/// Stores a state from an element on, if there is a view to store it to.
///
/// # Safety
/// The view has room for it from there on, and it can be written.
unsafe fn write<T: Float>(
    state: &[T::Wide],
    view: Option<&View>,
    place: impl IntoIterator<Item = usize>,
) {
    let Some(view) = view else { return };
    let step = view.layout().strides().last().copied().unwrap_or(1);
    // SAFETY: the caller's promise.
    unsafe { rows::write::<T>(state, element(view, place), step) };
}
