//! The product of `f16` or `bf16` on Hopper's tensor cores, whose tiles of factors the GPU's copy engine fetches.
//!
//! One thread asks for tiles, as many ahead as there is room for, and one or two warpgroups multiply them as they come. There are
//! tiles for a stream that may be alone, which keep many processors busy, and others for one of many, which fetch less for each
//! result. Each result is one sum, in the order of its terms, so it has the same bits whatever the size of a tile is.
//!
//! Of few tiles with many terms, the terms are in parts: the groups of a cluster have one each, read one another's sums and add
//! them in the order of the parts, whatever the tile is.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::matrices;
use super::problem::{LONGEST, Problem};
use super::shared_text::{buffers, ends};
use super::split::{NARROWEST, SHORTEST};
use crate::dispatch::{Dispatch, Limits, Plan, TensorMap};
use crate::text::{Dialect, Field, KernelText, SharedArray, TENSOR_MAP, constants, tiles};

/// Tiles of results, a group for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fetched {
    ends: Ends,
    tile: Tile,
    /// Whether the second factor is dense along the inner dimension; else along its rows.
    b_along_k: bool,
    /// Whether two neighbours of a row are written at once.
    pairs: bool,
    /// Dimensions of matrices: one at most.
    batch_rank: u8,
    /// Parts of the terms, and groups of a cluster.
    parts: u8,
}

/// The results of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    rows: u8,
    columns: u8,
    /// Columns of a warpgroup, which has 64 rows. With few of them each thread has fewer results to finish.
    width: u8,
    /// Tiles of factors in shared memory.
    stages: u8,
}

/// Terms of a tile of factors.
const DEPTH: usize = 64;
/// The columns of a line across, at most: 128 bytes.
const ACROSS: u8 = 64;

/// For a stream that may be alone, by how many tiles there are.
const ALONE: [Tile; 3] = [
    Tile::new(64, 32, 32, 6),
    Tile::new(64, 64, 32, 6),
    Tile::new(64, 128, 64, 4),
];
/// For one of many: the first of those that leave no more rows and columns empty than others do.
const OF_MANY: [Tile; 4] = [
    Tile::new(128, 128, 128, 3),
    Tile::new(128, 64, 64, 4),
    Tile::new(64, 128, 128, 4),
    Tile::new(64, 64, 64, 3),
];
/// With fewer of the largest tiles, smaller ones are faster.
const FEWEST_LARGE: usize = 9;

/// Parts of the terms, at most. More are no faster.
const MOST_PARTS: usize = 4;
/// Terms of a part, at least. Shorter ones are faster for a stream alone, but slower for one of many.
const SHORTEST_PART: usize = 768;

/// With more tiles of 64 x 64 for each two processors, a library's products are faster.
const MOST_TILES: usize = 3;
/// Bytes that strides of a tensor map are less than. They are multiples of 16.
const MOST_STRIDE: usize = 1 << 40;
/// Bytes of shared memory of a processor, and those of a group that the system needs.
const SHARED: [u32; 2] = [228 << 10, 1 << 10];

impl Tile {
    const fn new(rows: u8, columns: u8, width: u8, stages: u8) -> Tile {
        Tile {
            rows,
            columns,
            width,
            stages,
        }
    }

    /// Threads that multiply.
    fn multipliers(self) -> u32 {
        u32::from(self.rows / 64 * (self.columns / self.width)) * 128
    }

    /// A warp more, of which one thread asks for tiles.
    fn threads(self) -> u32 {
        self.multipliers() + 32
    }

    /// Packs of 16 bytes in shared memory: tiles of factors, and for each stage whether it is full, and whether empty.
    fn packs(self) -> u32 {
        let [rows, columns, stages] = [self.rows, self.columns, self.stages].map(u32::from);
        stages * ((rows + columns) * (DEPTH as u32 * 2 / 16) + 1)
    }

    /// Groups that a processor has memory for, four at most.
    fn residents(self) -> u32 {
        let [all, of_system] = SHARED;
        (all / (self.packs() * 16 + of_system)).min(4)
    }

    fn sides(self) -> [u8; 2] {
        [self.rows, self.columns]
    }

    /// Whether no more rows and columns are empty than with the smallest tiles.
    fn is_full(self, problem: &Problem) -> bool {
        let covered = |length: usize, side: u8| length.next_multiple_of(side.into());
        covered(problem.m, self.rows) == covered(problem.m, 64)
            && covered(problem.n, self.columns) == covered(problem.n, 64)
    }

    fn of(problem: &Problem, limits: &Limits, parts: usize, many: bool) -> Tile {
        let units = limits.compute_units as usize;
        let count = |tile: Tile| problem.all_tiles(tile.sides());
        if many {
            let [large, tall, wide, square] = OF_MANY;
            if large.is_full(problem) && count(large) >= FEWEST_LARGE {
                return large;
            }
            let full = [tall, wide].into_iter().find(|tile| tile.is_full(problem));
            return full.unwrap_or(square);
        }
        let [narrow, square, wide] = ALONE;
        if parts > 1 {
            square
        } else if count(narrow) <= units / 2 {
            narrow
        } else if count(square) <= units * 5 / 4 {
            square
        } else {
            wide
        }
    }
}

/// How many parts the terms are in: as many as keep the processors busy for a stream that is alone.
fn parts(problem: &Problem, limits: &Limits) -> usize {
    let [_, square, _] = ALONE;
    let for_each = limits.compute_units as usize / problem.all_tiles(square.sides());
    for_each.min(problem.k / SHORTEST_PART).clamp(1, MOST_PARTS)
}

