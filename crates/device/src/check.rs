//! What each check of an op's operands is made of: each compares one thing and names the argument.

use crate::{DType, Error, MAX_ELEMENTS, OpKind, Result, View};

pub(crate) fn invalid(
    op: OpKind,
    argument: &'static str,
    got: impl ToString,
    expected: impl ToString,
) -> Error {
    Error::InvalidOp {
        op,
        argument,
        got: got.to_string(),
        expected: expected.to_string(),
    }
}

pub(crate) fn require(
    op: OpKind,
    argument: &'static str,
    holds: bool,
    got: impl ToString,
    expected: impl ToString,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(invalid(op, argument, got, expected))
}

/// Refuses a factor that is not finite in the type of an op's sums, which is `f32` but for `f64` operands. Times zero it would be no number.
pub(crate) fn single(op: OpKind, argument: &'static str, factor: f64, dtype: DType) -> Result<()> {
    let most = if dtype == DType::F64 { f64::MAX } else { 1e38 };
    let is_finite = factor.abs() <= most;
    require(
        op,
        argument,
        is_finite,
        factor,
        format_args!("at most {most:e} from zero"),
    )
}

/// The most steps of one op, multiplications mostly: years of work, yet few enough to be counted and added up.
const MAX_STEPS: usize = 1 << 62;

/// A size that is made of others, which come from outside.
pub(crate) fn product<const N: usize>(
    op: OpKind,
    argument: &'static str,
    sizes: [usize; N],
) -> Result<usize> {
    let all = multiplied(sizes).filter(|&all| all <= MAX_ELEMENTS);
    all.ok_or_else(|| {
        let got = format_args!("of {sizes:?} elements along an axis");
        invalid(op, argument, got, format_args!("at most {MAX_ELEMENTS}"))
    })
}

/// Refuses what lies between the operands of an op, such as a source with its padding, if it has more elements than
/// a layout may have. Where a size is zero, the others are held to it all the same.
pub(crate) fn countable<const N: usize>(
    op: OpKind,
    argument: &'static str,
    what: &'static str,
    sizes: [usize; N],
) -> Result<()> {
    within(op, argument, what, sizes, MAX_ELEMENTS)
}

/// Refuses an op of so many steps that they cannot be counted.
pub(crate) fn steps<const N: usize>(
    op: OpKind,
    argument: &'static str,
    sizes: [usize; N],
) -> Result<()> {
    within(op, argument, "steps in all", sizes, MAX_STEPS)
}

fn within<const N: usize>(
    op: OpKind,
    argument: &'static str,
    what: &'static str,
    sizes: [usize; N],
    most: usize,
) -> Result<()> {
    if multiplied(sizes.map(|size| size.max(1))).is_some_and(|all| all <= most) {
        return Ok(());
    }
    let got = format_args!("of {sizes:?} {what}");
    Err(invalid(op, argument, got, format_args!("at most {most}")))
}

fn multiplied<const N: usize>(sizes: [usize; N]) -> Option<usize> {
    sizes
        .iter()
        .try_fold(1, |all: usize, &size| all.checked_mul(size))
}

pub(crate) fn shape(
    op: OpKind,
    argument: &'static str,
    got: &[usize],
    expected: &[usize],
) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(invalid(
        op,
        argument,
        format_args!("of shape {got:?}"),
        format_args!("{expected:?}"),
    ))
}

pub(crate) fn dtype(op: OpKind, argument: &'static str, got: DType, expected: DType) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(invalid(
        op,
        argument,
        format_args!("of type {got}"),
        expected,
    ))
}

pub(crate) fn float(op: OpKind, argument: &'static str, view: &View) -> Result<()> {
    if view.dtype().is_float() {
        return Ok(());
    }
    Err(invalid(
        op,
        argument,
        format_args!("of type {}", view.dtype()),
        "a float type",
    ))
}

pub(crate) fn same_view(
    op: OpKind,
    argument: &'static str,
    got: &View,
    expected: &View,
) -> Result<()> {
    shape(op, argument, got.shape(), expected.shape())?;
    dtype(op, argument, got.dtype(), expected.dtype())
}

pub(crate) fn writable(op: OpKind, argument: &'static str, view: &View) -> Result<()> {
    if !view.layout().overlaps() {
        return Ok(());
    }
    Err(invalid(
        op,
        argument,
        view.layout(),
        "a layout in which no two indices name one element",
    ))
}

pub(crate) fn axis_of(op: OpKind, axis: usize, view: &View) -> Result<()> {
    if axis < view.layout().rank() {
        return Ok(());
    }
    Err(invalid(
        op,
        "axis",
        axis,
        format_args!(
            "below {}, the rank of {:?}",
            view.layout().rank(),
            view.shape()
        ),
    ))
}

pub(crate) fn broadcasts(
    op: OpKind,
    argument: &'static str,
    view: &View,
    to: &[usize],
) -> Result<()> {
    let from = view.shape();
    let fits = from.len() <= to.len()
        && from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(&from, &to)| from == to || from == 1);
    if fits {
        return Ok(());
    }
    Err(invalid(
        op,
        argument,
        format_args!("of shape {from:?}"),
        format_args!("one that broadcasts to {to:?}"),
    ))
}

pub(crate) fn same_type(
    op: OpKind,
    argument: &'static str,
    got: &View,
    expected: &View,
) -> Result<()> {
    dtype(op, argument, got.dtype(), expected.dtype())
}

pub(crate) fn rank(op: OpKind, argument: &'static str, view: &View, expected: usize) -> Result<()> {
    require(
        op,
        argument,
        view.layout().rank() == expected,
        format_args!("of shape {:?}", view.shape()),
        format_args!("of rank {expected}"),
    )
}
