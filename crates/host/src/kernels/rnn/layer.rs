//! All steps of some sequences.

use std::ops::Range;

use streampool_device::{Cell, Direction, Rnn, View};

use super::gates::{self, Step};
use super::weights::{Sheet, Weights, bias_at};
use crate::kernels::convert::Float;
use crate::kernels::matmul::blocked::even_parts;
use crate::kernels::matmul::factor::Factor;
use crate::kernels::matmul::multiply::{InPlace, MAX_COLUMNS, SKINNY_ROWS, Sums, Unit};
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
    hidden: Shared<R>,
    cell: Shared<R>,
    reset: Shared<R>,
    sums: Shared<R>,
    bias: Shared<R>,
    peephole: Shared<R>,
}

/// A part of a step that needs what the one before made.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The states are multiplied with the weights.
    Multiply,
    /// They are reset.
    Reset,
    /// What was reset is multiplied with its weights.
    MultiplyReset,
    /// They become those after the step.
    Advance,
}

/// One sequence at a step.
#[derive(Debug, Clone, Copy)]
struct Place {
    direction: usize,
    step: usize,
    sequence: usize,
    /// Its number among those that are stepped together.
    index: usize,
}

impl<T> Layer<'_, T>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: Unit,
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
            count * self.weights.sums(),
            size,
            3 * size,
        ];
        rows::with_row::<T::Wide, _>(lengths.iter().sum(), |all| {
            let mut rest = all;
            let [hidden, cell, reset, sums, bias, peephole] = lengths.map(|length| {
                let (part, left) = std::mem::take(&mut rest).split_at_mut(length);
                rest = left;
                Shared(part.as_mut_ptr())
            });
            let memory = Memory {
                hidden,
                cell,
                reset,
                sums,
                bias,
                peephole,
            };
            let phases: &[Phase] = match self.op.cell {
                Cell::Gru { reset_after: false } => &[
                    Phase::Multiply,
                    Phase::Reset,
                    Phase::MultiplyReset,
                    Phase::Advance,
                ],
                _ => &[Phase::Multiply, Phase::Advance],
            };
            let steps = self.op.src.shape()[0];
            let backwards = direction == 1 || self.op.direction == Direction::Reverse;
            // SAFETY: passed on from the caller.
            unsafe { self.begin(direction, range.clone(), &memory) };
            let parts = (count * self.weights.length() / GRAIN).clamp(1, team.width());
            rounds(steps * phases.len(), parts, team, &|round, part| {
                let step = round / phases.len();
                let step = if backwards { steps - 1 - step } else { step };
                let phase = phases[round % phases.len()];
                // SAFETY: as above. What a phase writes lies apart for each of its parts, and is read by later ones.
                unsafe { self.phase(phase, direction, range.clone(), step, part, parts, &memory) };
            });
            for (index, sequence) in range.clone().enumerate() {
                let at = [direction, sequence, 0];
                // SAFETY: as above; all steps are over.
                unsafe {
                    let hidden = part_of(&memory.hidden, index * size, size);
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
            for (view, state) in [(op.hidden, &memory.hidden), (op.cell_state, &memory.cell)] {
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

    /// One of `parts` of a phase.
    #[allow(
        clippy::too_many_arguments,
        reason = "the coordinates of a piece of work"
    )]
    unsafe fn phase(
        &self,
        phase: Phase,
        direction: usize,
        range: Range<usize>,
        step: usize,
        part: usize,
        parts: usize,
        memory: &Memory<T::Wide>,
    ) {
        let count = range.len();
        let units = share(self.hidden(), UNITS, part, parts);
        let places = range.enumerate().map(|(index, sequence)| Place {
            direction,
            step,
            sequence,
            index,
        });
        let [plain, reset] = self.weights.sheets();
        // SAFETY: the caller's promise.
        unsafe {
            match phase {
                Phase::Multiply => {
                    let panels = share(plain.panels(), 1, part, parts);
                    self.multiply(
                        direction,
                        plain,
                        panels,
                        count,
                        &memory.hidden,
                        &memory.sums,
                    );
                }
                Phase::MultiplyReset => {
                    let panels = share(reset.panels(), 1, part, parts);
                    self.multiply(direction, reset, panels, count, &memory.reset, &memory.sums);
                }
                Phase::Reset => {
                    for place in places {
                        let at = place.index * self.hidden() + units.start;
                        gates::reset(
                            &self.made(place, units.clone(), memory),
                            part_of(&memory.hidden, at, units.len()),
                            part_mut(&memory.reset, at, units.len()),
                        );
                    }
                }
                Phase::Advance => {
                    for place in places {
                        self.advance(place, units.clone(), memory);
                    }
                }
            }
        }
    }

    /// The states of some units after a step.
    unsafe fn advance(&self, place: Place, units: Range<usize>, memory: &Memory<T::Wide>) {
        let Place {
            direction,
            step,
            sequence,
            index,
        } = place;
        let to = [step, direction, sequence, units.start];
        let at = index * self.hidden() + units.start;
        // SAFETY: the caller's promise.
        unsafe {
            if step >= self.length(sequence) {
                return self.clear(to, units.len());
            }
            let hidden = part_mut(&memory.hidden, at, units.len());
            let cell = part_mut(&memory.cell, at, units.len());
            gates::advance(&self.made(place, units, memory), hidden, cell);
            write::<T>(hidden, Some(&self.op.dst), to);
        }
    }

    /// What the states of some units after a step are made of.
    unsafe fn made<'m>(
        &self,
        place: Place,
        units: Range<usize>,
        memory: &'m Memory<T::Wide>,
    ) -> Step<'m, T::Wide> {
        let (op, size) = (self.op, self.hidden());
        let (steps, batch) = (op.src.shape()[0], op.src.shape()[1]);
        let (gates, sums) = (op.cell.gates() * size, self.weights.sums());
        let row = (place.direction * steps + place.step) * batch + place.sequence;
        let [_, reset] = self.weights.sheets();
        // SAFETY: each step of each sequence has a row of what it sees of the input; sums were written by the phases
        // before.
        unsafe {
            let input = part_of(&self.projected, row * gates, gates);
            let state = part_of(&memory.sums, place.index * sums, sums);
            let peephole = match op.peephole {
                Some(_) => part_of(&memory.peephole, 0, 3 * size),
                None => &[],
            };
            Step {
                cell: op.cell,
                size,
                first: units.start,
                input,
                reset: &state[reset.sums()..],
                state,
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

    /// The sums of the states with some panels of the weights of a sheet.
    unsafe fn multiply(
        &self,
        direction: usize,
        sheet: &Sheet,
        panels: Range<usize>,
        count: usize,
        states: &Shared<T::Wide>,
        sums: &Shared<T::Wide>,
    ) {
        let (size, row) = (self.hidden(), self.weights.sums());
        for panel in panels {
            let first = panel * MAX_COLUMNS;
            let at = self.weights.panel_at(direction, sheet, panel);
            for rows in even_parts(count, SKINNY_ROWS) {
                let operands = InPlace {
                    a: states.at((rows.start * size) as isize).cast_const(),
                    a_row: size as isize,
                    a_step: 1,
                    b: self.packed.at(at as isize).cast_const(),
                    b_next: MAX_COLUMNS as isize,
                    steps: size,
                    rows: rows.len(),
                    // Panels are filled up with zeros.
                    columns: MAX_COLUMNS.min((sheet.rows - first).next_multiple_of(PART)),
                };
                let sums = Sums {
                    at: sums.at((rows.start * row + sheet.sums() + first) as isize),
                    row,
                };
                // SAFETY: the panel is packed, and sums have room for whole panels.
                unsafe { T::Wide::skinny(&operands, sums) };
            }
        }
    }
}

/// One of `parts` about equal parts of `0..total`, each of whole grains but for the last.
fn share(total: usize, grain: usize, part: usize, parts: usize) -> Range<usize> {
    let grains = total.div_ceil(grain);
    let bound = |part: usize| (grains * part / parts * grain).min(total);
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

/// Units of a state that one thread advances: whole vectors, and no cache line is two threads'.
const UNITS: usize = 32;

/// Columns that any machine multiplies by whole vectors.
const PART: usize = 32;

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
