//! Ranges of an axis as NumPy reads them: negative ends count from the end, ends outside are the nearest inside.

use std::ops::{Bound, RangeBounds};

use crate::{Error, Result};

/// Which elements of an axis: `length` of them from `start`, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub start: usize,
    pub length: usize,
    pub step: isize,
}

/// What `range` by `step` means on an axis of `size`.
pub(crate) fn resolve(
    op: &'static str,
    range: &impl RangeBounds<isize>,
    step: isize,
    size: usize,
) -> Result<Stretch> {
    if step == 0 {
        return Err(Error::parameter(op, "step", step, "not zero"));
    }
    let size = size as isize;
    // Going down, one before the first is a place to end, and the last a place to begin.
    let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let place = |position: isize, beyond: isize| {
        let from_start = if position < 0 {
            position.saturating_add(size)
        } else {
            position
        };
        from_start
            .max(lowest)
            .saturating_add(beyond)
            .clamp(lowest, highest)
    };
    let forward = step.signum();
    let start = match range.start_bound() {
        Bound::Included(&start) => place(start, 0),
        Bound::Excluded(&start) => place(start, forward),
        Bound::Unbounded if step > 0 => lowest,
        Bound::Unbounded => highest,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => place(end, forward),
        Bound::Excluded(&end) => place(end, 0),
        Bound::Unbounded if step > 0 => highest,
        Bound::Unbounded => lowest,
    };
    let distance = if step > 0 { end - start } else { start - end };
    let length = (distance.max(0) as usize).div_ceil(step.unsigned_abs());
    Ok(Stretch {
        start: if length == 0 { 0 } else { start as usize },
        length,
        step,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(range: impl RangeBounds<isize>, step: isize, size: usize) -> Vec<isize> {
        let stretch = resolve("t", &range, step, size).unwrap();
        (0..stretch.length as isize)
            .map(|count| stretch.start as isize + count * stretch.step)
            .collect()
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "a negative step goes down")]
    fn ranges_are_read_as_numpy_does() {
        assert_eq!(indices(1..4, 1, 5), [1, 2, 3]);
        assert_eq!(indices(1..=3, 1, 5), [1, 2, 3]);
        assert_eq!(indices(-2.., 1, 5), [3, 4]);
        assert_eq!(indices(..-1, 2, 5), [0, 2]);
        assert_eq!(indices(-100..100, 1, 3), [0, 1, 2]);
        assert_eq!(indices(.., -1, 3), [2, 1, 0]);
        assert_eq!(indices(3.., -2, 5), [3, 1]);
        assert_eq!(indices(100..0, -1, 3), [2, 1]);
        assert_eq!(indices(2..=0, -1, 5), [2, 1, 0]);
        assert_eq!(indices(-1..-3, -1, 5), [4, 3]);
        assert_eq!(indices(.., -1, 0), [0; 0]);
        assert_eq!(indices(3..1, 1, 5), [0; 0]);
        assert_eq!(indices(7.., 1, 5), [0; 0]);
        assert_eq!(indices(.., isize::MAX, 5), [0]);
        assert_eq!(indices(isize::MIN..=isize::MAX, isize::MIN, 5), [0; 0]);
        assert_eq!(indices(..=-1, 1, 3), [0, 1, 2]);
        assert!(resolve("t", &(..), 0, 3).is_err());
    }
}
