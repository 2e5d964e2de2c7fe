//! The forms of attention: how work is divided among threads.

use streampool_device::{Attention as Op, DType, View};

use super::few::{self, Few};
use crate::dispatch::Limits;
use crate::rows::packs::begins_aligned;
use crate::text::MOST_SHARED;

/// A kernel that attends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    pub(super) dtype: DType,
    pub(super) form: Form,
    pub(super) mask: Mask,
    /// Whether the mask of a key is the same for each query, and the form makes use of that.
    pub(super) mask_of_keys: bool,
    pub(super) causal: bool,
    pub(super) softcap: bool,
}

/// What a mask does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mask {
    None,
    Keep,
    Add,
}

/// How work is divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
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
pub(super) const SINGLE_COLUMNS: usize = 256;
/// Queries of a group of `Form::Blocks`.
pub(super) const BLOCK_QUERIES: usize = 64;
/// Warps of a group of `Form::Tiles`.
const WARPS: usize = 4;
/// Unused elements behind each row of keys and values of [`Form::Tiles`].
pub(super) const TILE_GAP: u32 = 8;
/// Simdgroups of a group of [`Form::Matrices`].
pub(super) const SIMDGROUPS: u32 = 4;
/// Queries of such a group, and keys at a time: a tile has so many lines.
pub(super) const MATRIX_ROWS: u32 = SIMDGROUPS * 8;
/// Unused numbers behind each line of a tile of [`Form::Blocks`].
const BLOCK_GAP: u32 = 4;
/// Queries of a group of [`Form::Blocks`].
const BLOCK_ROWS: u32 = BLOCK_QUERIES as u32;

impl Form {
    /// The form that executes an op.
    pub(super) fn of(op: &Op, limits: &Limits) -> Form {
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
                let rows = widths.iter().map(|&width| u32::from(width) + TILE_GAP);
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
            block_bytes(u32::from(width), keys.into(), depth.into()) <= shared
        };
        let tiles = [(64, depth), (64, 16), (32, 16)].into_iter().find(fits);
        let (keys, depth) = tiles.unwrap_or((16, 16));
        Form::Blocks { width, keys, depth }
    }

    /// Queries of a group.
    pub(super) fn queries(self) -> usize {
        match self {
            Form::Tiles { tiles, .. } => WARPS * 16 * usize::from(tiles),
            Form::Matrices { .. } => MATRIX_ROWS as usize,
            Form::Blocks { .. } => BLOCK_QUERIES,
            Form::Few(few) => few.rows.into(),
            Form::Single | Form::Merge => 1,
        }
    }

    /// Threads of a group.
    pub(super) fn threads(self) -> u32 {
        match self {
            Form::Tiles { .. } => WARPS as u32 * 32,
            Form::Matrices { .. } => SIMDGROUPS * 32,
            Form::Blocks { .. } => 256,
            Form::Few(few) => few.threads(),
            Form::Merge => few::MERGE_THREADS,
            Form::Single => 32,
        }
    }

    /// Whether exponentials are powers of two, and scores scaled for them.
    pub(super) fn by_two(self) -> bool {
        self != Form::Single
    }
}

/// A width as the tensor cores take it: not all multiples of 16, so that there are fewer kernels.
fn padded(width: usize) -> u16 {
    let step = if width > 128 { 64 } else { 16 };
    width.max(1).next_multiple_of(step) as u16
}

/// Whether eight elements of each row can be moved at once.
pub(super) fn is_dense(view: &View) -> bool {
    let layout = view.layout();
    let (shape, strides) = (layout.shape(), layout.strides());
    let apart = |axis: usize| shape[axis] <= 1 || strides[axis] % 8 == 0;
    begins_aligned(view, 8) && shape[3].is_multiple_of(8) && strides[3] == 1 && (0..3).all(apart)
}

/// Numbers of the shared arrays of [`Form::Blocks`]: queries, keys, weights and values.
pub(super) fn block_lengths(width: u32, keys: u32, depth: u32) -> [u32; 4] {
    [
        depth * (BLOCK_ROWS + BLOCK_GAP),
        depth * (keys + BLOCK_GAP),
        keys * (BLOCK_ROWS + BLOCK_GAP),
        depth * width,
    ]
}

/// Bytes of the shared arrays of [`Form::Blocks`].
pub(super) fn block_bytes(width: u32, keys: u32, depth: u32) -> u32 {
    block_lengths(width, keys, depth).iter().sum::<u32>() * 4
}
