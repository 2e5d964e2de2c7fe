//! Operands that are constants, packed before any product: they are laid out so that each tile finds its panels
//! in there, wherever it begins and however long the inner dimension is cut.

use std::sync::Arc;

use streampool_device::View;

use super::amx;
use super::factor::{Factor, pack_interleaved, pack_lines};
use super::multiply::Unit;
use super::product::{Product, Side};
use crate::kernels::split::{Shared, split};
use crate::packs::Pack;
use crate::team::Team;

/// Units that are worth a thread to pack.
const GRAIN: usize = 1 << 14;

/// Matrices of a constant operand, packed one after another.
pub(crate) struct Ready {
    pub(super) side: Side,
    pub(super) pack: Arc<Pack>,
}

/// Units of the packed operand of one product.
pub(super) fn length<T: Factor>(product: &Product<T>, side: Side) -> usize {
    if product.on_amx {
        let lines = match side {
            Side::Left => product.m,
            Side::Right => product.n,
        };
        return amx::packed_bytes(product, lines) / size_of::<T::Unit>();
    }
    let units = product.k.div_ceil(T::PER_UNIT);
    match side {
        // Each panel of all rows, then the next panel.
        Side::Left => product.m * units.div_ceil(T::Unit::PANEL) * T::Unit::PANEL_STRIDE,
        // Each block of columns with all units, then the next block.
        Side::Right => product.n.next_multiple_of(T::Unit::block().1) * units,
    }
}

/// Packs an operand of so many products, each found by its number, one after another.
///
/// # Safety
/// The operands can be read, and the [`length`]s of all of them be written.
pub(super) unsafe fn pack<T: Factor>(
    products: usize,
    product: impl Fn(usize) -> Product<T> + Sync,
    side: Side,
    to: *mut T::Unit,
    team: &dyn Team,
) {
    let to = Shared(to);
    let first = product(0);
    let width = T::Unit::block().1;
    let step = T::Unit::PANEL * T::PER_UNIT;
    let pieces = match side {
        Side::Left if first.on_amx => first.m.div_ceil(amx::BLOCK),
        Side::Right if first.on_amx => first.n.div_ceil(amx::BLOCK),
        Side::Left => first.k.div_ceil(step),
        Side::Right => first.n.div_ceil(width),
    };
    let length = length(&first, side);
    let each = length / pieces.max(1);
    split(
        products * pieces,
        GRAIN.div_ceil(each.max(1)),
        team,
        &|range| {
            for number in range {
                let (product, piece) = (product(number / pieces), number % pieces);
                let to = to.at((number / pieces * length + piece * each) as isize);
                // SAFETY: pieces lie within the operand, and each has a place of its own.
                unsafe {
                    match side {
                        Side::Left if product.on_amx => {
                            let row = piece * amx::BLOCK;
                            let count = amx::BLOCK.min(product.m - row);
                            let lines = product.a_lines(row, count, 0, product.k);
                            amx::pack(lines, side, to.cast());
                        }
                        Side::Right if product.on_amx => {
                            let column = piece * amx::BLOCK;
                            let count = amx::BLOCK.min(product.n - column);
                            let lines = product.b_lines(column, count, 0, product.k);
                            amx::pack(lines, side, to.cast());
                        }
                        Side::Left => {
                            let from = piece * step;
                            let some = step.min(product.k - from);
                            let lines = product.a_lines(0, product.m, from, some);
                            pack_lines::<T>(lines, to, T::Unit::PANEL_STRIDE);
                        }
                        Side::Right => {
                            let column = piece * width;
                            let count = width.min(product.n - column);
                            let lines = product.b_lines(column, count, 0, product.k);
                            pack_interleaved::<T>(lines, to, width);
                        }
                    }
                }
            }
        },
    );
}

/// How many matrices a view holds.
pub(super) fn matrices(view: &View) -> usize {
    let shape = view.shape();
    shape[..shape.len() - 2].iter().product()
}
