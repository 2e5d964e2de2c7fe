//! The product on Apple's GPUs from family 7 on: simdgroups multiply matrices of 8 x 8, which their 32 threads hold
//! together.
//!
//! Factors stay in their type, whose products are exact in `f32`, and are summed in `f32`.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::few_rows::MOST_ROWS;
use super::matrices;
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use crate::dispatch::{Dispatch, Limits, Plan};
use crate::text::{Dialect, KernelText, SharedArray, constants};

/// Tiles of both operands in threadgroup memory, and matrices of sums in four simdgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blocks {
    ends: Ends,
    /// Rows and columns of the result that a group computes: 32 or 64.
    side: u8,
    /// Whether neighbouring threads read `a` along the inner dimension.
    a_along_k: bool,
    /// Whether neighbouring threads read `b` along the inner dimension.
    b_along_k: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
}

const SIMDGROUPS: u32 = 4;
const THREADS: u32 = SIMDGROUPS * 32;
/// How far a tile reaches along the inner dimension. Shorter sums would be mostly zeros.
const DEPTH: u32 = 16;
/// Unused bytes behind each line of a tile: lines begin in different banks, and stay aligned.
const GAP_BYTES: u32 = 16;
/// Unused numbers behind each line of finished sums, for the same reason.
const STRIP_GAP: u32 = 8;
/// Bytes of an element of threadgroup memory.
const WORD: u32 = 16;

/// The launch that executes `op`, if this form takes it.
pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl FnOnce(Blocks) -> K,
) -> Option<Plan<K>> {
    let floats = matches!(op.a.dtype(), DType::F32 | DType::F16 | DType::BF16);
    // Fewer rows would leave most of a tile empty, and have forms of their own.
    let fits = problem.m.min(problem.n) > MOST_ROWS && problem.k >= DEPTH as usize;
    if !floats || !fits {
        return None;
    }
    let problem = problem.written_along_columns();
    let ends = Ends::of(op);
    let [a_along_k, b_along_k] = problem.read_along_k();
    let kernel = Blocks {
        ends,
        side: side(&problem, limits),
        a_along_k,
        b_along_k,
        batch_rank: problem.batch().len() as u8,
    };
    let [tiles_m, tiles_n] =
        [problem.m, problem.n].map(|size| size.div_ceil(usize::from(kernel.side)));
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: matrices::groups(tiles_m * tiles_n, &problem),
        threads: THREADS,
        operands: problem.operands(op),
        params: matrices::values(op.alpha, ends, &problem, tiles_n),
    }))
}

/// Large tiles read less, small ones occupy more of the device.
fn side(problem: &Problem, limits: &Limits) -> u8 {
    let groups = problem.m.div_ceil(64) * problem.n.div_ceil(64) * problem.matrices();
    match problem.m.min(problem.n) > 32 && groups >= limits.compute_units as usize {
        true => 64,
        false => 32,
    }
}

impl Blocks {
    /// Nothing in CUDA's dialect: its matrices are others.
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Cuda {
            return None;
        }
        let factor = match self.ends.dtype {
            DType::F16 => "half",
            DType::BF16 => "bfloat",
            _ => "f32",
        };
        let side = u32::from(self.side);
        let mut functions = "#include <metal_simdgroup_matrix>\n".to_owned();
        functions.push_str(&ends(self.ends));
        functions.push_str(&format!(
            "typedef {factor} Factor;\ntypedef Stored Element;\n\
             FUNCTION Element element(Stored stored) {{ return stored; }}\n"
        ));
        constants(
            &mut functions,
            &[
                ("THREADS", THREADS),
                ("DEPTH", DEPTH),
                ("ROWS", side),
                ("COLUMNS", side),
                ("A_ALONG_K", u32::from(self.a_along_k)),
                ("B_ALONG_K", u32::from(self.b_along_k)),
                ("GAP", GAP_BYTES / self.ends.dtype.size() as u32),
                ("STRIP_GAP", STRIP_GAP),
            ],
        );
        functions.push_str(include_str!("fetch_functions.h"));
        functions.push_str(include_str!("blocks_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("fetch_body.h"));
        body.push_str(include_str!("blocks_body.h"));
        Some(KernelText {
            entry: "product_blocks",
            buffers: buffers(self.ends),
            params: matrices::fields(self.ends, self.batch_rank),
            shared: vec![SharedArray::new(
                "float4",
                "words",
                self.tile_bytes().max(self.strip_bytes()).div_ceil(WORD) as usize,
            )],
            threads: Some(THREADS),
            functions,
            body,
        })
    }

    /// Of the tiles of both operands.
    fn tile_bytes(&self) -> u32 {
        let (side, size) = (u32::from(self.side), self.ends.dtype.size() as u32);
        let bytes = |along_k: bool| {
            let (lines, length) = if along_k {
                (side, DEPTH)
            } else {
                (DEPTH, side)
            };
            lines * (length * size + GAP_BYTES)
        };
        bytes(self.a_along_k) + bytes(self.b_along_k)
    }

    /// Of the sums that all simdgroups finish at a time, in the same place.
    fn strip_bytes(&self) -> u32 {
        let strip = 8 * (u32::from(self.side) / 2 + STRIP_GAP);
        SIMDGROUPS * strip * size_of::<f32>() as u32
    }
}
