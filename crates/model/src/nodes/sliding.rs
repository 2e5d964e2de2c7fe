//! Windows as ONNX describes them.

use super::call::Call;
use crate::error::NodeError;

/// How a window moves, with a value for each spatial axis.
pub struct Sliding {
    pub stride: Vec<usize>,
    pub padding: Vec<(usize, usize)>,
    pub dilation: Vec<usize>,
}

impl Sliding {
    /// What a node says of a window of the sizes `kernel` over `spatial` elements.
    pub fn of(call: &Call<'_>, spatial: &[usize], kernel: &[usize]) -> Result<Sliding, NodeError> {
        let rank = spatial.len();
        let stride = each(call, "strides", rank)?;
        let dilation = each(call, "dilations", rank)?;
        if kernel.len() != rank {
            let expected = format!("{rank} sizes");
            return Err(NodeError::malformed(
                "the kernel's shape",
                format_args!("{kernel:?}"),
                expected,
            ));
        }
        let half = |axis: usize, larger_first| {
            let reach = reach(kernel[axis], dilation[axis]);
            let windows = spatial[axis].div_ceil(stride[axis].max(1));
            let covered = spread(windows, stride[axis], reach);
            halves(covered.saturating_sub(spatial[axis]), larger_first)
        };
        let same = |larger_first| (0..rank).map(|axis| half(axis, larger_first)).collect();
        let auto = call.string_or("auto_pad", "NOTSET")?;
        if !matches!(auto, "NOTSET" | "") && call.sizes("pads")?.iter().any(|&pad| pad > 0) {
            let expected = format!("no numbers but zero beside auto_pad {auto}");
            let got = format!("{:?}", call.sizes("pads")?);
            return Err(NodeError::malformed("attribute pads", got, expected));
        }
        let padding = match auto {
            "NOTSET" | "" => pads(call, rank)?,
            "VALID" => vec![(0, 0); rank],
            "SAME_UPPER" => same(false),
            "SAME_LOWER" => same(true),
            other => return Err(call.unknown("auto_pad", other)),
        };
        Ok(Sliding {
            stride,
            padding,
            dilation,
        })
    }
}

/// How many elements a window of so many covers.
pub fn reach(kernel: usize, dilation: usize) -> usize {
    spread(kernel, dilation, 1)
}

/// How many elements so many windows cover that each reach so far.
pub fn spread(windows: usize, stride: usize, reach: usize) -> usize {
    let steps = windows.saturating_sub(1);
    steps.saturating_mul(stride).saturating_add(reach)
}

/// A total of padding, before and after.
pub fn halves(total: usize, larger_first: bool) -> (usize, usize) {
    match larger_first {
        true => (total.div_ceil(2), total / 2),
        false => (total / 2, total.div_ceil(2)),
    }
}

/// An attribute with a value for each axis, or ones.
pub fn each(call: &Call<'_>, name: &str, rank: usize) -> Result<Vec<usize>, NodeError> {
    if !call.has(name) {
        return Ok(vec![1; rank]);
    }
    let given = call.sizes(name)?;
    counted(name, &given, rank)?;
    Ok(given)
}

/// The padding of each axis, from the attribute that lists all beginnings and then all ends.
pub fn pads(call: &Call<'_>, rank: usize) -> Result<Vec<(usize, usize)>, NodeError> {
    if !call.has("pads") {
        return Ok(vec![(0, 0); rank]);
    }
    let given = call.sizes("pads")?;
    counted("pads", &given, 2 * rank)?;
    let (before, after) = given.split_at(rank);
    Ok(before.iter().copied().zip(after.iter().copied()).collect())
}

/// Refuses an attribute that lists more values, or fewer: none as well.
pub fn counted(name: &str, given: &[usize], count: usize) -> Result<(), NodeError> {
    if given.len() == count {
        return Ok(());
    }
    let (got, expected) = (format!("{given:?}"), format!("{count} values"));
    Err(NodeError::malformed(
        format_args!("attribute {name}"),
        got,
        expected,
    ))
}
