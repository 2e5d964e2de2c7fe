//! Scaled dot-product attention, block by block: scores of some queries and some keys at a time, whose softmax
//! is carried along, so that no matrix of all scores is ever stored.

mod block;
mod few;
mod problem;
mod score;

use streampool_device::Attention;

use self::block::{Block, Sizes};
use self::problem::Problem;
use super::convert::{Float, with_float};
use super::matmul::factor::Factor;
use super::matmul::multiply::Unit;
use super::split::split;
use crate::team::Team;

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 19;
/// Queries of a block: each packs keys and values anew.
const QUERIES: usize = 192;
/// Queries of a block where there are few of them.
const FEW_QUERIES: usize = 48;
/// With fewer blocks than this, they are made smaller.
const FEW_BLOCKS: usize = 8;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Attention, team: &dyn Team) -> Result<(), String> {
    with_float!(op.query.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { blocks::<T>(op, team) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn blocks<T>(op: &Attention, team: &dyn Team)
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: Unit,
{
    let problem = Problem::<T>::new(op);
    let (rows, heads) = (problem.rows(), problem.key_heads());
    if op.out.layout().elements() == 0 {
        return;
    }
    // Where blocks begin depends on the shape alone, so results do too.
    let most = match heads * rows.div_ceil(QUERIES) {
        blocks if blocks < FEW_BLOCKS => FEW_QUERIES,
        _ => QUERIES,
    };
    let parts = rows.div_ceil(most);
    let each = rows.div_ceil(parts).saturating_mul(problem.keys);
    let each = each.saturating_mul(problem.width + problem.value_width);
    let sizes = Sizes::new(&problem, rows.div_ceil(parts));
    split(heads * parts, GRAIN.div_ceil(each.max(1)), team, &|range| {
        sizes.with_memory(|memory| {
            for index in range {
                let (head, part) = (index / parts, index % parts);
                let rows = rows * part / parts..rows * (part + 1) / parts;
                // SAFETY: the views are as promised, blocks write rows of their own, and the memory is of
                // these sizes.
                unsafe { Block::new(&problem.head(head), &sizes, memory, rows).compute() };
            }
        });
    });
}
