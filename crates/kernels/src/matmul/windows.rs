//! Convolutions as products: a row of the first factor is what one window sees. It lies in memory nowhere, but is gathered while
//! it is multiplied.

use streampool_device::{Conv, DType, Slide, View};

use super::ends::Ends;
use super::problem::{Batch, LONGEST, Problem, Walk};
use crate::dispatch::Params;
use crate::spatial::{self, step_of};
use crate::text::Field;

/// Elements that are moved at once, and their bytes.
const PACK: usize = 4;
const BYTES: usize = 16;
/// Distances that kernels count in 31 bits.
const LIMIT: usize = 1 << 31;

/// The product that `op`, which was validated, is; `None` unless it is of pictures of `f32` whose channels lie side by side. Of
/// groups of channels, each is a matrix.
pub(super) fn problem(op: &Conv) -> Option<Problem> {
    let views = [&op.src, &op.weight, &op.dst];
    let (read, sizes, made) = (op.src.shape(), op.weight.shape(), op.dst.shape());
    let all = [read, sizes, made].concat();
    if views.iter().any(|view| view.dtype() != DType::F32)
        || op.transposed
        || op.window.len() != 2
        || all.contains(&0)
        || !spatial::is_countable(&op.window, [&op.src, &op.dst])
        || spatial::is_wide(&[&op.src, &op.dst])
    {
        return None;
    }
    // None of these sizes is zero.
    let (channels, made_each) = (sizes[1], made[1] / op.groups);
    let from = op.src.layout().strides();
    let weights = op.weight.layout().strides();
    let is_pack = |stride: &isize| *stride >= 0 && stride.unsigned_abs().is_multiple_of(PACK);
    let in_packs = |view: &View| {
        view.layout().offset().is_multiple_of(PACK) && view.span().offset.is_multiple_of(BYTES)
    };
    let side_by_side = [
        (sizes[2], weights[2]),
        (sizes[3], weights[3]),
        (channels, weights[1]),
    ];
    let is_right = channels.is_multiple_of(PACK)
        && from[1] == 1
        && [from[0], from[2], from[3], weights[0]].iter().all(is_pack)
        && [&op.src, &op.weight].into_iter().all(in_packs)
        && step_of(side_by_side) == Some(1)
        && reaches(op).is_some_and(|reach| reach < LIMIT);
    if !is_right {
        return None;
    }
    let terms = channels.checked_mul(sizes[2])?.checked_mul(sizes[3])?;
    if terms > LONGEST {
        return None;
    }
    let to = op.dst.layout().strides();
    let row = step_of([(made[0], to[0]), (made[2], to[2]), (made[3], to[3])])?;
    let at = |view: &View| view.layout().offset() as i64;
    let mut problem = Problem::of_matrix(
        [
            made[0].checked_mul(made[2])?.checked_mul(made[3])?,
            made_each,
            terms,
        ],
        Walk {
            at: at(&op.src),
            row: 0,
            column: 1,
        },
        Walk {
            at: at(&op.weight),
            row: 1,
            column: weights[0] as i64,
        },
        Walk {
            at: at(&op.dst),
            row: row as i64,
            column: to[1] as i64,
        },
        op.bias.as_ref().map_or(Walk::default(), |bias| Walk {
            at: at(bias),
            row: 0,
            column: bias.layout().strides()[0] as i64,
        }),
    );
    if op.groups > 1 {
        let columns = made_each as i64;
        problem.append(Batch {
            size: op.groups,
            a: channels as i64,
            b: columns.checked_mul(problem.b.column)?,
            out: columns.checked_mul(problem.out.column)?,
            bias: columns.checked_mul(problem.bias.column)?,
        });
    }
    Some(problem)
}

/// How far from the first element of a picture a window may look, in elements.
fn reaches(op: &Conv) -> Option<usize> {
    let strides = op.src.layout().strides();
    let sizes = op.src.shape();
    let axes = op.window.iter().zip(&sizes[2..]).zip(&strides[2..]);
    let mut all = sizes[0].checked_mul(strides[0].unsigned_abs())?;
    for ((slide, size), stride) in axes {
        let Slide { before, after, .. } = slide;
        let places = slide.reach().checked_add(*size)?;
        let places = places.checked_add(*before as usize)?;
        let places = places.checked_add(*after as usize)?;
        all = all.checked_add(places.checked_mul(stride.unsigned_abs())?)?;
    }
    all.checked_add(sizes[1])
}

/// What its text depends on.
pub(super) fn ends(op: &Conv) -> Ends {
    Ends {
        dtype: DType::F32,
        result: DType::F32,
        activation: op.activation,
        bias: op.bias.is_some(),
    }
}

/// The parameters of how windows slide, after those of the product.
pub(super) fn fields() -> Vec<Field> {
    let counts = [
        "windows",
        "windows_x",
        "kernel_x",
        "channels",
        "height",
        "width",
    ];
    let distances = [
        "stride_y",
        "stride_x",
        "before_y",
        "before_x",
        "dilation_y",
        "dilation_x",
        "src_image",
        "src_y",
        "src_x",
    ];
    let counts = counts.map(|name| Field::new("u32", name));
    counts
        .into_iter()
        .chain(distances.map(|name| Field::new("i32", name)))
        .collect()
}

/// The values of [`fields`].
pub(super) fn values(params: Params, op: &Conv) -> Params {
    let (read, made) = (op.src.shape(), op.dst.shape());
    let strides = op.src.layout().strides();
    let [down, across] = [op.window[0], op.window[1]];
    let values = [
        made[2] * made[3],
        made[3],
        across.kernel as usize,
        op.weight.shape()[1],
        read[2],
        read[3],
        down.stride as usize,
        across.stride as usize,
        down.before as usize,
        across.before as usize,
        down.dilation as usize,
        across.dilation as usize,
        strides[0].unsigned_abs(),
        strides[2].unsigned_abs(),
        strides[3].unsigned_abs(),
    ];
    values.into_iter().fold(params, Params::size)
}
