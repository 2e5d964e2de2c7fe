//! What depends on the values there are.

mod histogram;
mod nonzero;

pub(super) use histogram::histogram;
pub(super) use nonzero::nonzero;

use crate::kernels::strided::Walk;
use crate::team::Team;

/// Calls `work` with the number of each chunk of `length` elements of the walk, on the whole team.
fn each_chunk<const N: usize>(
    walk: &Walk<N>,
    length: usize,
    team: &dyn Team,
    work: &(dyn Fn(usize) + Sync),
) {
    match walk.elements().div_ceil(length) {
        0 => {}
        1 => work(0),
        chunks => team.run(chunks, work),
    }
}
