//! Scaled dot-product attention.
//!
//! Five forms, none of which stores a matrix of scores: the softmax is carried along from block to block of keys.
//! `Form::Few` takes few queries, and divides the keys. `Form::Tiles` multiplies short floats on the tensor cores,
//! scores and sums staying in registers; `Form::Matrices` does it with those of Apple's simdgroups. `Form::Blocks` sums in registers of single threads, which is as exact as
//! `f32` is. `Form::Single` takes what is left: doubles, and values too wide for registers.

mod few;
mod form;
mod text;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use streampool_device::{Attention as Op, DType, View};

use few::Few;
use form::{Form, Mask, SINGLE_COLUMNS, is_dense};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};

pub use form::Attention;

/// What the sums of parts begin at a multiple of.
const ALIGNMENT: usize = 256;

/// The launches that execute `op`, which was validated; `None` if it has more queries than groups can be counted.
pub(crate) fn attention<K: From<Attention>>(op: &Op, limits: &Limits) -> Option<Plan<K>> {
    if op.out.layout().elements() == 0 {
        return Some(Plan::default());
    }
    launches(op, Form::of(op, limits), limits)
}

/// The launches on a GPU of Apple's whose simdgroups multiply matrices; `None` if that is no gain.
pub(crate) fn simdgroup_attention<K: From<Attention>>(op: &Op, limits: &Limits) -> Option<Plan<K>> {
    // Where there are no heads, none share keys.
    if op.out.layout().elements() == 0 {
        return None;
    }
    match Form::of(op, limits) {
        Form::Tiles { widths, .. } => {
            let read = [&op.query, &op.key, &op.value];
            let dense = read.into_iter().all(is_dense);
            launches(op, Form::Matrices { widths, dense }, limits)
        }
        _ => None,
    }
}

fn launches<K: From<Attention>>(op: &Op, form: Form, limits: &Limits) -> Option<Plan<K>> {
    if let Form::Few(few) = form {
        return few_launches(few, op, limits);
    }
    let [batch, heads, queries] = [0, 1, 2].map(|axis| op.query.shape()[axis]);
    let tiles = queries.div_ceil(form.queries());
    let groups = batch.checked_mul(heads)?.checked_mul(tiles)?;
    let columns = match form {
        Form::Single => op.value.shape()[3].div_ceil(SINGLE_COLUMNS),
        _ => 1,
    };
    let mut dispatch = dispatch(op, form, tiles);
    dispatch.groups = grid([groups, columns, 1]);
    Some(Plan::of(dispatch))
}

/// The launches for few queries.
fn few_launches<K: From<Attention>>(few: Few, op: &Op, limits: &Limits) -> Option<Plan<K>> {
    let division = few.division(op, limits);
    let heads = op.query.shape()[0].checked_mul(op.value.shape()[1])?;
    let groups = heads
        .checked_mul(division.blocks)?
        .checked_mul(division.parts)?;
    let mut first = dispatch(op, Form::Few(few), division.blocks);
    first.groups = grid([groups, 1, 1]);
    for size in [division.rows, division.parts, division.part_keys] {
        first.params = first.params.size(size);
    }
    if !few.parted {
        return Some(Plan::of(first));
    }
    let rows = heads.checked_mul(division.rows)?;
    let slots = rows.checked_mul(division.parts)?;
    let ends = slots.checked_mul(2 * size_of::<f32>())?;
    let ends = ends.checked_next_multiple_of(ALIGNMENT)?;
    let sums = slots.checked_mul(op.value.shape()[3] * size_of::<f32>())?;
    // Both read and write the ends, then the sums.
    let left = [Operand::Scratch(0), Operand::Scratch(ends)];
    first.operands.pop();
    first.operands.extend(left);
    let merge = merge(op, rows, division.parts, left);
    Some(Plan::with_scratch(ends.checked_add(sums)?, [first, merge]))
}

/// The launch that follows, of a group for each query.
fn merge<K: From<Attention>>(
    op: &Op,
    rows: usize,
    parts: usize,
    left: [Operand; 2],
) -> Dispatch<K> {
    let kernel = Attention {
        dtype: op.query.dtype(),
        form: Form::Merge,
        mask: Mask::None,
        mask_of_keys: false,
        causal: false,
        softcap: false,
    };
    let [heads, queries] = [1, 2].map(|axis| op.query.shape()[axis]);
    let sizes = [heads, queries, op.value.shape()[3], parts];
    let params = walk(Params::new(), &op.out);
    Dispatch {
        kernel: kernel.into(),
        groups: grid([rows, 1, 1]),
        threads: few::MERGE_THREADS,
        operands: left
            .into_iter()
            .chain([Operand::Memory(op.out.span())])
            .collect(),
        params: sizes.into_iter().fold(params, Params::size),
    }
}

/// A launch in this form, whose groups are to be counted.
fn dispatch<K: From<Attention>>(op: &Op, form: Form, tiles: usize) -> Dispatch<K> {
    let [heads, queries, width] = [1, 2, 3].map(|axis| op.query.shape()[axis]);
    let [key_heads, keys, value_width] = [1, 2, 3].map(|axis| op.value.shape()[axis]);
    let kernel = Attention {
        dtype: op.query.dtype(),
        form,
        mask: match &op.mask {
            None => Mask::None,
            Some(mask) if mask.dtype() == DType::Bool => Mask::Keep,
            Some(_) => Mask::Add,
        },
        mask_of_keys: matches!(form, Form::Tiles { .. })
            && op.mask.is_some_and(|mask| stride(&mask, 2) == 0),
        causal: op.causal.is_some(),
        softcap: op.softcap != 0.0,
    };
    let mut params = Params::new();
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
    for view in [&op.query, &op.key, &op.value]
        .into_iter()
        .chain(&op.mask)
        .chain([&op.out])
    {
        params = walk(params, view);
        operands.push(Operand::Memory(view.span()));
    }
    // Beyond any key, and still far from the end of its type.
    let distance = op.causal.unwrap_or(0).clamp(-(1 << 40), 1 << 40);
    params = params.i64(distance);
    for size in [
        heads,
        heads / key_heads,
        queries,
        keys,
        width,
        value_width,
        tiles,
    ] {
        params = params.size(size);
    }
    let unit = if form.by_two() && !kernel.softcap {
        std::f64::consts::LOG2_E
    } else {
        1.0
    };
    for number in [op.scale * unit, op.softcap] {
        params = match kernel.dtype {
            DType::F64 => params.f64(number),
            _ => params.f32(number as f32),
        };
    }
    Dispatch {
        kernel: kernel.into(),
        groups: [1; 3],
        threads: form.threads(),
        operands,
        params,
    }
}

/// Appends where a view begins, and its four strides.
fn walk(params: Params, view: &View) -> Params {
    let begun = params.i64(view.layout().offset() as i64);
    (0..4).fold(begun, |params, axis| params.i64(stride(view, axis)))
}

/// The stride along an axis of four; zero where the view repeats, as a mask may.
fn stride(view: &View, axis: usize) -> i64 {
    let layout = view.layout();
    match (axis + layout.rank()).checked_sub(4) {
        Some(own) if layout.shape()[own] != 1 => layout.strides()[own] as i64,
        _ => 0,
    }
}
