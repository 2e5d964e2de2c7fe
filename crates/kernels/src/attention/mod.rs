//! Scaled dot-product attention.
//!
//! Five forms, none of which stores a matrix of scores: the softmax is carried along from block to block of keys.
//! `Form::Few` takes few queries, and divides the keys. `Form::Tiles` multiplies short floats on the tensor cores,
//! scores and sums staying in registers; `Form::Matrices` does it with those of Apple's simdgroups. `Form::Blocks` sums in registers of single threads, which is as exact as
//! `f32` is. `Form::Single` takes what is left: doubles, and values too wide for registers.

mod few;
mod text;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use streampool_device::{Attention as Op, DType, View};

use few::Few;

use crate::dispatch::grid;
use crate::rows::packs::begins_aligned;
use crate::text::MOST_SHARED;
use crate::{Dispatch, Kernel, Limits, Operand, Params, Plan};

/// A kernel that attends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    dtype: DType,
    form: Form,
    mask: Mask,
    /// Whether the mask of a key is the same for each query, and the form makes use of that.
    mask_of_keys: bool,
    causal: bool,
    softcap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mask {
    None,
    Keep,
    Add,
}

/// How work is divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// Teams of threads for the keys of few queries.
    Few(Few),
    /// A group for each query, which adds up what the groups of `Form::Few` left.
    Merge,
    /// Four warps, each with some times 16 queries.
    Tiles {
        /// Of keys and values, rounded up to what is multiplied at once.
        widths: [u16; 2],
        /// Keys at a time.
        keys: u8,
        /// Times 16 queries of a warp.
        tiles: u8,
        /// Whether elements of a row are neighbours that can be moved eight at a time.
        dense: bool,
    },
    /// Simdgroups with eight queries each.
    Matrices {
        /// Of keys and values, rounded up to what is multiplied at once.
        widths: [u16; 2],
        /// Whether elements of a row are neighbours that can be read eight at a time.
        dense: bool,
    },
    /// 256 threads for 64 queries.
    Blocks {
        /// Of values, rounded up to what the threads sum.
        width: u16,
        /// Keys at a time.
        keys: u8,
        /// How far tiles reach along rows, and how many values at a time.
        depth: u8,
    },
    /// A warp for each query.
    Single,
}

/// The widest rows that registers hold the sums of.
const WIDEST: usize = 256;
/// Columns of values that one warp sums for a single query.
const SINGLE_COLUMNS: usize = 256;
/// Queries of a group of `Form::Blocks`.
const BLOCK_QUERIES: usize = 64;
/// Warps of a group of `Form::Tiles`.
const WARPS: usize = 4;

impl Form {
    fn of(op: &Op, limits: &Limits) -> Form {
        let (width, value_width) = (op.query.shape()[3], op.value.shape()[3]);
        let shared = limits.shared_bytes.min(MOST_SHARED);
        let short = matches!(op.query.dtype(), DType::F16 | DType::BF16);
        if op.query.dtype() == DType::F64 || value_width > WIDEST {
            return Form::Single;
        }
        let read = [&op.query, &op.key, &op.value];
        let dense = read.into_iter().all(is_dense);
        if let Some(few) = Few::of(op, limits, dense) {
            return Form::Few(few);
        }
        if short && width <= WIDEST {
            let widths = [width, value_width].map(padded);
            let bytes = |keys: u32| {
                let rows = widths
                    .iter()
                    .map(|&width| u32::from(width) + text::TILE_GAP);
                keys * rows.sum::<u32>() * 2
            };
            let keys = [64, 32].into_iter().find(|&keys| bytes(keys) <= shared);
            let groups = op.query.shape()[..2].iter().product::<usize>()
                * op.query.shape()[2].div_ceil(WARPS * 32);
            let many = groups >= 2 * limits.compute_units as usize;
            let tiles = if many && widths.iter().all(|&width| width <= 64) {
                2
            } else {
                1
            };
            return Form::Tiles {
                widths,
                keys: keys.unwrap_or(16) as u8,
                tiles,
                dense: dense && is_dense(&op.out),
            };
        }
        let width = match value_width {
            ..=32 => 32,
            wider => wider.next_multiple_of(64) as u16,
        };
        // Memory is waited for less often where tiles are large.
        let depth = if op.query.shape()[3] > 16 { 32 } else { 16 };
        let fits = |&(keys, depth): &(u8, u8)| {
            text::block_bytes(u32::from(width), keys.into(), depth.into()) <= shared
        };
        let tiles = [(64, depth), (64, 16), (32, 16)].into_iter().find(fits);
        let (keys, depth) = tiles.unwrap_or((16, 16));
        Form::Blocks { width, keys, depth }
    }

    /// Queries of a group.
    fn queries(self) -> usize {
        match self {
            Form::Tiles { tiles, .. } => WARPS * 16 * usize::from(tiles),
            Form::Matrices { .. } => text::MATRIX_ROWS as usize,
            Form::Blocks { .. } => BLOCK_QUERIES,
            Form::Few(few) => few.rows.into(),
            Form::Single | Form::Merge => 1,
        }
    }

    fn threads(self) -> u32 {
        match self {
            Form::Tiles { .. } => WARPS as u32 * 32,
            Form::Matrices { .. } => text::SIMDGROUPS * 32,
            Form::Blocks { .. } => 256,
            Form::Few(few) => few.threads(),
            Form::Merge => few::MERGE_THREADS,
            Form::Single => 32,
        }
    }

    /// Whether exponentials are powers of two, and scores scaled for them.
    fn by_two(self) -> bool {
        self != Form::Single
    }
}

/// A width as the tensor cores take it: not all multiples of 16, so that there are fewer kernels.
fn padded(width: usize) -> u16 {
    let step = if width > 128 { 64 } else { 16 };
    width.max(1).next_multiple_of(step) as u16
}

/// Whether eight elements of each row can be moved at once.
fn is_dense(view: &View) -> bool {
    let layout = view.layout();
    let (shape, strides) = (layout.shape(), layout.strides());
    let apart = |axis: usize| shape[axis] <= 1 || strides[axis] % 8 == 0;
    begins_aligned(view, 8) && shape[3].is_multiple_of(8) && strides[3] == 1 && (0..3).all(apart)
}

/// The launches that execute `op`, which was validated; `None` if it has more queries than groups can be counted.
pub(crate) fn attention(op: &Op, limits: &Limits) -> Option<Plan> {
    if op.out.layout().elements() == 0 {
        return Some(Plan::default());
    }
    launches(op, Form::of(op, limits), limits)
}

/// The launches on a GPU of Apple's whose simdgroups multiply matrices; `None` if that is no gain.
pub(crate) fn simdgroup_attention(op: &Op, limits: &Limits) -> Option<Plan> {
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

fn launches(op: &Op, form: Form, limits: &Limits) -> Option<Plan> {
    if let Form::Few(few) = form {
        return few.plan(op, limits);
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

/// A launch in this form, whose groups are to be counted.
fn dispatch(op: &Op, form: Form, tiles: usize) -> Dispatch {
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
        kernel: Kernel::Attention(kernel),
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
