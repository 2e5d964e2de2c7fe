//! Axes and indices as users count them: negative ones from the end.

use streampool_device::{Axes, Dims, MAX_RANK};

use crate::{Error, Result};

/// The axis that `axis` means among `rank`.
#[inline]
pub(crate) fn resolve(
    op: &'static str,
    argument: &'static str,
    axis: isize,
    rank: usize,
) -> Result<usize> {
    from_end(axis, rank).ok_or(Error::Axis {
        op,
        argument,
        got: axis,
        rank,
    })
}

/// The index that `index` means among `size`.
pub(crate) fn index(
    op: &'static str,
    argument: &'static str,
    index: isize,
    size: usize,
) -> Result<usize> {
    from_end(index, size).ok_or(Error::Index {
        op,
        argument,
        got: index,
        size,
    })
}

/// The place for a new axis that `axis` means: before one of `rank`, or after the last.
pub(crate) fn insertion(
    op: &'static str,
    argument: &'static str,
    axis: isize,
    rank: usize,
) -> Result<usize> {
    resolve(op, argument, axis, rank + 1)
}

/// The axes that `axes` mean among `rank`, in their order; none may come twice.
pub(crate) fn each(
    op: &'static str,
    argument: &'static str,
    axes: &[isize],
    rank: usize,
) -> Result<Dims> {
    let mut resolved = Dims::new(&[0; MAX_RANK][..axes.len().min(MAX_RANK)])?;
    let mut seen = [false; MAX_RANK];
    for (place, &axis) in axes.iter().enumerate() {
        let found = resolve(op, argument, axis, rank)?;
        if std::mem::replace(&mut seen[found], true) {
            return Err(Error::parameter(
                op,
                argument,
                format_args!("{axes:?}"),
                "each axis once",
            ));
        }
        resolved[place] = found;
    }
    Ok(resolved)
}

/// The axes that `axes` mean among `rank`, as a set; none given means all.
pub(crate) fn set_or_all(
    op: &'static str,
    argument: &'static str,
    axes: &[isize],
    rank: usize,
) -> Result<Axes> {
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    const { assert!(MAX_RANK == 8) };
    match axes {
        [] => Ok(Axes::new(&all[..rank])?),
        some => Ok(Axes::new(&each(op, argument, some, rank)?)?),
    }
}

#[inline]
fn from_end(position: isize, size: usize) -> Option<usize> {
    let resolved = match position {
        0.. => position as usize,
        _ => size.checked_sub(position.unsigned_abs())?,
    };
    (resolved < size).then_some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(resolve("t", "axis", -1, 3), Ok(2));
        assert_eq!(resolve("t", "axis", -3, 3), Ok(0));
        assert_eq!(resolve("t", "axis", 2, 3), Ok(2));
        assert_eq!(insertion("t", "axis", -1, 3), Ok(3));
        assert_eq!(insertion("t", "axis", 3, 3), Ok(3));
    }

    #[test]
    fn axes_outside_are_refused_with_the_range() {
        let message = resolve("flip", "axis", -4, 3).unwrap_err().to_string();
        assert_eq!(message, "flip: axis is -4, expected -3 to 2");
        assert!(resolve("t", "axis", isize::MIN, 3).is_err());
        assert!(resolve("t", "axis", 0, 0).is_err());
        let message = index("select", "index", 5, 5).unwrap_err().to_string();
        assert_eq!(message, "select: index is 5, expected -5 to 4");
    }

    #[test]
    fn sets_of_axes_name_each_once() {
        assert_eq!(&*each("t", "axes", &[-1, 0], 3).unwrap(), &[2, 0]);
        assert!(each("t", "axes", &[1, -2], 3).is_err());
        assert!(each("t", "axes", &[0; 9], 8).is_err());
        let all = set_or_all("t", "axes", &[], 3).unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
