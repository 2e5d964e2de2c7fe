//! The product of any matrices: tiles of both in shared memory, a block of sums in each thread.

use streampool_device::{DType, MatMul};

use super::ends::Ends;
use super::matrices;
use super::problem::Problem;
use super::shared_text::{buffers, ends};
use crate::dispatch::{Dispatch, Limits, Plan};
use crate::register_blocks::{self, MULTIPLY, THREADS};
use crate::text::{Dialect, KernelText, constants};

/// Tiles of both operands in shared memory, a block of sums in each of 256 threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiled {
    ends: Ends,
    /// Rows and columns of the result that a group computes: 16, 32, 64 or 128.
    tile: [u8; 2],
    /// Whether neighbouring threads read `a` along the inner dimension.
    a_along_k: bool,
    /// Whether neighbouring threads read `b` along the inner dimension.
    b_along_k: bool,
    /// Dimensions of matrices.
    batch_rank: u8,
}

pub(super) fn plan<K>(
    op: &MatMul,
    problem: &Problem,
    limits: &Limits,
    kind: impl FnOnce(Tiled) -> K,
) -> Plan<K> {
    let problem = problem.written_along_columns();
    let ends = Ends::of(op);
    let tile = tile(ends.dtype, &problem, limits);
    let [a_along_k, b_along_k] = problem.read_along_k();
    let [tiles_m, tiles_n] = [
        problem.m.div_ceil(usize::from(tile[0])),
        problem.n.div_ceil(usize::from(tile[1])),
    ];
    let kernel = Tiled {
        ends,
        tile,
        a_along_k,
        b_along_k,
        batch_rank: problem.batch().len() as u8,
    };
    Plan::of(Dispatch {
        kernel: kind(kernel),
        // Results do not overlap in memory, so there are fewer of them than groups can be counted.
        groups: matrices::groups(tiles_m * tiles_n, &problem),
        threads: THREADS,
        operands: problem.operands(op),
        params: matrices::values(op.alpha, ends, &problem, tiles_n),
    })
}

/// Large tiles read less, small ones occupy more of the device.
fn tile(dtype: DType, problem: &Problem, limits: &Limits) -> [u8; 2] {
    let groups =
        |side: usize| problem.m.div_ceil(side) * problem.n.div_ceil(side) * problem.matrices();
    let most = match limits.compute_units as usize {
        units if groups(128) >= units && dtype != DType::F64 => 128,
        units if groups(64) >= units => 64,
        _ => 32,
    };
    let side = |size: usize| size.next_power_of_two().clamp(16, most);
    match (side(problem.m), side(problem.n)) {
        // Long blocks of sums in a thread pay only when both sides are long.
        (128, 128) => [128; 2],
        (rows, columns) => [rows.min(64) as u8, columns.min(64) as u8],
    }
}

impl Tiled {
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.ends.dtype == DType::F64 {
            return None;
        }
        let tile = self.tile.map(u32::from);
        let mut functions = ends(self.ends);
        register_blocks::functions(&mut functions, tile);
        constants(
            &mut functions,
            &[
                ("A_ALONG_K", u32::from(self.a_along_k)),
                ("B_ALONG_K", u32::from(self.b_along_k)),
            ],
        );
        functions.push_str(
            "typedef Number Element;\n\
             FUNCTION Element element(Stored stored) { return loaded(stored); }\n",
        );
        functions.push_str(include_str!("fetch_functions.h"));
        functions.push_str(include_str!("tiled_functions.h"));
        let mut body = matrices::begin(self.ends, self.batch_rank);
        body.push_str(include_str!("fetch_body.h"));
        for part in [
            include_str!("tiled_body.h"),
            MULTIPLY,
            include_str!("tiled_end.h"),
        ] {
            body.push_str(part);
        }
        Some(KernelText {
            entry: "product_tiled",
            buffers: buffers(self.ends),
            params: matrices::fields(self.ends, self.batch_rank),
            shared: register_blocks::shared(tile),
            threads: Some(THREADS),
            functions,
            body,
        })
    }
}
