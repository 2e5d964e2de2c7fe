//! The product of `f32` on Hopper's tensor cores, which four warps use together: a warpgroup. Convolutions are such products, too.
//!
//! As in [`split`](super::split), each factor is the sum of two TF32 numbers, and three of the four products of these are
//! summed, few at a time. A warpgroup takes its part of the second factor from registers and the first from shared memory. So
//! only what is left of the first factor needs shared memory of its own, and it is there once for all warps.

use smallvec::SmallVec;
use streampool_device::{Conv, DType, MatMul};

use super::ends::Ends;
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use super::split::{LONG, NARROWEST, SHORTEST};
use super::{matrices, windows};
use crate::dispatch::{Dispatch, Limits, Operand, Plan};
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

/// The results of a group. Its warpgroups divide the inner dimension into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    rows: u8,
    parts: u8,
    /// How far a tile of factors reaches along the inner dimension, for each part.
    depth: u8,
    /// Tiles of factors in shared memory: one is multiplied while the others are fetched.
    stages: u8,
}

/// Where there are tiles for all processors.
const LARGE: Tile = Tile {
    rows: 64,
    parts: 2,
    depth: 32,
    stages: 2,
};
/// They keep more processors busy, and are there sooner.
const FLAT: Tile = Tile {
    rows: 32,
    parts: 4,
    depth: 16,
    stages: 3,
};
/// Takes the place of a flat one where many streams share the device. A result has the same bits from both.
const MANY: Tile = Tile { rows: 64, ..FLAT };

/// Columns of a tile of results: the tensor cores take no fewer rows of what comes from registers.
const COLUMNS: u32 = 64;
const WARPGROUP: u32 = 128;

impl Tile {
    fn threads(self) -> u32 {
        u32::from(self.parts) * WARPGROUP
    }

    /// Groups that a processor has room for.
    fn residents(self) -> u32 {
        512 / self.threads()
    }

    /// Packs of shared memory: for tiles of factors, or at the end for the sums of all parts.
    fn packs(self) -> u32 {
        let [rows, parts, depth, stages] =
            [self.rows, self.parts, self.depth, self.stages].map(u32::from);
        let factors = ((stages + 1) * rows + stages * COLUMNS) * depth;
        parts * factors.max(rows * COLUMNS) / 4
    }

    /// How many there are of a matrix.
    fn count(self, problem: &Problem) -> usize {
        let across = problem.n.div_ceil(COLUMNS as usize);
        problem.m.div_ceil(self.rows.into()).saturating_mul(across)
    }

    /// The tile for a stream that may be alone, or for one of `many`, if that is another.
    fn of(problem: &Problem, limits: &Limits, many: bool) -> Option<Tile> {
        let tiles = LARGE.count(problem).saturating_mul(problem.matrices());
        let rows = |tile: Tile| problem.m.next_multiple_of(tile.rows.into());
        match (tiles >= limits.compute_units as usize, many) {
            (true, false) => Some(LARGE),
            (false, false) => Some(FLAT),
            (false, true) if rows(MANY) == rows(FLAT) => Some(MANY),
            (_, true) => None,
        }
    }
}

/// The launch that executes `op`, if this form takes it; of a stream among `many`, if that is another.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    many: bool,
    kind: impl Fn(Warpgroup) -> K,
) -> Option<Plan<K>> {
    let singles = [&op.a, &op.b, &op.out]
        .iter()
        .all(|view| view.dtype() == DType::F32);
    let fits = problem.m.min(problem.n) >= NARROWEST && (SHORTEST..LONG).contains(&problem.k);
    if !singles || !fits {
        return None;
    }
    problem.either_way(|problem| {
        let kernel = Warpgroup {
            ends: Ends::of(op),
            tile: Tile::of(problem, limits, many)?,
            b_along_k: problem.in_packs(op)?,
            batch_rank: problem.batch().len() as u8,
            windows: false,
        };
        let dispatch = kernel.dispatch(op.alpha, problem, problem.operands(op), &kind);
        Some(Plan::of(dispatch))
    })
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
        batch_rank: 0,
        windows: true,
    };
    let mut dispatch = kernel.dispatch(1.0, &problem, windows::operands(op), kind);
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
        let across = problem.n.div_ceil(COLUMNS as usize);
        Dispatch {
            groups: matrices::groups(self.tile.count(problem), problem),
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
        let Tile {
            rows,
            parts,
            depth,
            stages,
        } = self.tile;
        let packs = self.tile.packs();
        let mut functions = ends(self.ends);
        functions.push_str(tiles(dialect));
        constants(
            &mut functions,
            &[
                ("ROWS", rows.into()),
                ("PARTS", parts.into()),
                ("DEPTH", depth.into()),
                ("STAGES", stages.into()),
                ("RESIDENTS", self.tile.residents()),
                ("WINDOWS", self.windows.into()),
                ("B_ALONG_K", self.b_along_k.into()),
            ],
        );
        functions.push_str(include_str!("warpgroup_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("warpgroup_body.h"));
        let mut params = matrices::fields(self.ends, self.batch_rank);
        if self.windows {
            params.extend(windows::fields());
        }
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