/// The launch that executes `op`, if this form takes it; of a stream that may be alone, or of one of `many`.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    many: bool,
    kind: impl FnOnce(Fetched) -> K,
) -> Option<Plan<K>> {
    let dtype = op.a.dtype();
    let [_, square, _] = ALONE;
    let is_left =
        problem.all_tiles(square.sides()) > MOST_TILES * limits.compute_units as usize / 2;
    let is_taken = matches!(dtype, DType::F16 | DType::BF16)
        && [&op.b, &op.out].iter().all(|view| view.dtype() == dtype)
        && problem.m.min(problem.n) >= NARROWEST
        && (SHORTEST..LONGEST).contains(&problem.k)
        && problem.batch().len() <= 1;
    if !is_taken || is_left {
        return None;
    }
    let parts = parts(problem, limits);
    let mapped = |problem: &Problem| {
        let b_along_k = problem.in_packs(op)?;
        let tile = Tile::of(problem, limits, parts, many);
        Some((
            *problem,
            tile,
            b_along_k,
            maps(problem, dtype, tile, b_along_k)?,
        ))
    };
    let (problem, tile, b_along_k, maps) = problem.either_way(mapped)?;
    let kernel = Fetched {
        ends: Ends::of(op),
        tile,
        b_along_k,
        pairs: problem.is_written_in_pairs(&op.out),
        batch_rank: problem.batch().len() as u8,
        parts: parts as u8,
    };
    let [tiles, across] = problem.tiles(tile.sides());
    let params = matrices::values(op.alpha, kernel.ends, &problem, across);
    Some(Plan::of(Dispatch {
        groups: matrices::groups(tiles * parts, &problem),
        threads: tile.threads(),
        operands: problem.operands(op),
        params: params.after(maps),
        kernel: kind(kernel),
    }))
}

/// How tiles of both factors are found; `None` if a tensor map cannot say it.
fn maps(problem: &Problem, dtype: DType, tile: Tile, b_along_k: bool) -> Option<[TensorMap; 2]> {
    let batch = problem.batch().first();
    let map = |operand, at: i64, [line, lines]: [usize; 2], stride: i64, matrix: i64, tile| {
        let bytes = |elements: i64| usize::try_from(elements).ok()?.checked_mul(dtype.size());
        let stride = bytes(stride).filter(|&stride| stride >= line * dtype.size())?;
        // What all matrices share is one matrix.
        let matrices = if matrix == 0 { 1 } else { problem.matrices() };
        let matrix = if matrices == 1 {
            stride
        } else {
            bytes(matrix)?
        };
        let is_known = stride.max(matrix) < MOST_STRIDE && line.max(lines) <= i32::MAX as usize;
        is_known.then_some(TensorMap {
            operand,
            offset: bytes(at)?,
            dtype,
            sizes: [line, lines, matrices],
            strides: [stride, matrix],
            tile,
        })
    };
    let Problem { m, n, k, a, b, .. } = *problem;
    let [rows, columns] = [tile.rows, tile.columns].map(u32::from);
    let of_matrices = |walked: fn(&super::problem::Batch) -> i64| batch.map_or(0, walked);
    let (a_batch, b_batch) = (of_matrices(|batch| batch.a), of_matrices(|batch| batch.b));
    let depth = DEPTH as u32;
    Some([
        map(0, a.at, [k, m], a.row, a_batch, [depth, rows])?,
        match b_along_k {
            true => map(1, b.at, [k, n], b.column, b_batch, [depth, columns])?,
            false => {
                let line = columns.min(ACROSS.into());
                map(1, b.at, [n, k], b.row, b_batch, [line, depth])?
            }
        },
    ])
}

impl Fetched {
    /// Nothing in Metal's dialect: there is no such copy engine.
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal {
            return None;
        }
        let tile = self.tile;
        let mut functions = ends(self.ends);
        functions.push_str(tiles(dialect));
        constants(
            &mut functions,
            &[
                ("ROWS", tile.rows.into()),
                ("COLUMNS", tile.columns.into()),
                ("WIDTH", tile.width.into()),
                ("DEPTH", DEPTH as u32),
                ("STAGES", tile.stages.into()),
                ("TEAM_THREADS", tile.multipliers()),
                ("RESIDENTS", tile.residents()),
                ("B_ALONG_K", self.b_along_k.into()),
                ("BATCHES", self.batch_rank.into()),
                ("PAIRS", self.pairs.into()),
                ("BRAIN", (self.ends.dtype == DType::BF16).into()),
            ],
        );
        if self.parts > 1 {
            constants(&mut functions, &[("CLUSTER", self.parts.into())]);
        }
        functions.push_str(include_str!("warpgroup_functions.h"));
        functions.push_str(include_str!("fetched_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("fetched_body.h"));
        body.push_str(include_str!("short_end.h"));
        let mut params = Vec::from(["a_map", "b_map"].map(|name| Field::new(TENSOR_MAP, name)));
        params.extend(matrices::fields(self.ends, self.batch_rank));
        let packs = tile.packs();
        Some(KernelText {
            entry: "product_fetched",
            buffers: buffers(self.ends),
            params,
            shared: vec![SharedArray::brought(
                "Words",
                "words",
                packs as usize,
                packs * 16,
            )],
            threads: Some(tile.threads()),
            functions,
            body,
        })
    }
}
