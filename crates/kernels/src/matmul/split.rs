//! The product of `f32` on tensor cores: each factor as the sum of two TF32 numbers.
//!
//! TF32 has the range of `f32` and 11 of its 24 bits; what the first number leaves, the second holds. Of the four
//! products of parts, the smallest is left out: what is lost of each product is below 2^-21 of it. Tensor cores cut
//! their sums instead of rounding them, so only few products are summed there, and these sums in registers: a long sum
//! is as exact as one that rounds at each step. Parts of what is infinite, or beyond TF32's last number, are not
//! finite: such a result is computed again as the plain sum that it is.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::matrices;
use super::problem::{LONGEST, Problem};
use super::shared_text::{buffers, ends};
use crate::dispatch::{Dispatch, Limits, Plan};
use crate::text::{Dialect, KernelText, MOST_SHARED, SharedArray, constants, tiles};

/// Tiles of results, each by eight warps of 32 × 32 that divide its inner dimension into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Split {
    ends: Ends,
    shape: Shape,
    /// Whether the second factor is dense along the inner dimension; else along its rows.
    b_along_k: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
}

/// What eight warps compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    /// 64 × 64 results, in two parts.
    Square,
    /// 32 × 64 results, in four parts: they keep twice as many processors busy, and are there in half the time.
    Flat,
}

impl Shape {
    fn rows(self) -> u32 {
        match self {
            Shape::Square => 64,
            Shape::Flat => 32,
        }
    }

    fn parts(self) -> u32 {
        THREADS / (self.rows() * COLUMNS / 32)
    }

    /// Bytes of a tile of both factors.
    fn tile(self) -> u32 {
        (self.rows() + COLUMNS) * DEPTH * 4
    }

    /// Tiles of each part, as many as shared memory holds: one is multiplied while the others are fetched.
    fn stages(self) -> u32 {
        MOST_SHARED / (self.parts() * self.tile())
    }
}

const THREADS: u32 = 256;
/// Columns of a tile of results.
const COLUMNS: u32 = 64;
/// How far a tile of factors reaches along the inner dimension.
const DEPTH: u32 = 16;
/// With fewer rows or columns, libraries have better forms.
pub(super) const NARROWEST: usize = 64;
/// With fewer terms, starting and ending takes longer than multiplying.
pub(super) const SHORTEST: usize = 32;
/// With more terms and few tiles, libraries divide the sums among processors.
pub(super) const LONG: usize = 2048;

/// The launch that executes `op`, if this form takes it.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl Fn(Split) -> K,
) -> Option<Plan<K>> {
    let singles = [&op.a, &op.b, &op.out]
        .iter()
        .all(|view| view.dtype() == DType::F32);
    let fits = problem.m.min(problem.n) >= NARROWEST && (SHORTEST..LONGEST).contains(&problem.k);
    if !singles || !fits {
        return None;
    }
    problem.either_way(|problem| planned(op, problem, limits, &kind))
}

fn planned<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl FnOnce(Split) -> K,
) -> Option<Plan<K>> {
    let b_along_k = problem.in_packs(op)?;
    let ends = Ends::of(op);
    let tiles_n = problem.n.div_ceil(COLUMNS as usize);
    let tiles = |shape: Shape| problem.m.div_ceil(shape.rows() as usize) * tiles_n;
    let busy = |shape| tiles(shape) * problem.matrices() >= limits.compute_units as usize;
    if problem.k > LONG && !busy(Shape::Flat) {
        return None;
    }
    let shape = if busy(Shape::Square) {
        Shape::Square
    } else {
        Shape::Flat
    };
    let kernel = Split {
        ends,
        shape,
        b_along_k,
        batch_rank: problem.batch().len() as u8,
    };
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: matrices::groups(tiles(shape), problem),
        threads: THREADS,
        operands: problem.operands(op),
        params: matrices::values(op.alpha, ends, problem, tiles_n),
    }))
}

impl Split {
    /// Nothing in Metal's dialect: there is no TF32.
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal {
            return None;
        }
        let mut functions = ends(self.ends);
        functions.push_str(tiles(dialect));
        constants(
            &mut functions,
            &[
                ("ROWS", self.shape.rows()),
                ("COLUMNS", COLUMNS),
                ("DEPTH", DEPTH),
                ("PARTS", self.shape.parts()),
                ("PART_THREADS", THREADS / self.shape.parts()),
                ("STAGES", self.shape.stages()),
                ("B_ALONG_K", u32::from(self.b_along_k)),
                ("RESIDENTS", 2),
            ],
        );
        functions.push_str(include_str!("copies_functions.h"));
        functions.push_str(include_str!("split_numbers.h"));
        functions.push_str(include_str!("split_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("split_body.h"));
        Some(KernelText {
            entry: "product_split",
            buffers: buffers(self.ends),
            params: matrices::fields(self.ends, self.batch_rank),
            shared: vec![SharedArray::new(
                "Words",
                "words",
                (self.shape.parts() * self.shape.stages() * self.shape.tile() / 16) as usize,
            )],
            threads: Some(THREADS),
            functions,
            body,
        })
    }
}
