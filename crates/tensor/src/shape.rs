//! Shapes: how many elements, the size that is left to infer, and reshaping without a copy.

use streampool_device::{Dims, Layout, MAX_ELEMENTS, MAX_RANK};

use crate::{Error, Result};

/// A number that can stand for a size in a shape; −1, in a signed type, is the size that fits.
pub trait Size: Copy + std::fmt::Debug + sealed::Sealed {
    /// As a wide number.
    fn wide(self) -> i128;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! sizes {
    ($($number:ty),*) => {$(
        impl sealed::Sealed for $number {}
        impl Size for $number {
            fn wide(self) -> i128 {
                self as i128
            }
        }
    )*};
}

sizes!(usize, isize, i32, i64);

/// The layout of a fresh tensor of this shape, for `op`.
#[inline]
pub(crate) fn contiguous(op: &'static str, shape: &[usize]) -> Result<Layout> {
    Layout::contiguous(shape).map_err(|_| too_large(op, shape))
}

/// No tensor has this shape.
#[cold]
pub(crate) fn too_large(op: &'static str, shape: &[usize]) -> Error {
    let expected = format_args!("at most {MAX_RANK} axes and {MAX_ELEMENTS} elements");
    Error::shape(op, "shape", shape, expected)
}

/// How many elements these sizes have; `None` for more than can be counted.
pub(crate) fn elements(sizes: &[usize]) -> Option<usize> {
    sizes
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size))
}

/// The sizes that `shape` means for a tensor of shape `from`.
pub(crate) fn infer<S: Size>(op: &'static str, from: &[usize], shape: &[S]) -> Result<Dims> {
    let elements: usize = from.iter().product();
    let refused =
        |expected: String| Error::parameter(op, "shape", format_args!("{shape:?}"), expected);
    let misfit = || refused(format!("{elements} elements, as in {from:?}"));
    if shape.len() > MAX_RANK {
        return Err(refused(format!("at most {MAX_RANK} axes")));
    }
    let mut sizes = Dims::new(&[0; MAX_RANK][..shape.len()])?;
    let mut unknown = None;
    let mut known = 1usize;
    for (axis, &size) in shape.iter().enumerate() {
        match size.wide() {
            -1 if unknown.is_none() => unknown = Some(axis),
            -1 => return Err(refused("at most one −1".to_owned())),
            wide => {
                let size = usize::try_from(wide)
                    .map_err(|_| refused("sizes of at least 0, or −1".to_owned()))?;
                sizes[axis] = size;
                known = known.checked_mul(size).ok_or_else(misfit)?;
            }
        }
    }
    match unknown {
        Some(_) if known == 0 => {
            return Err(refused(
                "no 0 beside −1, which could be anything".to_owned(),
            ));
        }
        Some(axis) if elements.is_multiple_of(known) => sizes[axis] = elements / known,
        None if known == elements => {}
        _ => return Err(misfit()),
    }
    if elements == 0 {
        // Beside a zero the other sizes may be any, yet a tensor has to have them.
        contiguous(op, &sizes)?;
    }
    Ok(sizes)
}

/// The elements of `layout`, row-major, under another shape of as many; `None` if only a copy can be.
///
/// Axes that lie in memory as one axis would are one run; each run has to be cut by the new shape alone.
pub(crate) fn reshaped(layout: &Layout, shape: &[usize]) -> Option<Layout> {
    if layout.elements() == 0 {
        return Layout::contiguous(shape).ok();
    }
    let (sizes, old) = (layout.shape(), layout.strides());
    let mut strides = [1isize; MAX_RANK];
    let mut left = shape.len();
    let mut run = 1;
    let mut base = old.last().copied().unwrap_or(1);
    for axis in (0..sizes.len()).rev() {
        run *= sizes[axis];
        let goes_on = axis > 0 && (sizes[axis - 1] == 1 || old[axis - 1] == run as isize * base);
        if goes_on {
            continue;
        }
        let mut cut = 1;
        while left > 0 && (cut < run || shape[left - 1] == 1) {
            left -= 1;
            strides[left] = cut as isize * base;
            cut *= shape[left];
        }
        if cut != run {
            return None;
        }
        if axis > 0 {
            (run, base) = (1, old[axis - 1]);
        }
    }
    Layout::strided(shape, &strides[..shape.len()], layout.offset()).ok()
}

/// Whether a tensor of shape `from` could be repeated to `to`, if there were tensors of that shape.
pub(crate) fn broadcasts(from: &[usize], to: &[usize]) -> bool {
    let pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len()
        && pairs
            .into_iter()
            .all(|(&from, &to)| from == to || from == 1)
}

/// The one shape that two broadcast to, aligned from the right.
pub(crate) fn broadcast(
    op: &'static str,
    argument: &'static str,
    a: &[usize],
    b: &[usize],
) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut joined = Dims::new(long)?;
    let lead = long.len() - short.len();
    for (size, &other) in joined[lead..].iter_mut().zip(short) {
        *size = match (*size, other) {
            (1, other) => other,
            (size, 1) => size,
            (size, other) if size == other => size,
            _ => {
                let expected = format!("one that broadcasts with {a:?}");
                return Err(Error::shape(op, argument, b, expected));
            }
        };
    }
    Ok(joined)
}

#[cfg(test)]
mod tests;
