//! The product of `f16` or `bf16` on tensor cores, in tiles that leave room on a processor for those of other streams.
//!
//! A library's kernels for a small product take nearly all of a processor's shared memory, so that one stream's keep
//! the others' out. These take at most 48 KiB, and what follows the sum is part of the kernel.
//!
//! Larger tiles fetch less, but keep a stream waiting that has the device to itself. So there are tiles for a stream that is
//! alone, and larger ones for one of many. A result has the same bits from both: its terms are summed in the same parts, at the
//! same time by several warps or one after the other by one.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::matrices;
use super::problem::{LONGEST, Problem};
use super::shared_text::{buffers, ends};
use crate::dispatch::{Dispatch, Limits, Plan};
use crate::text::{Dialect, KernelText, SharedArray, constants, tiles};

/// Tiles of results, a group for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Short {
    ends: Ends,
    tile: Tile,
    /// Parts of the terms that are summed by themselves, before their sums are added in order.
    parts: u8,
    /// Whether the second factor is dense along the inner dimension; else along its rows.
    b_along_k: bool,
    /// Whether two neighbours of a row are written at once.
    pairs: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
}

/// The results of a group. Each warp sums for 32 × 32 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    rows: u8,
    columns: u8,
    /// Warps that share the terms of the same results, a part for each.
    teams: u8,
    /// How far a tile of factors reaches along the inner dimension, all teams together.
    depth: u8,
    /// Tiles of factors in shared memory: one is multiplied while the others are fetched.
    stages: u8,
}

const SMALL: Tile = Tile {
    rows: 32,
    columns: 32,
    teams: 4,
    depth: 128,
    stages: 3,
};
const FLAT: Tile = Tile {
    columns: 64,
    teams: 2,
    depth: 64,
    ..SMALL
};
const LARGE: Tile = Tile {
    rows: 64,
    teams: 1,
    ..FLAT
};
const WIDE: Tile = Tile {
    rows: 128,
    stages: 2,
    ..LARGE
};

impl Tile {
    fn threads(self) -> u32 {
        let warps = self.rows / 32 * (self.columns / 32) * self.teams;
        u32::from(warps) * 32
    }

    /// The tile for a stream that may be alone; `None` if a library's kernels are better.
    fn alone(problem: &Problem, limits: &Limits) -> Option<Tile> {
        let units = limits.compute_units as usize;
        let flat = problem.all_tiles([FLAT.rows, FLAT.columns]);
        match flat {
            few if few < units / 2 => Some(SMALL),
            some if some <= units && problem.k >= LONG => Some(SMALL),
            some if some <= units => Some(FLAT),
            many if many <= units.saturating_mul(MOST_TILES) => Some(LARGE),
            _ => None,
        }
    }

    /// The tile that takes the place of this one where many streams share the device; `None` if that is no other, or if more of
    /// its rows would be empty.
    fn of_many(self, problem: &Problem) -> Option<Tile> {
        let rows = |tile: Tile| problem.m.next_multiple_of(tile.rows.into());
        (rows(WIDE) == rows(FLAT) && problem.n >= WIDE.columns.into()).then_some(WIDE)
    }
}

/// Threads of such groups that a processor has registers for at a time.
pub const RESIDENT_THREADS: u32 = 512;
/// With fewer rows, columns or terms, other forms are better.
const NARROWEST: usize = 32;
/// With more flat tiles for each processor, a library's kernels, which share them, are better.
const MOST_TILES: usize = 3;
/// So many terms are divided among more warps than few processors would need.
const LONG: usize = 2048;

/// The launch that executes `op`, if this form takes it; of a stream among `many`, if that is another.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    many: bool,
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
    let (problem, b_along_k, alone) = problem.either_way(|problem| {
        let b_along_k = problem.in_packs(op)?;
        Some((*problem, b_along_k, Tile::alone(problem, limits)?))
    })?;
    let tile = match many {
        true => alone.of_many(&problem)?,
        false => alone,
    };
    let kernel = Short {
        ends: Ends::of(op),
        tile,
        parts: alone.teams,
        b_along_k,
        pairs: problem.is_written_in_pairs(&op.out),
        batch_rank: problem.batch().len() as u8,
    };
    let [tiles, tiles_n] = problem.tiles([tile.rows, tile.columns]);
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: matrices::groups(tiles, &problem),
        threads: tile.threads(),
        operands: problem.operands(op),
        params: matrices::values(op.alpha, kernel.ends, &problem, tiles_n),
    }))
}

impl Short {
    /// Nothing in Metal's dialect, which has a form of its own.
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal {
            return None;
        }
        let tile = self.tile;
        let [rows, columns, teams, depth, stages] =
            [tile.rows, tile.columns, tile.teams, tile.depth, tile.stages].map(u32::from);
        let threads = tile.threads();
        let mut functions = ends(self.ends);
        functions.push_str(tiles(dialect));
        constants(
            &mut functions,
            &[
                ("ROWS", rows),
                ("COLUMNS", columns),
                ("DEPTH", depth),
                ("TEAMS", teams),
                ("PARTS", self.parts.into()),
                ("THREADS", threads),
                ("STAGES", stages),
                ("BRAIN", u32::from(self.ends.dtype == DType::BF16)),
                ("B_ALONG_K", u32::from(self.b_along_k)),
                ("PAIRS", u32::from(self.pairs)),
                ("RESIDENTS", RESIDENT_THREADS / threads),
            ],
        );
        functions.push_str(include_str!("copies_functions.h"));
        functions.push_str(include_str!("short_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("short_body.h"));
        body.push_str(include_str!("short_end.h"));
        Some(KernelText {
            entry: "product_short",
            buffers: buffers(self.ends),
            params: matrices::fields(self.ends, self.batch_rank),
            shared: vec![SharedArray::new(
                "Words",
                "words",
                ((rows + columns) * depth * stages / 8) as usize,
            )],
            threads: Some(threads),
            functions,
            body,
        })
    }
}
