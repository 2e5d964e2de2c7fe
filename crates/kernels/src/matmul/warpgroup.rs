//! Products of `f32` on Hopper's tensor cores, which four warps use together: a warpgroup. Convolutions are such products, too.
//!
//! As in [`split`](super::split), each number is the sum of two TF32 numbers, and three of the four products of these are summed,
//! few at a time. A warpgroup takes its part of the second factor from registers and the first from shared memory. So only what is
//! left of the first factor needs shared memory of its own, and it is there once for all warps.
//!
//! There are tiles for a stream that may be alone, and others for one of many. A result has the same bits from both: its terms are
//! summed in the same parts and order.

use smallvec::SmallVec;
use streampool_device::{Conv, DType, MatMul};

use super::ends::Ends;
use super::few_rows::MOST_ROWS;
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use super::split::{LONG, NARROWEST, SHORTEST};
use super::{matrices, windows};
use crate::dispatch::{Dispatch, Limits, Operand, Plan, operands_of};
use crate::text::{Dialect, KernelText, SharedArray, constants, tiles};

/// Tiles of results, a group for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Warpgroup {
    ends: Ends,
    tile: Tile,
    /// Whether the second factor is dense along the inner dimension; else along its rows.
    b_along_k: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
    /// Whether a row of the first factor is what a window of a convolution sees.
    windows: bool,
}

/// The results of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    rows: u8,
    columns: u8,
    /// Parts of the inner dimension.
    parts: u8,
    /// Those that are summed at the same time.
    teams: u8,
    /// How far a tile of factors reaches along the inner dimension, for each part.
    depth: u8,
    /// Tiles of factors in shared memory: one is multiplied while the others are fetched.
    stages: u8,
}

/// Where there are tiles for all processors.
const SPLIT: Tile = Tile {
    rows: 64,
    columns: 64,
    parts: 2,
    teams: 2,
    depth: 32,
    stages: 2,
};
/// They keep more processors busy, and are there sooner.
const SPLIT_FLAT: Tile = Tile {
    rows: 32,
    parts: 4,
    teams: 4,
    depth: 16,
    stages: 3,
    ..SPLIT
};
/// Takes the place of a flat one where many streams share the device.
const SPLIT_OF_MANY: Tile = Tile {
    rows: 64,
    ..SPLIT_FLAT
};
/// Threads of a warpgroup, and the rows of one.
const WARPGROUP: [u32; 2] = [128, 64];
impl Tile {
    fn threads(self) -> u32 {
        u32::from(self.teams) * self.team()
    }

    /// Threads of a team.
    fn team(self) -> u32 {
        let [threads, rows] = WARPGROUP;
        u32::from(self.rows).div_ceil(rows) * threads
    }

    /// Groups that a processor has registers for.
    fn residents(self) -> u32 {
        512 / self.threads()
    }

    /// Packs of 16 bytes in shared memory: for tiles of factors, or at the end for the sums of all parts.
    fn packs(self) -> u32 {
        let [rows, columns, teams] = [self.rows, self.columns, self.teams].map(u32::from);
        let [depth, stages] = [self.depth, self.stages].map(u32::from);
        // One of what is left of the first factor.
        let numbers = ((stages + 1) * rows + stages * columns) * depth;
        // Teams exchange their sums.
        teams * numbers.max(rows * columns) * 4 / 16
    }

    /// Whether tiles of so many rows cover at most a fifth more than half as many would: a group of them reads the second factor
    /// half as often.
    fn is_full(self, problem: &Problem) -> bool {
        let covered = |rows: usize| problem.m.next_multiple_of(rows);
        let rows = usize::from(self.rows);
        covered(rows) * 5 <= covered(rows / 2) * 6
    }

    /// The tile for a stream that may be alone, or for one of `many`, if that is another.
    fn of(problem: &Problem, limits: &Limits, many: bool) -> Option<Tile> {
        let tiles = problem.all_tiles([SPLIT.rows, SPLIT.columns]);
        let (alone, of_many) = match tiles >= limits.compute_units as usize {
            true => (SPLIT, None),
            false => (
                SPLIT_FLAT,
                Some(SPLIT_OF_MANY).filter(|tile| tile.is_full(problem)),
            ),
        };
        if many { of_many } else { Some(alone) }
    }
}

