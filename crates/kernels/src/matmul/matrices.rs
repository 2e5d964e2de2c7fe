//! Products of any strides and batches, a tile of one matrix for each group: how many groups, their parameters, and
//! how each finds its matrices.

use std::fmt::Write;

use super::ends::Ends;
use super::problem::{Batch, Problem};
use super::shared_text::{alpha_type, walk_fields};
use crate::dispatch::{Params, grid};
use crate::text::Field;

/// Groups along the second axis of the grid; matrices beyond go to the third.
const MATRICES_Y: usize = 65535;

/// The grid of so many tiles of each matrix.
pub(super) fn groups(tiles: usize, problem: &Problem) -> [u32; 3] {
    let matrices = problem.matrices();
    grid([
        tiles,
        matrices.min(MATRICES_Y),
        matrices.div_ceil(MATRICES_Y),
    ])
}

/// The parameters of such a product with so many dimensions of matrices.
pub(super) fn fields(ends: Ends, batch_rank: u8) -> Vec<Field> {
    let mut fields = Vec::new();
    for operand in operands(ends) {
        fields.extend(walk_fields(operand));
    }
    fields.extend(["m", "n", "k"].map(|name| Field::new("i64", name)));
    for axis in 0..batch_rank {
        for operand in operands(ends) {
            fields.push(Field::new("i64", format!("{operand}_batch_{axis}")));
        }
    }
    for axis in 0..batch_rank {
        fields.push(Field::new("u32", format!("size_{axis}")));
    }
    fields.push(Field::new("u32", "matrices"));
    fields.push(Field::new("u32", "tiles_n"));
    fields.extend(alpha_type(ends.dtype).map(|ty| Field::new(ty, "alpha")));
    fields
}

/// The values of [`fields`].
pub(super) fn values(alpha: f64, ends: Ends, problem: &Problem, tiles_n: usize) -> Params {
    let mut params = Params::new();
    for walk in [problem.a, problem.b, problem.out] {
        params = walk.append_to(params);
    }
    if ends.bias {
        params = problem.bias.append_to(params);
    }
    for size in [problem.m, problem.n, problem.k] {
        params = params.i64(size as i64);
    }
    for batch in problem.batch() {
        params = params.i64(batch.a).i64(batch.b).i64(batch.out);
        if ends.bias {
            params = params.i64(batch.bias);
        }
    }
    for &Batch { size, .. } in problem.batch() {
        params = params.size(size);
    }
    params = params.size(problem.matrices()).size(tiles_n);
    match alpha_type(ends.dtype) {
        Some("f64") => params.f64(alpha),
        Some(_) => params.f32(alpha as f32),
        None => params,
    }
}

/// Begins the body: where this group's matrices lie.
pub(super) fn begin(ends: Ends, batch_rank: u8) -> String {
    let mut text = format!("    const u32 matrix = group_z * {MATRICES_Y}u + group_y;\n");
    text.push_str("    if (matrix >= p.matrices) { return; }\n");
    for operand in operands(ends) {
        let _ = writeln!(text, "    i64 {operand}_at = p.{operand}_at;");
    }
    if batch_rank > 0 {
        text.push_str("    u32 rest = matrix;\n");
    }
    for axis in (0..batch_rank).rev() {
        text.push_str("    {\n");
        let _ = writeln!(text, "        const i64 index = rest % p.size_{axis};");
        let _ = writeln!(text, "        rest /= p.size_{axis};");
        for operand in operands(ends) {
            let _ = writeln!(
                text,
                "        {operand}_at += index * p.{operand}_batch_{axis};"
            );
        }
        text.push_str("    }\n");
    }
    text
}

fn operands(ends: Ends) -> impl Iterator<Item = &'static str> {
    let bias = ends.bias.then_some("bias");
    ["a", "b", "out"].into_iter().chain(bias)
}
