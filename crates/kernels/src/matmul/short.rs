//! The product of `f16` or `bf16` on tensor cores, in tiles that leave room on a processor for those of other streams.
//!
//! A library's kernels for a small product take nearly all of a processor's shared memory, so that one stream's keep
//! the others' out. These take at most 48 KiB, and what follows the sum is part of the kernel.
//!
//! Larger tiles fetch less, but keep a stream waiting that has the device to itself. Which are chosen is nearly best for
//! both.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::matrices;
use super::problem::{LONGEST, Problem};
use super::shared_text::{buffers, ends};
use crate::dispatch::{Dispatch, Limits, Plan};
use crate::text::{Dialect, KernelText, SharedArray, constants, tiles};

/// Tiles of results, each by four warps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Short {
    ends: Ends,
    tile: Tile,
    /// Whether the second factor is dense along the inner dimension; else along its rows.
    b_along_k: bool,
    /// Whether two neighbours of a row are written at once.
    pairs: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
}

/// The results of a tile. Each warp sums for 32 × 32 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tile {
    /// 64 × 64.
    Large,
    /// 32 × 64: two warps for each half of the terms.
    Flat,
    /// 32 × 32: a warp for each quarter of the terms.
    Small,
}

impl Tile {
    fn rows(self) -> usize {
        match self {
            Tile::Large => 64,
            Tile::Flat | Tile::Small => 32,
        }
    }

    fn columns(self) -> usize {
        match self {
            Tile::Large | Tile::Flat => 64,
            Tile::Small => 32,
        }
    }

    /// Parts of the terms at a time.
    fn teams(self) -> u32 {
        match self {
            Tile::Large => 1,
            Tile::Flat => 2,
            Tile::Small => 4,
        }
    }

    /// How far a tile of factors reaches along the inner dimension, all parts together.
    fn depth(self) -> u32 {
        match self {
            Tile::Large | Tile::Flat => 64,
            Tile::Small => 128,
        }
    }
}

const THREADS: u32 = 128;
/// Tiles in shared memory: one is multiplied while the others are fetched.
const STAGES: u32 = 3;
/// With fewer rows, columns or terms, other forms are better.
const NARROWEST: usize = 32;
/// With more flat tiles for each processor, a library's kernels, which share them, are better.
const MOST_TILES: usize = 3;
/// So many terms are divided among more warps than few processors would need.
const LONG: usize = 2048;

/// The launch that executes `op`, if this form takes it.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl Fn(Short) -> K,
) -> Option<Plan<K>> {
    let dtype = op.a.dtype();
    let same = [&op.b, &op.out].iter().all(|view| view.dtype() == dtype);
    if !same
        || !matches!(dtype, DType::F16 | DType::BF16)
        || problem.m.min(problem.n).min(problem.k) < NARROWEST
        || problem.k > LONGEST
    {
        return None;
    }
    problem.either_way(|problem| planned(op, problem, limits, &kind))
}

fn planned<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl FnOnce(Short) -> K,
) -> Option<Plan<K>> {
    let b_along_k = problem.in_packs(op)?;
    let units = limits.compute_units as usize;
    let tiles = |tile: Tile| {
        let across = problem.n.div_ceil(tile.columns());
        problem.m.div_ceil(tile.rows()).saturating_mul(across)
    };
    let of_all = |tile| tiles(tile).saturating_mul(problem.matrices());
    let tile = match of_all(Tile::Flat) {
        few if few < units / 2 => Tile::Small,
        some if some <= units && problem.k >= LONG => Tile::Small,
        some if some <= units => Tile::Flat,
        many if many <= units.saturating_mul(MOST_TILES) => Tile::Large,
        _ => return None,
    };
    let out = problem.out;
    let strides = problem
        .batch()
        .iter()
        .fold(out.row | out.at, |all, batch| all | batch.out);
    let kernel = Short {
        ends: Ends::of(op),
        tile,
        b_along_k,
        pairs: out.column == 1
            && (strides | problem.n as i64) % 2 == 0
            && op.out.span().offset.is_multiple_of(4),
        batch_rank: problem.batch().len() as u8,
    };
    let tiles_n = problem.n.div_ceil(tile.columns());
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: matrices::groups(tiles(tile), problem),
        threads: THREADS,
        operands: problem.operands(op),
        params: matrices::values(op.alpha, kernel.ends, problem, tiles_n),
    }))
}

impl Short {
    /// Nothing in Metal's dialect, which has a form of its own.
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal {
            return None;
        }
        let tile = self.tile;
        let (rows, columns) = (tile.rows() as u32, tile.columns() as u32);
        let mut functions = ends(self.ends);
        functions.push_str(tiles(dialect));
        constants(
            &mut functions,
            &[
                ("ROWS", rows),
                ("COLUMNS", columns),
                ("DEPTH", tile.depth()),
                ("TEAMS", tile.teams()),
                ("THREADS", THREADS),
                ("STAGES", STAGES),
                ("BRAIN", u32::from(self.ends.dtype == DType::BF16)),
                ("B_ALONG_K", u32::from(self.b_along_k)),
                ("PAIRS", u32::from(self.pairs)),
                ("RESIDENTS", 4),
            ],
        );
        functions.push_str(include_str!("short_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("short_body.h"));
        Some(KernelText {
            entry: "product_short",
            buffers: buffers(self.ends),
            params: matrices::fields(self.ends, self.batch_rank),
            shared: vec![SharedArray {
                ty: "Words",
                name: "words",
                length: ((rows + columns) * tile.depth() * STAGES / 8) as usize,
            }],
            threads: Some(THREADS),
            functions,
            body,
        })
    }
}