/// The launch that executes `op`, if this form takes it; of a stream among `many`, if that is another.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    many: bool,
    kind: impl FnOnce(Warpgroup) -> K,
) -> Option<Plan<K>> {
    let is_taken = [&op.a, &op.b, &op.out]
        .iter()
        .all(|view| view.dtype() == DType::F32)
        && problem.m.min(problem.n) > MOST_ROWS
        && problem.m.max(problem.n) >= NARROWEST
        && (SHORTEST..LONG).contains(&problem.k);
    if !is_taken {
        return None;
    }
    // First how the factors lie, so that it is the same for one stream and for many.
    let in_packs = |problem: &Problem| Some((*problem, problem.in_packs(op)?));
    let (problem, b_along_k) = problem.either_way(in_packs)?;
    let kernel = Warpgroup {
        ends: Ends::of(op),
        tile: Tile::of(&problem, limits, many)?,
        b_along_k,
        batch_rank: problem.batch().len() as u8,
        windows: false,
    };
    Some(Plan::of(kernel.dispatch(
        op.alpha,
        &problem,
        problem.operands(op),
        kind,
    )))
}

/// The launch that executes a convolution, if this form takes it; of a stream among `many`, if that is another.
pub(super) fn of_windows<K>(
    op: &Conv,
    limits: &Limits,
    many: bool,
    kind: impl FnOnce(Warpgroup) -> K,
) -> Option<Plan<K>> {
    let problem = windows::problem(op)?;
    let kernel = Warpgroup {
        ends: windows::ends(op),
        tile: Tile::of(&problem, limits, many)?,
        b_along_k: true,
        batch_rank: problem.batch().len() as u8,
        windows: true,
    };
    let operands = operands_of([&op.src, &op.weight], op.bias.as_ref(), &op.dst);
    let mut dispatch = kernel.dispatch(1.0, &problem, operands, kind);
    dispatch.params = windows::values(dispatch.params, op);
    Some(Plan::of(dispatch))
}

impl Warpgroup {
    /// The launch that multiplies `problem`, whose buffers are `operands`.
    fn dispatch<K>(
        self,
        alpha: f64,
        problem: &Problem,
        operands: SmallVec<[Operand; 4]>,
        kind: impl FnOnce(Warpgroup) -> K,
    ) -> Dispatch<K> {
        let [tiles, across] = problem.tiles([self.tile.rows, self.tile.columns]);
        Dispatch {
            groups: matrices::groups(tiles, problem),
            threads: self.tile.threads(),
            operands,
            params: matrices::values(alpha, self.ends, problem, across),
            kernel: kind(self),
        }
    }

    /// Nothing in Metal's dialect: there is no TF32.
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
                ("PARTS", tile.parts.into()),
                ("TEAMS", tile.teams.into()),
                ("TEAM_THREADS", tile.team()),
                ("DEPTH", tile.depth.into()),
                ("STAGES", tile.stages.into()),
                ("RESIDENTS", tile.residents()),
                ("WINDOWS", self.windows.into()),
                ("B_ALONG_K", self.b_along_k.into()),
            ],
        );
        functions.push_str(include_str!("copies_functions.h"));
        functions.push_str(include_str!("warpgroup_functions.h"));
        functions.push_str(include_str!("split_numbers.h"));
        functions.push_str(include_str!("warpgroup_split_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("warpgroup_fetch.h"));
        body.push_str(include_str!("warpgroup_split_body.h"));
        let mut params = matrices::fields(self.ends, self.batch_rank);
        if self.windows {
            params.extend(windows::fields());
        }
        let packs = tile.packs();
        Some(KernelText {
            entry: if self.windows {
                "conv_warpgroup"
            } else {
                "product_warpgroup"
            },
            buffers: buffers(self.ends),
            params,
            shared: vec![SharedArray::brought(
                "Words",
                "words",
                packs as usize,
                packs * 16,
            )],
            threads: Some(self.tile.threads()),
            functions,
            body,
        })
    }
}
