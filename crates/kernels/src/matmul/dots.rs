//! Few rows by a matrix with dense columns: each result is a dot product of two dense vectors.

use streampool_device::MatMul;

use super::ends::Ends;
use super::few_rows::{fields, rounded_rows, words};
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use crate::dispatch::Limits;
use crate::text::{KernelText, SharedArray, constants};

/// Few rows by a matrix with dense columns. Each warp reads some columns, or its part of them, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dots {
    ends: Ends,
    /// Rows of the result, rounded up to a power of two.
    rows: u8,
    /// Columns of the result that a warp computes.
    columns: u8,
    /// Elements of each load.
    width: u8,
    /// Loads of a column that a thread has under way at a time.
    turns: u8,
    /// Warps that share a column's length.
    parts: u8,
    /// Warps of a group.
    warps: u8,
}

/// The most warps of a group.
const MOST_WARPS: u32 = 8;
/// Warps of one processor beyond which more do not make it faster.
const BUSY_WARPS: u32 = 16;
/// More results than this are as good as this many: every device is busy.
const MANY_RESULTS: usize = 1 << 20;

impl Dots {
    pub(super) fn new(op: &MatMul, problem: &Problem, width: u32, limits: &Limits) -> Dots {
        let rows = rounded_rows(problem.m);
        let units = limits.compute_units;
        let results = (problem.n * problem.matrices()).min(MANY_RESULTS) as u32;
        // With more columns, a warp reads the rows less often; with fewer, there are more warps.
        let columns = match rows {
            4 if results >= 16 * units => 2,
            8 if results >= 4 * units => 2,
            16 if results >= 8 * units => 4,
            16 if results >= 2 * units => 2,
            _ => 1,
        };
        let warps = results.div_ceil(columns);
        let loads = (problem.k as u32).div_ceil(32 * width);
        // As many as registers hold.
        let most_turns = match rows {
            1 | 2 => 8,
            4 => 4,
            8 => 2,
            _ => 1,
        };
        let mut parts = 1;
        while parts < MOST_WARPS
            && loads > most_turns * parts
            && warps * parts * 2 <= units * BUSY_WARPS
        {
            parts *= 2;
        }
        let mut group = MOST_WARPS;
        while group > parts && warps * parts * 10 < units * group * 9 {
            group /= 2;
        }
        // As even as possible, so that there is no remainder where there need not be.
        let turns = loads.div_ceil(parts);
        let turns = turns.div_ceil(turns.div_ceil(most_turns));
        Dots {
            ends: Ends::of(op),
            rows: rows as u8,
            columns: columns as u8,
            width: width as u8,
            turns: turns as u8,
            parts: parts as u8,
            warps: group as u8,
        }
    }

    /// Columns of the result that a group computes.
    pub(super) fn columns(&self) -> usize {
        usize::from(self.columns) * usize::from(self.warps / self.parts)
    }

    pub(super) fn threads(&self) -> u32 {
        u32::from(self.warps) * 32
    }

    pub(super) fn text(&self) -> KernelText {
        let [rows, columns, width, turns, parts, warps] = [
            self.rows,
            self.columns,
            self.width,
            self.turns,
            self.parts,
            self.warps,
        ]
        .map(u32::from);
        let mut functions = ends(self.ends);
        constants(
            &mut functions,
            &[
                ("ROWS", rows),
                ("COLUMNS", columns),
                ("WIDTH", width),
                ("TURNS", turns),
                ("PARTS", parts),
                ("SETS", warps / parts),
                // A sum is added to as soon as the last addition to it is complete, so few take turns.
                ("CHAINS", (4 / (rows * columns)).clamp(1, width)),
            ],
        );
        functions.push_str(&words(self.ends.dtype, width));
        functions.push_str(include_str!("small_functions.h"));
        functions.push_str(include_str!("dots_functions.h"));
        let shared = SharedArray::new("f32", "partial", (warps * rows * columns) as usize);
        KernelText {
            entry: "product_dots",
            buffers: buffers(self.ends),
            params: fields(),
            shared: (parts > 1).then_some(shared).into_iter().collect(),
            threads: Some(self.threads()),
            functions,
            body: include_str!("dots_body.h").to_owned(),
        }
    }
}
