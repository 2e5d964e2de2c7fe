//! The product of any matrices: tiles of both in shared memory, a block of sums in each thread.

use streampool_device::{DType, MatMul};

use super::problem::{Batch, Problem};
use super::shared_text::{alpha_type, buffers, constants, ends, walk_fields};
use super::{Ends, Product};
use crate::text::{Dialect, Field, KernelText, SharedArray};
use crate::{Dispatch, Kernel, Limits, Params, Plan};

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

const THREADS: u32 = 256;
/// Threads along each side of a tile.
const SIDE: u32 = 16;
/// How far a tile reaches along the inner dimension.
const DEPTH: u32 = 16;
/// Unused elements behind each line of a tile: lines begin in different banks, and stay aligned.
const GAP: u32 = 4;
/// Groups along the second axis of the grid; matrices beyond go to the third.
const MATRICES_Y: u32 = 65535;

pub(super) fn plan(op: &MatMul, problem: &Problem, limits: &Limits) -> Plan {
    // Neighbouring threads write along columns, which should be the way the result is dense.
    let turned;
    let problem =
        match problem.out.row.unsigned_abs() < problem.out.column.unsigned_abs() && problem.m > 1 {
            true => {
                turned = problem.transposed();
                &turned
            }
            false => problem,
        };
    let ends = Ends::of(op);
    let matrices = problem.matrices();
    let tile = tile(ends.dtype, problem, limits);
    let [tiles_m, tiles_n] = [
        problem.m.div_ceil(usize::from(tile[0])),
        problem.n.div_ceil(usize::from(tile[1])),
    ];
    let kernel = Tiled {
        ends,
        tile,
        a_along_k: nearer(problem.a.column, problem.k, problem.a.row, problem.m),
        b_along_k: nearer(problem.b.row, problem.k, problem.b.column, problem.n),
        batch_rank: problem.batch().len() as u8,
    };
    Plan::of(Dispatch {
        kernel: Kernel::Product(Product::Tiled(kernel)),
        // Results do not overlap in memory, so there are fewer of them than groups can be counted.
        groups: [
            (tiles_m * tiles_n) as u32,
            matrices.min(MATRICES_Y as usize) as u32,
            matrices.div_ceil(MATRICES_Y as usize) as u32,
        ],
        threads: THREADS,
        operands: problem.operands(op),
        params: kernel.values(op.alpha, problem, tiles_n as u32),
    })
}

/// Whether the first of two dimensions, each a stride and a size, is the one to read along.
fn nearer(stride: i64, size: usize, other_stride: i64, other_size: usize) -> bool {
    size > 1 && (other_size == 1 || stride.unsigned_abs() <= other_stride.unsigned_abs())
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
    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        for operand in self.operands() {
            fields.extend(walk_fields(operand));
        }
        fields.extend(["m", "n", "k"].map(|name| Field::new("i64", name)));
        for axis in 0..self.batch_rank {
            for operand in self.operands() {
                fields.push(Field::new("i64", format!("{operand}_batch_{axis}")));
            }
        }
        for axis in 0..self.batch_rank {
            fields.push(Field::new("u32", format!("size_{axis}")));
        }
        fields.push(Field::new("u32", "matrices"));
        fields.push(Field::new("u32", "tiles_n"));
        fields.extend(alpha_type(self.ends.dtype).map(|ty| Field::new(ty, "alpha")));
        fields
    }

    /// The values of [`Tiled::fields`].
    fn values(&self, alpha: f64, problem: &Problem, tiles_n: u32) -> Params {
        let bias = self.ends.bias;
        let mut params = Params::new();
        for walk in [problem.a, problem.b, problem.out] {
            params = walk.append_to(params);
        }
        if bias {
            params = problem.bias.append_to(params);
        }
        for size in [problem.m, problem.n, problem.k] {
            params = params.i64(size as i64);
        }
        for batch in problem.batch() {
            params = params.i64(batch.a).i64(batch.b).i64(batch.out);
            if bias {
                params = params.i64(batch.bias);
            }
        }
        for &Batch { size, .. } in problem.batch() {
            params = params.u32(size as u32);
        }
        params = params.u32(problem.matrices() as u32).u32(tiles_n);
        match alpha_type(self.ends.dtype) {
            Some("f64") => params.f64(alpha),
            Some(_) => params.f32(alpha as f32),
            None => params,
        }
    }

    fn operands(&self) -> impl Iterator<Item = &'static str> {
        let bias = self.ends.bias.then_some("bias");
        ["a", "b", "out"].into_iter().chain(bias)
    }

    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.ends.dtype == DType::F64 {
            return None;
        }
        let [rows, columns] = self.tile.map(u32::from);
        let [row_run, column_run] = [rows, columns].map(|tile| (tile / SIDE).min(4));
        let mut functions = ends(self.ends);
        constants(
            &mut functions,
            &[
                ("THREADS", THREADS),
                ("SIDE", SIDE),
                ("DEPTH", DEPTH),
                ("MATRICES_Y", MATRICES_Y),
                ("ROWS", rows),
                ("COLUMNS", columns),
                ("ROW_PITCH", rows + GAP),
                ("COLUMN_PITCH", columns + GAP),
                ("ROW_RUN", row_run),
                ("COLUMN_RUN", column_run),
                ("A_ALONG_K", u32::from(self.a_along_k)),
                ("B_ALONG_K", u32::from(self.b_along_k)),
            ],
        );
        functions.push_str(include_str!("tiled_functions.h"));
        let mut body = self.matrix_text();
        body.push_str(include_str!("tiled_body.h"));
        let shared = |ty, name, pitch, run| SharedArray {
            ty,
            name,
            length: (DEPTH * pitch / run) as usize,
        };
        Some(KernelText {
            entry: "product_tiled",
            buffers: buffers(self.ends),
            params: self.fields(),
            shared: vec![
                shared("RowRun", "a_runs", rows + GAP, row_run),
                shared("ColumnRun", "b_runs", columns + GAP, column_run),
            ],
            threads: Some(THREADS),
            functions,
            body,
        })
    }

    /// Begins the body: where this group's matrices lie.
    fn matrix_text(&self) -> String {
        let mut text = String::new();
        text.push_str("    const u32 matrix = group_z * MATRICES_Y + group_y;\n");
        text.push_str("    if (matrix >= p.matrices) { return; }\n");
        for operand in self.operands() {
            text.push_str(&format!("    i64 {operand}_at = p.{operand}_at;\n"));
        }
        if self.batch_rank > 0 {
            text.push_str("    u32 rest = matrix;\n");
        }
        for axis in (0..self.batch_rank).rev() {
            text.push_str("    {\n");
            text.push_str(&format!(
                "        const i64 index = rest % p.size_{axis};\n"
            ));
            text.push_str(&format!("        rest /= p.size_{axis};\n"));
            for operand in self.operands() {
                text.push_str(&format!(
                    "        {operand}_at += index * p.{operand}_batch_{axis};\n"
                ));
            }
            text.push_str("    }\n");
        }
        text
    }
}
