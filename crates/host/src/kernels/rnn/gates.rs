//! What becomes of a state once it was multiplied with the weights.

use std::slice;

use streampool_device::Cell;

use crate::kernels::simd::vectorised;
use crate::kernels::smooth::Smooth;

/// What one sequence's step is made of: `size` numbers each, one for each unit of the state, gate after gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a, R> {
    pub(super) cell: Cell,
    pub(super) size: usize,
    /// The first unit that is computed.
    pub(super) first: usize,
    /// From the input, biases included.
    pub(super) input: &'a [R],
    /// From the state: of the units that are computed only. Others may be in the making.
    pub(super) state: *const R,
    /// From the state that was reset, likewise.
    pub(super) reset: *const R,
    /// What is added to the last gate's part of the state before it is reset, if anything.
    pub(super) bias: &'a [R],
    /// What the input, output and forget gates see of the cell, if anything.
    pub(super) peephole: &'a [R],
}

vectorised! {
    /// Computes the state of some units after a step.
    ///
    /// # Safety
    /// The step's sums of these units can be read.
    pub(super) unsafe fn advance<M>[R: Smooth](
        step: &Step<'_, R>,
        before: &[R],
        hidden: &mut [R],
        cell: &mut [R],
    ) {
        let size = hidden.len();
        let units = |gate: usize| gate * step.size + step.first..gate * step.size + step.first + size;
        let input = |gate: usize| &step.input[units(gate)];
        // SAFETY: the caller's promise.
        let state = |gate: usize| unsafe { slice::from_raw_parts(step.state.add(units(gate).start), size) };
        let before = &before[..size];
        match step.cell {
            Cell::Tanh => {
                let (x, s) = (input(0), state(0));
                for index in 0..size {
                    hidden[index] = (x[index] + s[index]).fast_tanh::<M>();
                }
            }
            Cell::Relu => {
                let (x, s) = (input(0), state(0));
                for index in 0..size {
                    hidden[index] = R::ZERO.larger(x[index] + s[index]);
                }
            }
            Cell::Gru { reset_after } => {
                let (x0, x1, x2) = (input(0), input(1), input(2));
                let s0 = state(0);
                if reset_after {
                    let (s1, s2) = (state(1), state(2));
                    let bias = &step.bias[units(0)];
                    for index in 0..size {
                        let update = (x0[index] + s0[index]).fast_sigmoid::<M>();
                        let reset = (x1[index] + s1[index]).fast_sigmoid::<M>();
                        let new = (x2[index] + reset * (s2[index] + bias[index])).fast_tanh::<M>();
                        hidden[index] = (R::ONE - update) * new + update * before[index];
                    }
                } else {
                    // SAFETY: the caller's promise.
                    let s2 = unsafe { slice::from_raw_parts(step.reset.add(step.first), size) };
                    for index in 0..size {
                        let update = (x0[index] + s0[index]).fast_sigmoid::<M>();
                        let new = (x2[index] + s2[index]).fast_tanh::<M>();
                        hidden[index] = (R::ONE - update) * new + update * before[index];
                    }
                }
            }
            Cell::Lstm => {
                let (x0, x1, x2, x3) = (input(0), input(1), input(2), input(3));
                let (s0, s1, s2, s3) = (state(0), state(1), state(2), state(3));
                let cell = &mut cell[..size];
                if step.peephole.is_empty() {
                    for index in 0..size {
                        let (i, o, f, g) = (
                            x0[index] + s0[index],
                            x1[index] + s1[index],
                            x2[index] + s2[index],
                            x3[index] + s3[index],
                        );
                        let kept = f.fast_sigmoid::<M>() * cell[index];
                        let next = kept + i.fast_sigmoid::<M>() * g.fast_tanh::<M>();
                        cell[index] = next;
                        hidden[index] = o.fast_sigmoid::<M>() * next.fast_tanh::<M>();
                    }
                } else {
                    let peep = |gate: usize| &step.peephole[units(gate)];
                    let (p0, p1, p2) = (peep(0), peep(1), peep(2));
                    for index in 0..size {
                        let before = cell[index];
                        let i = x0[index] + s0[index] + p0[index] * before;
                        let f = x2[index] + s2[index] + p2[index] * before;
                        let g = x3[index] + s3[index];
                        let kept = f.fast_sigmoid::<M>() * before;
                        let next = kept + i.fast_sigmoid::<M>() * g.fast_tanh::<M>();
                        let o = x1[index] + s1[index] + p1[index] * next;
                        cell[index] = next;
                        hidden[index] = o.fast_sigmoid::<M>() * next.fast_tanh::<M>();
                    }
                }
            }
        }
    }
}

vectorised! {
    /// The state of some units as the reset gate of a GRU leaves it.
    ///
    /// # Safety
    /// The step's sums of these units can be read.
    pub(super) unsafe fn reset<M>[R: Smooth](step: &Step<'_, R>, hidden: &[R], to: &mut [R]) {
        let size = hidden.len();
        let first = step.size + step.first;
        // SAFETY: the caller's promise.
        let s = unsafe { slice::from_raw_parts(step.state.add(first), size) };
        let x = &step.input[first..first + size];
        let to = &mut to[..size];
        for index in 0..size {
            to[index] = (x[index] + s[index]).fast_sigmoid::<M>() * hidden[index];
        }
    }
}
