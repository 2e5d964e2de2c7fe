//! Spreading elements over a team.

use std::ops::Range;

use crate::team::Team;

/// A part is worth no more than this: between two it is asked whether anybody still wants the work.
const MOST_WORTH: usize = 1024;

/// In how many parts to do work that is worth so many: a few for each of `width` threads, so that a late one does
/// not hold up the rest, and as many for each. Very much work is done in more of them.
pub(crate) fn parts(worth: usize, width: usize) -> usize {
    let most = (4 * width).max((worth / MOST_WORTH).min(u32::MAX as usize / 2));
    match worth.min(most) {
        few if few < width => few.max(1),
        many => many / width * width,
    }
}

/// Calls `work` with ranges that make up `0..total`, in [`parts`] that are worth `grain` each.
///
/// What a range is computed to must not depend on where it begins or ends.
pub(crate) fn split(
    total: usize,
    grain: usize,
    team: &dyn Team,
    work: &(dyn Fn(Range<usize>) + Sync),
) {
    split_into(parts(total / grain.max(1), team.width()), total, team, work);
}

/// As [`split`], in so many parts.
pub(crate) fn split_into(
    parts: usize,
    total: usize,
    team: &dyn Team,
    work: &(dyn Fn(Range<usize>) + Sync),
) {
    if parts <= 1 {
        if total > 0 {
            work(0..total);
        }
        return;
    }
    let bound = |part: usize| (total as u128 * part as u128 / parts as u128) as usize;
    team.run(parts, &|part| work(bound(part)..bound(part + 1)));
}

/// A base address that the threads of a team share, each accessing elements of its own.
#[derive(Debug)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Shared<T> {
    /// The address `offset` elements further on.
    #[inline(always)]
    pub(crate) fn at(&self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: it is an address; whoever dereferences it answers for what lies there.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Shared<T> {}
