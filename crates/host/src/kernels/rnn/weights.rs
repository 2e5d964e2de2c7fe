//! The recurrent weights as the steps read them.

use streampool_device::{Cell, Rnn, View};

use crate::given_up::Steps;
use crate::kernels::convert::Float;
use crate::kernels::matmul::factor::{Factor, Lines, pack_interleaved};
use crate::kernels::matmul::multiply::MAX_COLUMNS;
use crate::kernels::real::Real;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::address;
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 13;

/// Rows of the recurrent weights that are multiplied with one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sheet {
    /// The first row.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Panels before it.
    panel: usize,
}

impl Sheet {
    /// How many panels it is packed in.
    fn panels(&self) -> usize {
        self.rows.div_ceil(MAX_COLUMNS)
    }

    /// Where its sums begin among those of all sheets.
    pub(super) fn sums(&self) -> usize {
        self.panel * MAX_COLUMNS
    }
}

/// The recurrent weights of all directions.
#[derive(Debug)]
pub(super) struct Weights<T> {
    cell: Cell,
    directions: usize,
    pub(super) hidden: usize,
    sheets: [Sheet; 2],
    at: Shared<T>,
    strides: [isize; 3],
}

impl<T> Weights<T>
where
    T: Float + Factor<Unit = <T as Float>::Wide>,
{
    pub(super) fn new(op: &Rnn) -> Self {
        let (hidden, gates) = (op.recurrent.shape()[2], op.cell.gates());
        // A state that is reset before it is multiplied is another one.
        let first = match op.cell {
            Cell::Gru { reset_after: false } => 2 * hidden,
            _ => gates * hidden,
        };
        let sheet = |first: usize, rows: usize, panel: usize| Sheet { first, rows, panel };
        let strides = op.recurrent.layout().strides();
        Weights {
            cell: op.cell,
            directions: op.direction.count(),
            hidden,
            sheets: [
                sheet(0, first, 0),
                sheet(first, gates * hidden - first, first.div_ceil(MAX_COLUMNS)),
            ],
            at: Shared(address(&op.recurrent)),
            strides: [strides[0], strides[1], strides[2]],
        }
    }

    /// What is multiplied with the state, and what with the state that was reset.
    pub(super) fn sheets(&self) -> &[Sheet; 2] {
        &self.sheets
    }

    fn panels(&self) -> usize {
        self.sheets[1].panel + self.sheets[1].panels()
    }

    /// Sums of one state with all weights.
    pub(super) fn sums(&self) -> usize {
        self.panels() * MAX_COLUMNS
    }

    /// Multiplications of one state with all weights.
    pub(super) fn length(&self) -> usize {
        self.sums() * self.hidden
    }

    fn panel_length(&self) -> usize {
        MAX_COLUMNS * self.hidden
    }

    /// Numbers of all packed weights.
    pub(super) fn packed_length(&self) -> usize {
        self.directions * self.panels() * self.panel_length()
    }

    /// Where a panel of a sheet lies among the packed weights.
    pub(super) fn panel_at(&self, direction: usize, sheet: &Sheet, panel: usize) -> usize {
        (direction * self.panels() + sheet.panel + panel) * self.panel_length()
    }

    /// Packs panels of rows, those of each element of the state side by side.
    ///
    /// # Safety
    /// The weights can be read, and [`packed_length`](Self::packed_length) numbers be written.
    pub(super) unsafe fn pack(&self, to: *mut T::Wide, team: &dyn Team) {
        let to = Shared(to);
        let panels = self.panels();
        let grain = GRAIN.div_ceil(self.panel_length().max(1));
        split(self.directions * panels, grain, team, &|range| {
            let mut steps = Steps::default();
            for index in range {
                steps.take(self.panel_length());
                let (direction, panel) = (index / panels, index % panels);
                let [first, second] = &self.sheets;
                let sheet = if panel < second.panel { first } else { second };
                let row = (panel - sheet.panel) * MAX_COLUMNS;
                let distance = direction as isize * self.strides[0]
                    + (sheet.first + row) as isize * self.strides[1];
                let lines = Lines {
                    at: self.at.at(distance).cast_const(),
                    lines: MAX_COLUMNS.min(sheet.rows - row),
                    length: self.hidden,
                    line: self.strides[1],
                    step: self.strides[2],
                };
                let to = to.at((index * self.panel_length()) as isize);
                // SAFETY: the rows lie within the weights; each panel has a place of its own.
                unsafe { pack_interleaved::<T>(lines, to, MAX_COLUMNS) };
            }
        });
    }

    /// Whether the last gate's recurrent bias is reset, too, and so cannot be added to the input's.
    pub(super) fn resets_bias(&self) -> bool {
        self.cell == Cell::Gru { reset_after: true }
    }

    /// Adds both biases of each gate, where they can be.
    ///
    /// # Safety
    /// The bias can be read, and a number for each gate of each direction written.
    pub(super) unsafe fn add_biases(&self, bias: &View, to: *mut T::Wide) {
        let gates = self.cell.gates() * self.hidden;
        let together = if self.resets_bias() {
            gates - self.hidden
        } else {
            gates
        };
        for direction in 0..self.directions {
            for gate in 0..gates {
                // SAFETY: the bias has twice as many elements in each direction.
                unsafe {
                    let own = bias_at::<T>(bias, direction, gate);
                    let other = match gate < together {
                        true => bias_at::<T>(bias, direction, gates + gate),
                        false => Real::ZERO,
                    };
                    to.add(direction * gates + gate).write(own + other);
                }
            }
        }
    }
}

/// An element of the bias.
///
/// # Safety
/// There is one, and it can be read.
pub(super) unsafe fn bias_at<T: Float>(bias: &View, direction: usize, index: usize) -> T::Wide {
    let strides = bias.layout().strides();
    let distance = direction as isize * strides[0] + index as isize * strides[1];
    // SAFETY: the caller's promise.
    unsafe { (*address::<T>(bias).wrapping_offset(distance)).widen() }
}
