//! What follows a convolution while its results are at hand.

use std::ops::Range;

use crate::kernels::matmul::lanes::Bounds;
use crate::kernels::split::split;
use crate::team::Team;

/// Results that are worth a thread for what is done with them.
const GRAIN: usize = 1 << 14;

/// What is done with results as soon as they are there.
#[derive(Clone, Copy)]
pub(crate) enum Then<'a> {
    /// They are kept between bounds.
    Keep(Bounds),
    /// This, while they are in the cache: with those of these numbers, as they lie.
    Call(&'a Call<'a>),
}

/// What is done with results of these numbers.
pub(super) type Call<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// Does all parts, by the team if that is worth it, and then what follows all of these results.
pub(super) fn in_parts(
    (parts, is_divided): (usize, bool),
    team: &dyn Team,
    part: &(dyn Fn(usize) + Sync),
    (after, results): (Option<&Call<'_>>, usize),
) {
    match is_divided {
        true => team.run(parts, part),
        false => (0..parts).for_each(part),
    }
    if let Some(after) = after {
        split(results, GRAIN, team, after);
    }
}

impl<'a> Then<'a> {
    /// The bounds, and what is called.
    pub(super) fn parts(then: Option<Then<'a>>) -> (Bounds, Option<&'a Call<'a>>) {
        match then {
            None => (Bounds::default(), None),
            Some(Then::Keep(bounds)) => (bounds, None),
            Some(Then::Call(call)) => (Bounds::default(), Some(call)),
        }
    }
}
