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
use crate::kernels::rows;
use crate::kernels::smooth::Smooth;
use crate::kernels::split::Shared;
use crate::kernels::strided::address;

/// A layer whose input was multiplied and whose weights are packed.
pub(super) struct Layer<'a, T: Float> {
    pub(super) op: &'a Rnn,
    pub(super) weights: &'a Weights<T>,
    /// What each step sees of the input: for each direction, step and sequence, gate after gate.
    pub(super) projected: Shared<T::Wide>,
    pub(super) packed: Shared<T::Wide>,
}

/// What some sequences have come to: rows of numbers, one for each.
struct Memory<'a, R> {
    hidden: &'a mut [R],
    cell: &'a mut [R],
    reset: &'a mut [R],
    sums: &'a mut [R],
    bias: &'a mut [R],
    peephole: &'a mut [R],
}

impl<T> Layer<'_, T>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: Smooth,
{
    fn hidden(&self) -> usize {
        self.weights.hidden
    }

    /// Computes all steps of these sequences in a direction.
    ///
    /// # Safety
    /// The op's views are as promised to `execute`, and nobody else writes the results of these sequences.
    pub(super) unsafe fn sequences(&self, direction: usize, range: Range<usize>) {
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
                part
            });
            let mut memory = Memory {
                hidden,
                cell,
                reset,
                sums,
                bias,
                peephole,
            };
            // SAFETY: passed on from the caller.
            unsafe {
                self.begin(direction, range.clone(), &mut memory);
                let steps = self.op.src.shape()[0];
                let backwards = direction == 1 || self.op.direction == Direction::Reverse;
                for step in 0..steps {
                    let step = if backwards { steps - 1 - step } else { step };
                    self.step(direction, range.clone(), step, &mut memory);
                }
                for (index, sequence) in range.clone().enumerate() {
                    let row = index * size..(index + 1) * size;
                    let at = [direction, sequence, 0];
                    write::<T>(
                        &memory.hidden[row.clone()],
                        self.op.last_hidden.as_ref(),
                        at,
                    );
                    write::<T>(&memory.cell[row], self.op.last_cell.as_ref(), at);
                }
            }
        });
    }

    /// The state before the first step, and what is the same at all.
    ///
    /// # Safety
    /// As for [`sequences`](Self::sequences). So for all below.
    unsafe fn begin(
        &self,
        direction: usize,
        range: Range<usize>,
        memory: &mut Memory<'_, T::Wide>,
    ) {
        let (op, size) = (self.op, self.hidden());
        // SAFETY: the views have these shapes.
        unsafe {
            for (view, state) in [
                (op.hidden, &mut memory.hidden),
                (op.cell_state, &mut memory.cell),
            ] {
                let Some(view) = view else { continue };
                for (index, sequence) in range.clone().enumerate() {
                    let from = element::<T>(&view, [direction, sequence, 0]);
                    let step = view.layout().strides()[2];
                    rows::read::<T>(from, step, &mut state[index * size..][..size]);
                }
            }
            if let Some(bias) = &op.bias
                && self.weights.resets_bias()
            {
                for (index, value) in memory.bias.iter_mut().enumerate() {
                    *value = bias_at::<T>(bias, direction, 5 * size + index);
                }
            }
            if let Some(peephole) = &op.peephole {
                for (index, value) in memory.peephole.iter_mut().enumerate() {
                    *value = bias_at::<T>(peephole, direction, index);
                }
            }
        }
    }

    unsafe fn step(
        &self,
        direction: usize,
        range: Range<usize>,
        step: usize,
        memory: &mut Memory<'_, T::Wide>,
    ) {
        let (op, size) = (self.op, self.hidden());
        let (steps, batch) = (op.src.shape()[0], op.src.shape()[1]);
        let (gates, all_sums) = (op.cell.gates() * size, self.weights.sums());
        let input = |sequence: usize| {
            let row = (direction * steps + step) * batch + sequence;
            let at = self.projected.at((row * gates) as isize);
            // SAFETY: each step of each sequence has a row.
            unsafe { std::slice::from_raw_parts(at.cast_const(), gates) }
        };
        let [plain, reset] = self.weights.sheets();
        let peephole = match op.peephole {
            Some(_) => &*memory.peephole,
            None => &[],
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply(direction, plain, memory.hidden, memory.sums);
            if (op.cell == Cell::Gru { reset_after: false }) {
                for (index, sequence) in range.clone().enumerate() {
                    let state = &memory.sums[index * all_sums..][..all_sums];
                    let row = index * size..(index + 1) * size;
                    let (from, to) = (&memory.hidden[row.clone()], &mut memory.reset[row]);
                    gates::reset(input(sequence), state, from, to);
                }
                self.multiply(direction, reset, memory.reset, memory.sums);
            }
            for (index, sequence) in range.enumerate() {
                let row = index * size..(index + 1) * size;
                let place = [step, direction, sequence, 0];
                if step >= self.length(sequence) {
                    self.clear(place);
                    continue;
                }
                let state = &memory.sums[index * all_sums..][..all_sums];
                let made = Step {
                    cell: op.cell,
                    input: input(sequence),
                    state,
                    reset: &state[reset.sums()..],
                    bias: memory.bias,
                    peephole,
                };
                let hidden = &mut memory.hidden[row.clone()];
                gates::advance(&made, hidden, &mut memory.cell[row]);
                write::<T>(hidden, Some(&op.dst), place);
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

    /// Writes a state of zeros.
    unsafe fn clear(&self, place: [usize; 4]) {
        let step = self.op.dst.layout().strides()[3];
        let to = element::<T>(&self.op.dst, place);
        for index in 0..self.hidden() as isize {
            // SAFETY: the caller's promise.
            unsafe {
                to.wrapping_offset(index * step)
                    .write(<T as Float>::narrow(Real::ZERO))
            };
        }
    }

    /// The sums of the states with the weights of a sheet.
    unsafe fn multiply(
        &self,
        direction: usize,
        sheet: &Sheet,
        states: &[T::Wide],
        sums: &mut [T::Wide],
    ) {
        let (size, row) = (self.hidden(), self.weights.sums());
        let count = states.len() / size;
        for panel in 0..sheet.panels() {
            let first = panel * MAX_COLUMNS;
            let at = self.weights.panel_at(direction, sheet, panel);
            for rows in even_parts(count, SKINNY_ROWS) {
                let operands = InPlace {
                    a: states[rows.start * size..].as_ptr(),
                    a_row: size as isize,
                    a_step: 1,
                    b: self.packed.at(at as isize).cast_const(),
                    b_next: MAX_COLUMNS as isize,
                    steps: size,
                    rows: rows.len(),
                    // Panels are filled up with zeros.
                    columns: MAX_COLUMNS.min((sheet.rows - first).next_multiple_of(PART)),
                };
                let to = &mut sums[rows.start * row + sheet.sums() + first..];
                let sums = Sums {
                    at: to.as_mut_ptr(),
                    row,
                };
                // SAFETY: the panel is packed, and sums have room for whole panels.
                unsafe { T::Wide::skinny(&operands, sums) };
            }
        }
    }
}

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
