//! Few rows by a matrix with dense rows: the result is a sum of its rows.

use streampool_device::MatMul;

use super::ends::Ends;
use super::few_rows::{fields, rounded_rows, words};
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use crate::dispatch::Limits;
use crate::text::{KernelText, SharedArray, constants};

/// Few rows by a matrix with dense rows. Each group reads a strip of columns once, its threads different rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sums {
    ends: Ends,
    /// Rows of the result, rounded up to a power of two.
    rows: u8,
    /// Elements of each load.
    width: u8,
    /// Neighbouring threads that read one row.
    lines: u8,
    /// Rows that a thread has under way at a time.
    turns: u8,
    /// Warps of a group.
    warps: u8,
}

/// The most sums of a thread.
const MOST_SUMS: u32 = 64;
/// The least and the most bytes of a row that a group reads: a sector of memory and a line of them.
const STRIP_BYTES: [u32; 2] = [32, 128];
/// The most warps of a group.
const MOST_WARPS: u32 = 16;
/// The most bytes that a group shares, as many as every device has.
const MOST_SHARED: u32 = 32 << 10;

impl Sums {
    pub(super) fn new(op: &MatMul, problem: &Problem, width: u32, limits: &Limits) -> Sums {
        let rows = rounded_rows(problem.m);
        let [n, k, matrices] = [problem.n, problem.k, problem.matrices()].map(|size| size as u32);
        let width = width.min(MOST_SUMS / rows);
        let units = limits.compute_units;
        let bytes = width * op.a.dtype().size() as u32;
        let [least, mut lines] = STRIP_BYTES.map(|strip| (strip / bytes).min(32));
        while lines > least && n.div_ceil(lines * width) < units.div_ceil(matrices) {
            lines /= 2;
        }
        // As many as registers hold.
        let most_turns = match rows {
            1 | 2 => 8,
            4 | 8 => 4,
            _ => 2,
        };
        let shared = |warps: u32| warps * lines * width * rows * size_of::<f32>() as u32;
        let mut warps = 2;
        while warps < MOST_WARPS
            && warps * 32 / lines * most_turns < k
            && shared(warps * 2) <= MOST_SHARED.min(limits.shared_bytes)
        {
            warps *= 2;
        }
        let turns = k.div_ceil(warps * 32 / lines);
        Sums {
            ends: Ends::of(op),
            rows: rows as u8,
            width: width as u8,
            lines: lines as u8,
            turns: turns.div_ceil(turns.div_ceil(most_turns)) as u8,
            warps: warps as u8,
        }
    }

    /// Columns of the result that a group computes.
    pub(super) fn columns(&self) -> usize {
        usize::from(self.lines) * usize::from(self.width)
    }

    pub(super) fn threads(&self) -> u32 {
        u32::from(self.warps) * 32
    }

    pub(super) fn text(&self) -> KernelText {
        let [rows, width, lines, turns, warps] =
            [self.rows, self.width, self.lines, self.turns, self.warps].map(u32::from);
        let mut functions = ends(self.ends);
        constants(
            &mut functions,
            &[
                ("ROWS", rows),
                ("WIDTH", width),
                ("LINES", lines),
                ("TURNS", turns),
                ("WARPS", warps),
            ],
        );
        functions.push_str(&words(self.ends.dtype, width));
        functions.push_str(include_str!("small_functions.h"));
        functions.push_str(include_str!("sums_functions.h"));
        KernelText {
            entry: "product_sums",
            buffers: buffers(self.ends),
            params: fields(),
            shared: vec![SharedArray::new(
                "f32",
                "partial",
                (warps * lines * width * rows) as usize,
            )],
            threads: Some(self.threads()),
            functions,
            body: include_str!("sums_body.h").to_owned(),
        }
    }
}
